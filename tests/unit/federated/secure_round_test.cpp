// The journal of a secure round: a server that was killed at any record goes on as if nothing had been.
#include "muster/federated/secure_round.h"

#include <fstream>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/federated/secure/secure_client.h"
#include "support/sandbox.h"

namespace muster::federated {
namespace {

using StepVerdict = SecureAnswer::Verdict;

const SecureSetup kSetup{.run = "run", .round = 2, .words = 5, .most_clients = 4, .threshold = 3};

class SecureRoundTest : public ::testing::Test {
 protected:
  SecureRoundTest() {
    for (std::uint64_t client = 0; client < 4; ++client)
      clients_.push_back(std::make_unique<SecureClient>(kSetup, client));
    start();
  }
  // As after kill -9.
  void start() {
    round_.reset();
    round_ = std::make_unique<SecureRound>(kSetup, std::vector<std::uint64_t>{0, 1, 2, 3}, "",
                                           folder_.path() / "secure.journal");
    // Masked updates are on disk before their journal knows of them.
    for (const std::uint64_t client : masked_) {
      if (round_->server().stage() == SecureStage::kMasked &&
          round_->server().judge_masked(client).verdict == SecureTaken::Verdict::kTaken)
        round_->server().take_masked(client);
    }
  }
  SecureAnswer say(std::uint64_t client, SecureMessage message) {
    message.round = kSetup.round;
    message.says = true;
    const SecureAnswer answer = round_->step(client, message);
    start();
    return answer;
  }
  SecureAnswer ask(std::uint64_t client, SecureStep step) {
    return round_->step(client, {.round = kSetup.round, .step = step});
  }
  void close() {
    round_->close_stage();
    start();
  }

  const testing::TemporaryFolder folder_;
  std::vector<std::unique_ptr<SecureClient>> clients_;
  std::vector<std::uint64_t> masked_;
  std::unique_ptr<SecureRound> round_;
};

TEST_F(SecureRoundTest, StartedAgainAfterEveryMessageItUnmasksTheSum) {
  for (std::uint64_t client = 0; client < 4; ++client)
    EXPECT_EQ(say(client, {.keys = clients_[client]->advert()}).verdict, StepVerdict::kWait);
  close();
  for (std::uint64_t client = 0; client < 4; ++client) {
    const SecureAnswer keys = ask(client, SecureStep::kKeys);
    ASSERT_EQ(keys.verdict, StepVerdict::kGoOn);
    say(client, {.step = SecureStep::kShares, .shares = clients_[client]->share_out(keys.keys)});
  }
  close();
  std::vector<std::uint32_t> sum(5);
  for (std::uint64_t client = 0; client < 4; ++client) {
    clients_[client]->take_shares(ask(client, SecureStep::kShares).shares);
    if (client == 1) continue;  // drops out
    std::vector<std::uint32_t> words(5, static_cast<std::uint32_t>(client) + 10);
    clients_[client]->mask(words);
    for (std::size_t i = 0; i < 5; ++i)
      sum[i] += words[i];
    masked_.push_back(client);
    start();
  }
  EXPECT_EQ(ask(0, SecureStep::kSurvivors).verdict, StepVerdict::kWait);
  close();
  EXPECT_EQ(ask(1, SecureStep::kSurvivors).verdict, StepVerdict::kOver);
  for (const std::uint64_t client : masked_) {
    const SecureAnswer survivors = ask(client, SecureStep::kSurvivors);
    EXPECT_EQ(survivors.survivors, masked_);
    clients_[client]->agree_on(survivors.survivors);
    const SecureMessage unmask{.step = SecureStep::kUnmask, .unmask = clients_[client]->unmask({})};
    EXPECT_EQ(say(client, unmask).verdict, StepVerdict::kGoOn);
    EXPECT_EQ(say(client, unmask).verdict, StepVerdict::kGoOn);  // the acknowledgement was lost
  }
  close();
  ASSERT_TRUE(round_->server().unmask(sum)) << round_->server().failure();
  EXPECT_EQ(sum, std::vector<std::uint32_t>(5, 10 + 12 + 13));
}

TEST_F(SecureRoundTest, HalfARecordIsCutOffAndWhoLeftHasLeft) {
  say(0, {.keys = clients_[0]->advert()});
  say(1, {.step = SecureStep::kLeave, .reason = "a reason"});
  const auto whole = std::filesystem::file_size(folder_.path() / "secure.journal");
  for (const char* half : {"2", "2 900 0123456789abcdef\nxy", "2 1 0123456789abcdef\nx"}) {
    std::ofstream(folder_.path() / "secure.journal", std::ios::app) << half;
    start();
    EXPECT_EQ(std::filesystem::file_size(folder_.path() / "secure.journal"), whole);
    EXPECT_EQ(round_->server().answered(), 1U);
    EXPECT_EQ(ask(1, SecureStep::kKeys).reason, "a reason");
  }
}

}  // namespace
}  // namespace muster::federated
