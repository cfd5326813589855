// The server of secure aggregation in one round (secure_messages.h has the stages): passes on what clients tell each
// other, says who has survived, and takes the masks away from the survivors' sum.
//
// It goes through the stages when it is told to (close_stage): who waits how long for whom is not decided here. What is
// wrong, out of turn or malformed is refused and its client is out of the round; what comes again is answered as
// before, what comes late counts for nothing. Fewer than the threshold at the end of any stage: the round fails, and
// nothing is revealed. A pure state machine: what was taken in the same order gives the same state. Thread safety: one
// thread at a time. No torch here.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "muster/federated/secure/secure_messages.h"

namespace muster::federated {

enum class SecureStage { kKeys, kShares, kMasked, kAgreement, kUnmask, kOver };

struct SecureTaken {
  enum class Verdict { kTaken, kRepeated, kRefused, kLate };
  Verdict verdict = Verdict::kTaken;
  std::string reason{};
};

class SecureServer {
 public:
  // With `authorities` keys and agreements have to be signed.
  SecureServer(SecureSetup setup, std::vector<std::uint64_t> asked, std::string authorities = {});

  SecureStage stage() const { return stage_; }
  bool failed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }
  const SecureSetup& setup() const { return setup_; }

  SecureTaken take_keys(const KeyAdvert& advert);
  SecureTaken take_shares(std::uint64_t client, const std::vector<SealedShare>& sealed);
  // Whether its masked update may come, and that it has come. The words themselves are kept by who calls.
  SecureTaken judge_masked(std::uint64_t client) const;
  void take_masked(std::uint64_t client);
  SecureTaken take_agreement(std::uint64_t client, const std::string& signature);
  SecureTaken take_unmasking(std::uint64_t client, const std::vector<UnmaskShare>& shares);
  // Out of the round, for a reason that lies outside of it. Nothing if it has been out before.
  void refuse(std::uint64_t client, const std::string& reason);

  // Who may still answer in this stage and has not, and how many have.
  std::vector<std::uint64_t> awaited() const;
  std::uint64_t answered() const;
  // On to the next stage with those that have answered. REQUIRES: not over.
  void close_stage();

  // What clients are told when a stage is closed.
  const KeyList& keys() const { return keys_; }
  std::vector<SealedShare> shares_for(std::uint64_t client) const;
  const std::set<std::uint64_t>& masked() const { return masked_; }
  bool has_unmasked(std::uint64_t client) const { return unmaskings_.contains(client); }
  const std::vector<std::uint64_t>& survivors() const { return survivors_; }
  const std::vector<SignedAgreement>& agreements() const { return agreements_; }
  // Who is out, and why.
  const std::map<std::uint64_t, std::string>& refused() const { return refused_; }
  bool takes_part(std::uint64_t client, SecureStage stage) const;

  // Takes all masks away from the sum of the survivors' masked updates. False: shares that were told are false, and too
  // few are left; then failure() says whose secret is lost. REQUIRES: over, and not failed.
  bool unmask(std::span<std::uint32_t> sum);
  // Shares that unmask() found to be false and did without, in words.
  const std::vector<std::string>& doubts() const { return doubts_; }

 private:
  struct Told {
    std::uint64_t teller = 0;
    std::uint64_t point = 0;
    Share share{};
  };
  using Right = std::function<bool(const Secret&)>;

  SecureTaken out(std::uint64_t client, const std::string& reason);
  // The answer to what does not belong to this stage or comes from who does not take part; nothing: go on.
  std::optional<SecureTaken> out_of_turn(std::uint64_t client, SecureStage stage) const;
  void fail(const std::string& reason);
  std::uint64_t point_of(std::uint64_t client) const;
  std::vector<Told> told_of(std::uint64_t owner, bool of_mask_key) const;
  std::optional<Secret> recover(std::uint64_t owner, bool of_mask_key, const Right& right);
  std::optional<Secret> search(std::uint64_t owner, const std::vector<Told>& told, const Right& right);
  void find_false(std::uint64_t owner, const std::vector<Told>& told, const std::vector<std::size_t>& good,
                  const Right& right);

  SecureSetup setup_;
  const std::vector<std::uint64_t> asked_;
  const std::string authorities_;
  SecureStage stage_ = SecureStage::kKeys;
  std::string failure_;
  std::map<std::uint64_t, std::string> refused_;
  std::map<std::uint64_t, KeyAdvert> adverts_;
  std::map<std::string, std::uint64_t> names_;  // of certificates
  KeyList keys_;
  std::map<std::uint64_t, std::vector<SealedShare>> shares_;
  std::set<std::uint64_t> sharers_;
  std::set<std::uint64_t> masked_;
  std::vector<std::uint64_t> survivors_;
  std::map<std::uint64_t, std::string> agreed_;
  std::vector<SignedAgreement> agreements_;
  std::map<std::uint64_t, std::vector<UnmaskShare>> unmaskings_;
  std::vector<std::string> doubts_;
};

}  // namespace muster::federated
