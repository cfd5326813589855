// A client of secure aggregation in one round (secure_messages.h has the stages): what it says, and what it refuses to
// believe.
//
// Its secrets are of this round alone, and never leave it but as shares. It tells shares of one set of survivors, once.
// What the server or another client says against the protocol is an Error{kMismatch} that names it; the client then has
// to leave the round. Thread safety: one thread. No torch here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/federated/secure/client_identity.h"
#include "muster/federated/secure/secure_messages.h"

namespace muster::federated {

// No sum of fewer: of two, each knows the other's.
constexpr std::uint64_t kLeastThreshold = 3;

class SecureClient {
 public:
  // With `identity` it believes only in keys that clients with certificates have signed. Throws Error{kResource |
  // kDamaged}.
  SecureClient(SecureSetup setup, std::uint64_t client, ClientIdentity identity = {});
  SecureClient(const SecureClient&) = delete;
  SecureClient& operator=(const SecureClient&) = delete;
  ~SecureClient();

  const KeyAdvert& advert() const { return advert_; }
  // One for each other client.
  std::vector<SealedShare> share_out(const KeyList& keys);
  // What the others have sealed for this one. One that cannot be opened is left out of what it tells later.
  void take_shares(const std::vector<SealedShare>& sealed);
  // REQUIRES: setup.words words; take_shares() before.
  void mask(std::span<std::uint32_t> words) const;
  // Its signature under who the survivors are; empty without an identity.
  std::string agree_on(const std::vector<std::uint64_t>& survivors);
  // REQUIRES: agree_on() before.
  std::vector<UnmaskShare> unmask(const std::vector<SignedAgreement>& agreements) const;

 private:
  struct Shares {
    Share of_seed{};
    Share of_mask_key{};
  };

  const KeyAdvert& advert_of(std::uint64_t client) const;
  void check_identities(const KeyList& keys) const;
  void check_agreements(const std::vector<SignedAgreement>& agreements) const;

  const SecureSetup setup_;
  const std::uint64_t client_;
  const ClientIdentity identity_;
  KeyPair seal_;
  KeyPair mask_;
  Secret seed_;
  KeyAdvert advert_;
  KeyList keys_;
  std::map<std::uint64_t, std::optional<Shares>> shares_;  // of those whose shares came, and of its own
  std::vector<std::uint64_t> survivors_;
};

}  // namespace muster::federated
