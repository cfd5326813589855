// Secure aggregation without a wire: exact sums whoever drops out at whatever stage, nothing below the threshold, and
// each side refusing, by name, what the other must not say.
#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/control/certificates.h"
#include "muster/federated/secure/secure_client.h"
#include "muster/federated/secure/secure_server.h"
#include "support/errors.h"

namespace muster::federated {
namespace {

using testing::expect_error;
using ::testing::HasSubstr;
using Verdict = SecureTaken::Verdict;
using Words = std::vector<std::uint32_t>;
using Set = std::set<std::uint64_t>;

// Clients are 10, 20, ...: their numbers are not their places.
std::vector<std::uint64_t> numbers(std::uint64_t clients) {
  std::vector<std::uint64_t> all(clients);
  for (std::uint64_t i = 0; i < clients; ++i)
    all[i] = 10 * (i + 1);
  return all;
}

SecureSetup setup_of(std::uint64_t clients, std::uint64_t words = 33, std::uint64_t threshold = 0) {
  return {.run = "run", .round = 4, .words = words, .most_clients = clients, .threshold = threshold};
}

// A round in which everything can be looked at and altered between two stages.
class Round {
 public:
  explicit Round(const SecureSetup& setup, const std::vector<ClientIdentity>& identities = {})
      : all_(numbers(setup.most_clients)),
        server_(setup, all_, identities.empty() ? "" : identities.front().authorities) {
    std::mt19937 draw(7);
    for (std::size_t i = 0; i < all_.size(); ++i) {
      clients_[all_[i]] =
          std::make_unique<SecureClient>(setup, all_[i], identities.empty() ? ClientIdentity() : identities[i]);
      updates_[all_[i]].resize(setup.words);
      std::ranges::generate(updates_[all_[i]], [&] { return static_cast<std::uint32_t>(draw()); });
    }
  }

  SecureServer& server() { return server_; }
  SecureClient& client(std::uint64_t number) { return *clients_.at(number); }

  void keys(const Set& away = {}) {
    for (const std::uint64_t one : left(away))
      EXPECT_EQ(server_.take_keys(client(one).advert()).verdict, Verdict::kTaken);
    server_.close_stage();
  }
  void shares(const Set& away = {}) {
    for (const std::uint64_t one : left(away))
      EXPECT_EQ(server_.take_shares(one, client(one).share_out(server_.keys())).verdict, Verdict::kTaken);
    server_.close_stage();
  }
  void masked(const Set& away = {}) {
    for (const std::uint64_t one : left(away)) {
      client(one).take_shares(server_.shares_for(one));
      Words words = updates_.at(one);
      client(one).mask(words);
      EXPECT_NE(words, updates_.at(one));
      EXPECT_EQ(server_.judge_masked(one).verdict, Verdict::kTaken);
      server_.take_masked(one);
      add(words, sum_);
      add(updates_.at(one), expected_);
    }
    server_.close_stage();
  }
  void agreement(const Set& away = {}) {
    for (const std::uint64_t one : left(away))
      EXPECT_EQ(server_.take_agreement(one, client(one).agree_on(server_.survivors())).verdict, Verdict::kTaken);
    server_.close_stage();
  }
  void unmasking(const Set& away = {}) {
    for (const std::uint64_t one : left(away)) {
      client(one).agree_on(server_.survivors());
      EXPECT_EQ(server_.take_unmasking(one, client(one).unmask(server_.agreements())).verdict, Verdict::kTaken);
    }
    server_.close_stage();
  }
  // As far as the survivors.
  void until_survivors() {
    keys();
    shares();
    masked();
  }
  Words unmasked() {
    Words sum = sum_;
    EXPECT_TRUE(server_.unmask(sum)) << server_.failure();
    return sum;
  }
  const Words& expected() const { return expected_; }
  const Words& masked_sum() const { return sum_; }

 private:
  static void add(const Words& words, Words& sum) {
    sum.resize(words.size());
    for (std::size_t i = 0; i < words.size(); ++i)
      sum[i] += words[i];
  }
  // Who is there in this stage, without those who leave in it: they stay away.
  std::vector<std::uint64_t> left(const Set& away) {
    away_.insert(away.begin(), away.end());
    std::vector<std::uint64_t> there;
    std::ranges::copy_if(server_.awaited(), std::back_inserter(there),
                         [&](std::uint64_t one) { return !away_.contains(one); });
    return there;
  }

  const std::vector<std::uint64_t> all_;
  SecureServer server_;
  std::map<std::uint64_t, std::unique_ptr<SecureClient>> clients_;
  std::map<std::uint64_t, Words> updates_;
  Set away_;
  Words sum_;
  Words expected_;
};

// Certificates of one authority, for clients "c0", "c1", ...
std::vector<ClientIdentity> identities_of(std::size_t clients,
                                          control::CallerRole role = control::CallerRole::kClient) {
  const auto now = std::chrono::system_clock::now();
  const control::CertificateLife life{now - std::chrono::hours(1), now + std::chrono::hours(1)};
  const control::SignedKey authority = control::make_authority("ours", life);
  std::vector<ClientIdentity> identities;
  for (std::size_t i = 0; i < clients; ++i) {
    const control::SignedKey own = make_certificate(authority, {.role = role, .name = "c" + std::to_string(i)}, life);
    identities.push_back({authority.certificate, own.certificate, own.key});
  }
  return identities;
}

TEST(SecureAggregation, TheSumIsExactWhenNobodyDropsOut) {
  Round round(setup_of(7));
  round.until_survivors();
  EXPECT_NE(round.masked_sum(), round.expected());
  round.unmasking();
  EXPECT_EQ(round.server().stage(), SecureStage::kOver);
  EXPECT_EQ(round.unmasked(), round.expected());
}

TEST(SecureAggregation, TheSumIsExactWhenThirtyOfAHundredDropOutAtEachStage) {
  // With the threshold of two thirds, at any one stage; the 100 of the issue with fewer words than it says, because
  // `muster bench secure-aggregation` has them all.
  for (int stage = 0; stage < 4; ++stage) {
    Round round(setup_of(20));
    const Set six{10, 20, 70, 130, 190, 200};
    const auto at = [&](int own) { return own == stage ? six : Set{}; };
    round.keys(at(0));
    round.shares(at(1));
    round.masked(at(2));
    round.unmasking(at(3));
    EXPECT_EQ(round.unmasked(), round.expected()) << stage;
  }
  // And at every stage of one round: 100, 70, 49, 35, 25.
  Round round(setup_of(100, 5, 25));
  std::mt19937 draw(5);
  const auto third = [&] {
    std::vector<std::uint64_t> there = round.server().awaited();
    std::ranges::shuffle(there, draw);
    there.resize(there.size() * 3 / 10);
    return Set(there.begin(), there.end());
  };
  round.keys(third());
  round.shares(third());
  round.masked(third());
  round.unmasking(third());
  EXPECT_EQ(round.server().survivors().size(), 35U);
  EXPECT_EQ(round.unmasked(), round.expected());
}

TEST(SecureAggregation, BelowTheThresholdNothingIsRevealedWhateverTheStage) {
  const Set four{10, 20, 30, 40};  // of 9, of whom 7 are needed
  for (int stage = 0; stage < 4; ++stage) {
    Round round(setup_of(9, 33, 7));
    const auto at = [&](int own) { return own == stage ? four : Set{}; };
    round.keys(at(0));
    if (stage > 0) round.shares(at(1));
    if (stage > 1) round.masked(at(2));
    if (stage > 2) round.unmasking(at(3));
    EXPECT_TRUE(round.server().failed());
    EXPECT_THAT(round.server().failure(), HasSubstr("5 clients")) << stage;
    EXPECT_THAT(round.server().failure(), HasSubstr("7 are needed: nothing is revealed"));
  }
}

TEST(SecureAggregation, SignedByCertificatesItGoesThroughAnAgreement) {
  const auto identities = identities_of(7);
  Round round(setup_of(7), identities);
  round.keys();
  round.shares({10});
  round.masked({20});
  round.agreement();
  round.unmasking();
  EXPECT_EQ(round.unmasked(), round.expected());
}

TEST(SecureAggregation, AServerTakesNoKeysThatAreNotSignedByAClientOfTheAuthority) {
  auto identities = identities_of(4);
  identities[1].certificate = identities[0].certificate;  // somebody else's
  identities[1].key = identities[0].key;
  identities[2].key = identities[0].key;  // does not fit
  const auto foreign = identities_of(1);
  identities[3].certificate = foreign[0].certificate;
  identities[3].key = foreign[0].key;
  Round round(setup_of(4), identities);
  const auto reason = [&](std::uint64_t client) {
    return round.server().take_keys(round.client(client).advert()).reason;
  };
  EXPECT_EQ(reason(10), "");
  EXPECT_THAT(reason(20), HasSubstr("certificate of client 10"));
  EXPECT_THAT(reason(30), HasSubstr("the signature is not its"));
  EXPECT_THAT(reason(40), HasSubstr("another authority"));
  KeyAdvert moved = round.client(10).advert();
  moved.client = 40;
  EXPECT_EQ(round.server().take_keys(moved).verdict, Verdict::kRefused);
  EXPECT_EQ(round.server().refused().size(), 3U);
}

TEST(SecureAggregation, AClientBelievesNoServerThatMakesUpKeysOrSurvivors) {
  const auto identities = identities_of(4);
  Round round(setup_of(4), identities);
  round.keys();
  const auto refuses = [&](const std::string& why, const auto& change) {
    KeyList keys = round.server().keys();
    change(keys);
    SecureClient fresh(setup_of(4), 10, identities[0]);
    for (KeyAdvert& advert : keys.adverts) {
      if (advert == round.client(10).advert()) advert = fresh.advert();
    }
    expect_error(ErrorKind::kMismatch, why, [&] { fresh.share_out(keys); });
  };
  const KeyPair made_up = make_key_pair();
  refuses("keys of client 30 do not count", [&](KeyList& keys) { keys.adverts[2].mask_key = made_up.open; });
  refuses("is there twice", [&](KeyList& keys) { keys.adverts[2] = keys.adverts[1]; });
  refuses("c1 is there twice", [&](KeyList& keys) {
    SecureClient sybil(setup_of(4), 30, identities[1]);
    keys.adverts[2] = sybil.advert();
  });
  refuses("to be enough", [&](KeyList& keys) { keys.threshold = 2; });
  refuses("own keys", [&](KeyList& keys) { keys.adverts.erase(keys.adverts.begin()); });
  refuses("room for 4", [&](KeyList& keys) {
    for (std::uint64_t more = 50; more < 90; more += 10) {
      keys.adverts.push_back(keys.adverts.back());
      keys.adverts.back().client = more;
    }
  });
  round.shares();
  round.masked();
  SecureClient& client = round.client(10);
  const std::vector<std::uint64_t> all = round.server().survivors();
  expect_error(ErrorKind::kMismatch, "without this client", [&] { client.agree_on({20, 30, 40}); });
  expect_error(ErrorKind::kMismatch, "3 is the least", [&] { client.agree_on({10, 20}); });
  expect_error(ErrorKind::kMismatch, "has not shared", [&] { client.agree_on({10, 20, 50}); });
  client.agree_on(all);
  // Shares of a seed and of a mask key of one client would tell its update.
  expect_error(ErrorKind::kMismatch, "now others", [&] { client.agree_on({10, 20, 30}); });
  std::vector<SignedAgreement> agreements;
  for (const std::uint64_t one : all)
    agreements.push_back({one, round.client(one).agree_on(all)});
  EXPECT_EQ(client.unmask(agreements).size(), 4U);
  agreements[1].signature = agreements[2].signature;
  expect_error(ErrorKind::kMismatch, "client 20 has not agreed", [&] { client.unmask(agreements); });
  agreements.resize(2);
  expect_error(ErrorKind::kMismatch, "2 clients agree", [&] { client.unmask(agreements); });
}

TEST(SecureAggregation, WithoutIdentitiesAThresholdOfHalfIsTheServersWordAndWithThemItIsRefused) {
  Round plain(setup_of(6, 33, 3));
  plain.until_survivors();
  plain.unmasking({10, 20, 30});
  EXPECT_EQ(plain.unmasked(), plain.expected());
  const auto identities = identities_of(6);
  Round checked(setup_of(6, 33, 3), identities);
  checked.keys();
  expect_error(ErrorKind::kMismatch, "not more than half",
               [&] { checked.client(10).share_out(checked.server().keys()); });
}

TEST(SecureAggregation, WhatIsOutOfTurnRepeatedMalformedOrLateIsRefusedOrAnsweredAsBefore) {
  Round round(setup_of(9));
  SecureServer& server = round.server();
  const KeyAdvert first = round.client(10).advert();
  EXPECT_EQ(server.judge_masked(10).verdict, Verdict::kRefused);
  EXPECT_EQ(server.take_shares(10, {}).verdict, Verdict::kRefused);
  EXPECT_EQ(server.take_keys(first).verdict, Verdict::kTaken);
  EXPECT_EQ(server.take_keys(first).verdict, Verdict::kRepeated);
  KeyAdvert other = first;
  other.seal_key = make_key_pair().open;
  EXPECT_EQ(server.take_keys(other).reason, "other keys of it are here already");
  other.client = 20;
  other.mask_key = PublicKey{};
  EXPECT_EQ(server.take_keys(other).reason, "says a public key that is none");
  EXPECT_EQ(server.take_keys(round.client(20).advert()).verdict, Verdict::kRefused);  // it had its chance
  other.client = 77;
  EXPECT_EQ(server.take_keys(other).verdict, Verdict::kRefused);  // was not asked
  round.keys({90});
  EXPECT_EQ(server.take_keys(round.client(90).advert()).verdict, Verdict::kLate);
  EXPECT_EQ(server.take_keys(first).verdict, Verdict::kRepeated);  // its answer was lost

  auto sealed = round.client(10).share_out(server.keys());
  EXPECT_EQ(server.take_shares(10, sealed).verdict, Verdict::kTaken);
  EXPECT_EQ(server.take_shares(10, sealed).verdict, Verdict::kRepeated);
  sealed[0].sealed[0] ^= std::byte{1};
  EXPECT_EQ(server.take_shares(10, sealed).reason, "other shares of it are here already");
  sealed = round.client(30).share_out(server.keys());
  sealed[1].sealed.pop_back();
  EXPECT_EQ(server.take_shares(30, sealed).reason, "sends shares that are none");
  round.shares();  // of those that are left
  EXPECT_FALSE(server.failed()) << server.failure();
  EXPECT_EQ(server.judge_masked(30).verdict, Verdict::kRefused);
  round.masked();
  EXPECT_EQ(server.judge_masked(10).verdict, Verdict::kRepeated);
  round.client(10).agree_on(server.survivors());
  auto told = round.client(10).unmask({});
  told[0].of_mask_key = !told[0].of_mask_key;
  EXPECT_EQ(server.take_unmasking(10, told).reason, "tells shares that nobody asked for");
  round.unmasking();
  EXPECT_EQ(round.unmasked(), round.expected());
  EXPECT_EQ(server.take_unmasking(40, {}).reason, "other shares of it are here already");
  EXPECT_EQ(server.refused().size(), 3U);  // 10, 20, 30
}

TEST(SecureAggregation, FalseSharesAreFoundAndDoneWithout) {
  Round round(setup_of(8));  // by 6
  round.keys();
  // One share of client 10 reaches client 20 as something else: it is left out of what 20 tells.
  for (const std::uint64_t one : round.server().awaited()) {
    auto sealed = round.client(one).share_out(round.server().keys());
    if (one == 10) sealed[0].sealed[5] ^= std::byte{1};
    round.server().take_shares(one, sealed);
  }
  round.server().close_stage();
  round.masked({80});
  for (const std::uint64_t one : round.server().awaited()) {
    round.client(one).agree_on(round.server().survivors());
    auto told = round.client(one).unmask({});
    EXPECT_EQ(told.size(), one == 20 ? 7U : 8U);
    if (one == 30) told[3].share[0] ^= 1;
    EXPECT_EQ(round.server().take_unmasking(one, told).verdict, Verdict::kTaken);
  }
  round.server().close_stage();
  EXPECT_EQ(round.unmasked(), round.expected());
  ASSERT_EQ(round.server().doubts().size(), 1U);
  EXPECT_THAT(round.server().doubts()[0], HasSubstr("client 30 tells a share of client 40"));
}

TEST(SecureAggregation, TooManyFalseSharesFailTheRoundAndNameWhoseSecretIsLost) {
  Round round(setup_of(5, 33, 4));
  round.until_survivors();
  for (const std::uint64_t one : round.server().awaited()) {
    round.client(one).agree_on(round.server().survivors());
    auto told = round.client(one).unmask({});
    if (one <= 20) told[2].share[1] += one;  // not the same: such may cancel
    round.server().take_unmasking(one, told);
  }
  round.server().close_stage();
  Words sum = round.masked_sum();
  EXPECT_FALSE(round.server().unmask(sum));
  EXPECT_THAT(round.server().failure(), HasSubstr("seed of client 30"));
}

TEST(SecureAggregation, NothingOfOneRoundPassesForAnother) {
  const auto identities = identities_of(4);
  SecureSetup later = setup_of(4);
  later.round = 5;
  SecureServer server(later, numbers(4), identities.front().authorities);
  const SecureClient old(setup_of(4), 10, identities[0]);
  EXPECT_THAT(server.take_keys(old.advert()).reason, HasSubstr("the signature is not its"));
}

}  // namespace
}  // namespace muster::federated
