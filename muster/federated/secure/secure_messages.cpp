// Texts that are unambiguous: numbers and hexadecimal digits in a fixed order, with words between them. They are part
// of the protocol: another client has to make the same ones.
#include "muster/federated/secure/secure_messages.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/hash.h"

namespace muster::federated {
namespace {

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes)
    text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

}  // namespace

std::string context_of(const SecureSetup& setup) {
  return fmt::format("muster secure aggregation 1, round {}, {} words, {} clients, threshold {}, run {}", setup.round,
                     setup.words, setup.most_clients, setup.threshold, setup.run);
}

std::string purpose_of_seal(const SecureSetup& setup, std::uint64_t from, std::uint64_t to) {
  return fmt::format("seal from {} to {}: {}", from, to, context_of(setup));
}

std::string purpose_of_pair(const SecureSetup& setup, std::uint64_t a, std::uint64_t b) {
  return fmt::format("mask of {} and {}: {}", std::min(a, b), std::max(a, b), context_of(setup));
}

std::string purpose_of_seed(const SecureSetup& setup) {
  return fmt::format("own mask: {}", context_of(setup));
}

std::string signed_text(const SecureSetup& setup, const KeyAdvert& advert) {
  return fmt::format("keys of {}: seal {} mask {} seed {}: {}", advert.client, hex(advert.seal_key),
                     hex(advert.mask_key), hex(advert.commitment), context_of(setup));
}

std::string signed_text(const SecureSetup& setup, const KeyList& keys, const std::vector<std::uint64_t>& survivors) {
  // The keys, too: all have to have seen the same ones.
  std::string all;
  for (const KeyAdvert& advert : keys.adverts)
    all += signed_text(setup, advert) + "\n";
  return fmt::format("survivors {} by threshold {} of {}: {}", fmt::join(survivors, " "), keys.threshold,
                     sha256(std::as_bytes(std::span(all))), context_of(setup));
}

}  // namespace muster::federated
