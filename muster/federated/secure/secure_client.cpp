// Lists come sorted, so that "rising" is "each once"; whatever else they should be is looked at before it is used.
// Pairs of shares travel as the bytes of their ten numbers, little-endian.
#include "muster/federated/secure/secure_client.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::federated {
namespace {

Error refusal(std::string message) {
  return {ErrorKind::kMismatch, std::move(message), "secure aggregation",
          "The client leaves the round. If it goes on like this, somebody does not follow the protocol."};
}

template <typename List, typename Projection>
bool rises(const List& list, const Projection& projection) {
  return std::ranges::adjacent_find(list, std::ranges::greater_equal(), projection) == list.end();
}

}  // namespace

SecureClient::SecureClient(SecureSetup setup, std::uint64_t client, ClientIdentity identity)
    : setup_(std::move(setup)),
      client_(client),
      identity_(std::move(identity)),
      seal_(make_key_pair()),
      mask_(make_key_pair()),
      seed_(random_secret()) {
  advert_ = {.client = client,
             .seal_key = seal_.open,
             .mask_key = mask_.open,
             .commitment = sha256_of(seed_),
             .certificate = identity_.certificate};
  if (identity_.checked()) advert_.signature = sign_as(identity_, signed_text(setup_, advert_));
}

SecureClient::~SecureClient() {
  for (Secret* secret : {&seal_.secret, &mask_.secret, &seed_})
    OPENSSL_cleanse(secret->data(), secret->size());
  for (auto& [client, shares] : shares_) {
    if (shares) OPENSSL_cleanse(&*shares, sizeof *shares);
  }
}

const KeyAdvert& SecureClient::advert_of(std::uint64_t client) const {
  const auto found = std::ranges::lower_bound(keys_.adverts, client, {}, &KeyAdvert::client);
  if (found == keys_.adverts.end() || found->client != client)
    throw refusal(fmt::format("the server speaks of client {}, whose keys it has not told", client));
  return *found;
}

void SecureClient::check_identities(const KeyList& keys) const {
  std::set<std::string> names;
  for (const KeyAdvert& advert : keys.adverts) {
    const SignatureVerdict verdict =
        judge_signature(identity_.authorities, advert.certificate, signed_text(setup_, advert), advert.signature);
    if (!verdict.reason.empty())
      throw refusal(fmt::format("the keys of client {} do not count: {}", advert.client, verdict.reason));
    if (!names.insert(verdict.name).second) throw refusal(fmt::format("{} is there twice", excerpt(verdict.name, 80)));
  }
}

std::vector<SealedShare> SecureClient::share_out(const KeyList& keys) {
  MUSTER_CHECK(keys_.adverts.empty(), "shares are made once");
  const std::size_t count = keys.adverts.size();
  if (!rises(keys.adverts, &KeyAdvert::client)) throw refusal("a client is there twice, or clients are out of order");
  if (std::ranges::find(keys.adverts, advert_) == keys.adverts.end())
    throw refusal("the server does not tell this client's own keys as they are");
  if (count > setup_.most_clients)
    throw refusal(fmt::format("{} clients, and there is room for {} in a sum", count, setup_.most_clients));
  if (keys.threshold != (setup_.threshold == 0 ? default_threshold(count) : setup_.threshold) ||
      keys.threshold < kLeastThreshold || keys.threshold > count)
    throw refusal(fmt::format("{} of {} clients are to be enough to unmask", keys.threshold, count));
  if (identity_.checked()) {
    // Else a server could have one half of them unmask one sum, and the other half another.
    if (2 * keys.threshold <= count)
      throw refusal(fmt::format("{} of {} clients are to be enough to unmask, not more than half of them",
                                keys.threshold, count));
    check_identities(keys);
  }
  keys_ = keys;
  const std::vector<Share> of_seed = split_secret(seed_, keys.threshold, count);
  const std::vector<Share> of_mask_key = split_secret(mask_.secret, keys.threshold, count);
  std::vector<SealedShare> sealed;
  for (std::size_t i = 0; i < count; ++i) {
    const KeyAdvert& other = keys.adverts[i];
    Shares pair{of_seed[i], of_mask_key[i]};
    if (other.client == client_) {
      shares_[client_] = pair;
      continue;
    }
    const auto key = agree(seal_.secret, other.seal_key, purpose_of_seal(setup_, client_, other.client));
    if (!key) throw refusal(fmt::format("the key of client {} is none", other.client));
    sealed.push_back({other.client, seal(*key, std::as_bytes(std::span(&pair, 1)))});
    OPENSSL_cleanse(&pair, sizeof pair);
  }
  return sealed;
}

void SecureClient::take_shares(const std::vector<SealedShare>& sealed) {
  MUSTER_CHECK(!keys_.adverts.empty() && shares_.size() == 1, "shares are taken once, after they were made");
  if (!rises(sealed, &SealedShare::client)) throw refusal("shares of one client twice, or out of order");
  if (sealed.size() + 1 < keys_.threshold)
    throw refusal(fmt::format("{} clients share, and {} are needed", sealed.size() + 1, keys_.threshold));
  for (const SealedShare& one : sealed) {
    if (one.client == client_) throw refusal("the server says it has shares of this client for itself");
    const auto key = agree(seal_.secret, advert_of(one.client).seal_key, purpose_of_seal(setup_, one.client, client_));
    const auto plain = key ? open_sealed(*key, one.sealed) : std::nullopt;
    std::optional<Shares>& kept = shares_[one.client];
    if (!plain || plain->size() != sizeof(Shares)) continue;
    Shares pair;
    std::memcpy(&pair, plain->data(), sizeof pair);
    if (is_share(pair.of_seed) && is_share(pair.of_mask_key)) kept = pair;
  }
}

void SecureClient::mask(std::span<std::uint32_t> words) const {
  MUSTER_CHECK(words.size() == setup_.words && shares_.size() > 1, "a whole update, after shares were taken");
  add_mask(derive_key(seed_, purpose_of_seed(setup_)), words);
  for (const auto& [other, shares] : shares_) {
    if (other == client_) continue;
    const auto key = agree(mask_.secret, advert_of(other).mask_key, purpose_of_pair(setup_, client_, other));
    if (!key) throw refusal(fmt::format("the key of client {} is none", other));
    client_ < other ? add_mask(*key, words) : take_mask(*key, words);
  }
}

std::string SecureClient::agree_on(const std::vector<std::uint64_t>& survivors) {
  if (!survivors_.empty()) {
    if (survivors != survivors_) throw refusal("the server says now these clients have survived, and now others");
  } else {
    if (!rises(survivors, std::identity())) throw refusal("a survivor is there twice, or they are out of order");
    if (survivors.size() < keys_.threshold)
      throw refusal(
          fmt::format("a sum of {} clients is to be unmasked, and {} is the least", survivors.size(), keys_.threshold));
    if (!std::ranges::binary_search(survivors, client_))
      throw refusal("a sum is to be unmasked without this client's update");
    for (const std::uint64_t survivor : survivors) {
      if (!shares_.contains(survivor))
        throw refusal(fmt::format("client {} is said to have survived, and has not shared", survivor));
    }
    survivors_ = survivors;
  }
  return identity_.checked() ? sign_as(identity_, signed_text(setup_, keys_, survivors_)) : std::string();
}

void SecureClient::check_agreements(const std::vector<SignedAgreement>& agreements) const {
  if (!rises(agreements, &SignedAgreement::client)) throw refusal("a client agrees twice, or they are out of order");
  if (agreements.size() < keys_.threshold)
    throw refusal(
        fmt::format("{} clients agree who has survived, and {} is the least", agreements.size(), keys_.threshold));
  const std::string text = signed_text(setup_, keys_, survivors_);
  for (const SignedAgreement& one : agreements) {
    if (!std::ranges::binary_search(survivors_, one.client))
      throw refusal(fmt::format("client {} agrees, and has not survived", one.client));
    const SignatureVerdict verdict =
        judge_signature(identity_.authorities, advert_of(one.client).certificate, text, one.signature);
    if (!verdict.reason.empty())
      throw refusal(fmt::format("client {} has not agreed to the same survivors: {}", one.client, verdict.reason));
  }
}

std::vector<UnmaskShare> SecureClient::unmask(const std::vector<SignedAgreement>& agreements) const {
  MUSTER_CHECK(!survivors_.empty(), "the survivors first");
  if (identity_.checked()) check_agreements(agreements);
  std::vector<UnmaskShare> told;
  for (const auto& [owner, shares] : shares_) {
    if (!shares) continue;
    const bool dropped = !std::ranges::binary_search(survivors_, owner);
    told.push_back({owner, dropped, dropped ? shares->of_mask_key : shares->of_seed});
  }
  return told;
}

}  // namespace muster::federated
