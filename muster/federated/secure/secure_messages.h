// Secure aggregation (Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", 2017):
// what clients and server tell each other in a round. The stages, and the nouns:
//
//   keys        a client says its two public keys of this round: the seal key, by which others tell it something
//   through
//               the server, and the mask key, by which it makes a mask with every other client (KeyAdvert)
//   shares      it shares out its secret mask key and the seed of a mask of its own among all of them: any `threshold`
//               shares give them back; each share is sealed for who is to have it (SealedShare)
//   masked      it sends its update, plus the mask of its own seed, plus or minus the mask of every pair: what is added
//               for one is taken away for the other, so that only masks of seeds are left in the sum
//   agreement   with certificates: it signs who the survivors are, those whose masked updates came
//   unmask      it tells, for each survivor, its share of the seed, and for each of those that dropped out between, its
//               share of the mask key; never both for one client. So the server can take the rest of the masks away
//               from the sum of the survivors, and from nothing less
//
// A client that has no answer for a stage has dropped out; as long as `threshold` are left the sum is exact.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "muster/federated/secure/key_agreement.h"

namespace muster::federated {

// What server and clients of a round agree on beforehand.
struct SecureSetup {
  std::string run{};
  std::uint64_t round = 0;
  std::uint64_t words = 0;         // of a masked update
  std::uint64_t most_clients = 0;  // in the sum: what the words have room for
  std::uint64_t threshold = 0;     // 0: by default_threshold()
};

// More than two thirds: what keeps a server that does not follow the protocol, together with less than a third of the
// clients, from learning a single update (the paper's theorem 6.5), where identities are checked.
constexpr std::uint64_t default_threshold(std::uint64_t clients) {
  return 2 * clients / 3 + 1;
}

struct KeyAdvert {
  std::uint64_t client = 0;
  PublicKey seal_key{};
  PublicKey mask_key{};
  std::array<std::byte, 32> commitment{};  // SHA-256 of the own mask's seed: so a false share of it is seen
  std::string certificate{};               // PEM, and what it signs all this with; empty where there are none
  std::string signature{};
  bool operator==(const KeyAdvert&) const = default;
};

struct KeyList {
  std::uint64_t threshold = 0;
  std::vector<KeyAdvert> adverts{};  // rising by client
};

// A pair of shares that was sealed by (or, when it is sent, for) `client`.
struct SealedShare {
  std::uint64_t client = 0;
  std::vector<std::byte> sealed{};
  bool operator==(const SealedShare&) const = default;
};

struct SignedAgreement {
  std::uint64_t client = 0;
  std::string signature{};
  bool operator==(const SignedAgreement&) const = default;
};

struct UnmaskShare {
  std::uint64_t client = 0;  // whose secret it is a share of
  bool of_mask_key = false;  // of one that dropped out; else of a survivor's seed
  Share share{};
  bool operator==(const UnmaskShare&) const = default;
};

// What is derived and signed names all of the setup, so that nothing of another round, run or size passes for this one.
std::string context_of(const SecureSetup& setup);
std::string purpose_of_seal(const SecureSetup& setup, std::uint64_t from, std::uint64_t to);
std::string purpose_of_pair(const SecureSetup& setup, std::uint64_t a, std::uint64_t b);  // the same for (b, a)
std::string purpose_of_seed(const SecureSetup& setup);
std::string signed_text(const SecureSetup& setup, const KeyAdvert& advert);
std::string signed_text(const SecureSetup& setup, const KeyList& keys, const std::vector<std::uint64_t>& survivors);

}  // namespace muster::federated
