// A stage's answers are kept as they came, by client; closing a stage makes of them what all are told. What OpenSSL can
// check (a share's secret against its public key, or against the hash of its seed) is checked before it is used.
#include "muster/federated/secure/secure_server.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/federated/secure/client_identity.h"
#include "muster/federated/secure/secure_client.h"

namespace muster::federated {
namespace {

using Verdict = SecureTaken::Verdict;

constexpr std::size_t kSealedShareBytes = 2 * sizeof(Share) + kSealBytes;
constexpr int kMostSearches = 5000;

const char* words_of(SecureStage stage) {
  switch (stage) {
    case SecureStage::kKeys:
      return "said their keys";
    case SecureStage::kShares:
      return "shared their secrets out";
    case SecureStage::kMasked:
      return "sent a masked update";
    case SecureStage::kAgreement:
      return "agreed who has survived";
    case SecureStage::kUnmask:
      return "helped to unmask the sum";
    case SecureStage::kOver:
      break;
  }
  return "";
}

}  // namespace

SecureServer::SecureServer(SecureSetup setup, std::vector<std::uint64_t> asked, std::string authorities)
    : setup_(std::move(setup)), asked_(std::move(asked)), authorities_(std::move(authorities)) {
}

bool SecureServer::takes_part(std::uint64_t client, SecureStage stage) const {
  if (refused_.contains(client)) return false;
  switch (stage) {
    case SecureStage::kKeys:
      return std::ranges::find(asked_, client) != asked_.end();
    case SecureStage::kShares:
      return std::ranges::find(keys_.adverts, client, &KeyAdvert::client) != keys_.adverts.end();
    case SecureStage::kMasked:
      return sharers_.contains(client);
    case SecureStage::kAgreement:
      return std::ranges::binary_search(survivors_, client);
    case SecureStage::kUnmask:
      return std::ranges::binary_search(survivors_, client) &&
             (authorities_.empty() ||
              std::ranges::find(agreements_, client, &SignedAgreement::client) != agreements_.end());
    case SecureStage::kOver:
      break;
  }
  return false;
}

void SecureServer::refuse(std::uint64_t client, const std::string& reason) {
  refused_.try_emplace(client, reason);
}

SecureTaken SecureServer::out(std::uint64_t client, const std::string& reason) {
  refuse(client, reason);
  return {Verdict::kRefused, reason};
}

std::optional<SecureTaken> SecureServer::out_of_turn(std::uint64_t client, SecureStage stage) const {
  if (const auto before = refused_.find(client); before != refused_.end())
    return SecureTaken{Verdict::kRefused, before->second};
  if (stage_ > stage) return SecureTaken{Verdict::kLate, fmt::format("others have {} before", words_of(stage))};
  if (stage_ < stage || !takes_part(client, stage))
    return SecureTaken{Verdict::kRefused, "it is not its turn, or it has no part in this stage"};
  return std::nullopt;
}

SecureTaken SecureServer::take_keys(const KeyAdvert& advert) {
  const std::uint64_t client = advert.client;
  if (const auto before = adverts_.find(client); before != adverts_.end() && !refused_.contains(client))
    return before->second == advert ? SecureTaken{Verdict::kRepeated, ""}
                                    : SecureTaken{Verdict::kRefused, "other keys of it are here already"};
  if (auto answer = out_of_turn(client, SecureStage::kKeys)) return *answer;
  const Secret probe = random_secret();
  for (const PublicKey& key : {advert.seal_key, advert.mask_key}) {
    if (!agree(probe, key, "probe")) return out(client, "says a public key that is none");
  }
  if (!authorities_.empty()) {
    const SignatureVerdict verdict =
        judge_signature(authorities_, advert.certificate, signed_text(setup_, advert), advert.signature);
    if (!verdict.reason.empty()) return out(client, "has not signed its keys: " + verdict.reason);
    const auto [same, first] = names_.try_emplace(verdict.name, client);
    if (!first) return out(client, fmt::format("has the certificate of client {}", same->second));
  }
  if (adverts_.size() >= setup_.most_clients) return {Verdict::kLate, "enough others were faster"};
  adverts_.emplace(client, advert);
  return {};
}

SecureTaken SecureServer::take_shares(std::uint64_t client, const std::vector<SealedShare>& sealed) {
  if (const auto before = shares_.find(client); before != shares_.end() && !refused_.contains(client))
    return before->second == sealed ? SecureTaken{Verdict::kRepeated, ""}
                                    : SecureTaken{Verdict::kRefused, "other shares of it are here already"};
  if (auto answer = out_of_turn(client, SecureStage::kShares)) return *answer;
  std::vector<std::uint64_t> to;
  for (const SealedShare& one : sealed) {
    to.push_back(one.client);
    if (one.sealed.size() != kSealedShareBytes) return out(client, "sends shares that are none");
  }
  std::vector<std::uint64_t> others;
  for (const KeyAdvert& advert : keys_.adverts) {
    if (advert.client != client) others.push_back(advert.client);
  }
  if (to != others) return out(client, "does not share with everybody else once");
  shares_.emplace(client, sealed);
  return {};
}

SecureTaken SecureServer::judge_masked(std::uint64_t client) const {
  if (masked_.contains(client) && !refused_.contains(client)) return {Verdict::kRepeated, ""};
  if (auto answer = out_of_turn(client, SecureStage::kMasked)) return *answer;
  return {};
}

void SecureServer::take_masked(std::uint64_t client) {
  MUSTER_CHECK(judge_masked(client).verdict == Verdict::kTaken, "a masked update in its turn");
  masked_.insert(client);
}

SecureTaken SecureServer::take_agreement(std::uint64_t client, const std::string& signature) {
  if (const auto before = agreed_.find(client); before != agreed_.end() && !refused_.contains(client))
    return {Verdict::kRepeated, ""};  // ECDSA: another signature of the same
  if (auto answer = out_of_turn(client, SecureStage::kAgreement)) return *answer;
  const SignatureVerdict verdict =
      judge_signature(authorities_, adverts_.at(client).certificate, signed_text(setup_, keys_, survivors_), signature);
  if (!verdict.reason.empty()) return out(client, "does not sign who has survived: " + verdict.reason);
  agreed_.emplace(client, signature);
  return {};
}

SecureTaken SecureServer::take_unmasking(std::uint64_t client, const std::vector<UnmaskShare>& shares) {
  if (const auto before = unmaskings_.find(client); before != unmaskings_.end() && !refused_.contains(client))
    return before->second == shares ? SecureTaken{Verdict::kRepeated, ""}
                                    : SecureTaken{Verdict::kRefused, "other shares of it are here already"};
  if (auto answer = out_of_turn(client, SecureStage::kUnmask)) return *answer;
  std::set<std::uint64_t> owners;
  for (const UnmaskShare& one : shares) {
    if (!sharers_.contains(one.client) || !owners.insert(one.client).second || !is_share(one.share) ||
        one.of_mask_key == std::ranges::binary_search(survivors_, one.client))
      return out(client, "tells shares that nobody asked for");
  }
  unmaskings_.emplace(client, shares);
  return {};
}

std::vector<std::uint64_t> SecureServer::awaited() const {
  std::vector<std::uint64_t> missing;
  for (const std::uint64_t client : asked_) {
    if (!takes_part(client, stage_)) continue;
    const bool here = stage_ == SecureStage::kKeys        ? adverts_.contains(client)
                      : stage_ == SecureStage::kShares    ? shares_.contains(client)
                      : stage_ == SecureStage::kMasked    ? masked_.contains(client)
                      : stage_ == SecureStage::kAgreement ? agreed_.contains(client)
                                                          : unmaskings_.contains(client);
    if (!here) missing.push_back(client);
  }
  return missing;
}

std::uint64_t SecureServer::answered() const {
  const auto count = [&](const auto& those) {
    return static_cast<std::uint64_t>(
        std::ranges::count_if(those, [&](const auto& one) { return !refused_.contains(one.first); }));
  };
  switch (stage_) {
    case SecureStage::kKeys:
      return count(adverts_);
    case SecureStage::kShares:
      return count(shares_);
    case SecureStage::kMasked:
      return masked_.size();
    case SecureStage::kAgreement:
      return count(agreed_);
    case SecureStage::kUnmask:
      return count(unmaskings_);
    case SecureStage::kOver:
      break;
  }
  return 0;
}

void SecureServer::fail(const std::string& reason) {
  failure_ = reason;
  stage_ = SecureStage::kOver;
}

void SecureServer::close_stage() {
  MUSTER_CHECK(stage_ != SecureStage::kOver, "a stage to close");
  const std::uint64_t count = answered();
  const std::uint64_t least = stage_ != SecureStage::kKeys ? keys_.threshold
                              : setup_.threshold > 0       ? setup_.threshold
                                                           : std::max(kLeastThreshold, default_threshold(count));
  if (count < least) {
    fail(fmt::format("{} clients {}, and {} are needed: nothing is revealed", count, words_of(stage_), least));
    return;
  }
  switch (stage_) {
    case SecureStage::kKeys:
      keys_.threshold = least;
      for (const auto& [client, advert] : adverts_) {
        if (!refused_.contains(client)) keys_.adverts.push_back(advert);
      }
      stage_ = SecureStage::kShares;
      break;
    case SecureStage::kShares:
      for (const auto& [client, sealed] : shares_) {
        if (!refused_.contains(client)) sharers_.insert(client);
      }
      stage_ = SecureStage::kMasked;
      break;
    case SecureStage::kMasked:
      survivors_.assign(masked_.begin(), masked_.end());
      stage_ = authorities_.empty() ? SecureStage::kUnmask : SecureStage::kAgreement;
      break;
    case SecureStage::kAgreement:
      for (const auto& [client, signature] : agreed_) {
        if (!refused_.contains(client)) agreements_.push_back({client, signature});
      }
      stage_ = SecureStage::kUnmask;
      break;
    case SecureStage::kUnmask:
    case SecureStage::kOver:
      stage_ = SecureStage::kOver;
      break;
  }
}

std::vector<SealedShare> SecureServer::shares_for(std::uint64_t client) const {
  std::vector<SealedShare> sealed;
  for (const std::uint64_t from : sharers_) {
    if (from == client) continue;
    const auto& all = shares_.at(from);
    const auto found = std::ranges::lower_bound(all, client, {}, &SealedShare::client);
    sealed.push_back({from, found->sealed});
  }
  return sealed;
}

// --- Unmasking.

std::uint64_t SecureServer::point_of(std::uint64_t client) const {
  const auto found = std::ranges::lower_bound(keys_.adverts, client, {}, &KeyAdvert::client);
  return static_cast<std::uint64_t>(found - keys_.adverts.begin()) + 1;
}

std::vector<SecureServer::Told> SecureServer::told_of(std::uint64_t owner, bool of_mask_key) const {
  std::vector<Told> told;
  for (const auto& [teller, shares] : unmaskings_) {
    if (refused_.contains(teller)) continue;
    for (const UnmaskShare& one : shares) {
      if (one.client == owner && one.of_mask_key == of_mask_key) told.push_back({teller, point_of(teller), one.share});
    }
  }
  return told;
}

std::optional<Secret> SecureServer::search(std::uint64_t owner, const std::vector<Told>& told, const Right& right) {
  const std::size_t need = keys_.threshold;
  if (told.size() < need) return std::nullopt;
  std::vector<std::size_t> chosen(told.size());
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  const auto attempt = [&]() -> std::optional<Secret> {
    std::vector<std::uint64_t> points;
    std::vector<Share> shares;
    for (std::size_t i = 0; i < need; ++i) {
      points.push_back(told[chosen[i]].point);
      shares.push_back(told[chosen[i]].share);
    }
    auto secret = ShareRecovery(points).recover(shares);
    if (secret && right(*secret)) return secret;
    return std::nullopt;
  };
  if (auto secret = attempt()) return secret;
  // Somebody tells a false one: others of them, as long as there are others.
  std::mt19937_64 order(told.size());  // which are tried: nothing depends on it but how long it takes
  for (int i = 0; told.size() > need && i < kMostSearches; ++i) {
    std::ranges::shuffle(chosen, order);
    if (auto secret = attempt()) {
      find_false(owner, told, chosen, right);
      return secret;
    }
  }
  return std::nullopt;
}

// `good`: the first of them are right together. A share that cannot take the place of one of these is false; who told
// it may have been given it so.
void SecureServer::find_false(std::uint64_t owner, const std::vector<Told>& told, const std::vector<std::size_t>& good,
                              const Right& right) {
  for (std::size_t i = keys_.threshold; i < good.size(); ++i) {
    std::vector<std::uint64_t> points{told[good[i]].point};
    std::vector<Share> shares{told[good[i]].share};
    for (std::size_t k = 1; k < keys_.threshold; ++k) {
      points.push_back(told[good[k]].point);
      shares.push_back(told[good[k]].share);
    }
    const auto secret = ShareRecovery(points).recover(shares);
    if (!secret || !right(*secret))
      doubts_.push_back(
          fmt::format("client {} tells a share of client {} that is false, as {} made it or as {} tells it",
                      told[good[i]].teller, owner, owner, told[good[i]].teller));
  }
}

std::optional<Secret> SecureServer::recover(std::uint64_t owner, bool of_mask_key, const Right& right) {
  auto secret = search(owner, told_of(owner, of_mask_key), right);
  if (!secret)
    fail(
        fmt::format("the {} of client {} does not come out of the shares that were told: it shared out something "
                    "else, or too many tell false shares; nothing changes",
                    of_mask_key ? "mask key" : "seed", owner));
  return secret;
}

bool SecureServer::unmask(std::span<std::uint32_t> sum) {
  MUSTER_CHECK(stage_ == SecureStage::kOver && !failed() && sum.size() == setup_.words, "a sum that can be unmasked");
  for (const std::uint64_t survivor : survivors_) {
    const auto& commitment = adverts_.at(survivor).commitment;
    const auto seed = recover(survivor, false, [&](const Secret& one) { return sha256_of(one) == commitment; });
    if (!seed) return false;
    take_mask(derive_key(*seed, purpose_of_seed(setup_)), sum);
  }
  for (const std::uint64_t dropped : sharers_) {
    if (std::ranges::binary_search(survivors_, dropped)) continue;
    const PublicKey& open = adverts_.at(dropped).mask_key;
    const auto key = recover(dropped, true, [&](const Secret& one) { return public_key_of(one) == open; });
    if (!key) return false;
    for (const std::uint64_t survivor : survivors_) {
      const auto pair = agree(*key, adverts_.at(survivor).mask_key, purpose_of_pair(setup_, dropped, survivor));
      MUSTER_CHECK(pair.has_value(), "keys were looked at when they came");
      survivor < dropped ? take_mask(*pair, sum) : add_mask(*pair, sum);
    }
  }
  return true;
}

}  // namespace muster::federated
