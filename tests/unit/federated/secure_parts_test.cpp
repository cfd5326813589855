// What secure aggregation stands on: published vectors of X25519, HKDF and AES; Shamir's shares; words of fixed point.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/federated/secure/fixed_point.h"
#include "muster/federated/secure/key_agreement.h"
#include "muster/federated/secure/shamir.h"

namespace muster::federated {
namespace {

std::vector<std::byte> bytes_of(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

Secret secret_of(const std::string& hex) {
  Secret secret{};
  std::ranges::copy(bytes_of(hex), secret.begin());
  return secret;
}

TEST(KeyAgreement, IsX25519AndHkdf) {
  // RFC 7748, 6.1.
  const Secret bob = secret_of("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
  const Secret alice_open = secret_of("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
  EXPECT_EQ(public_key_of(bob), secret_of("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"));
  const Secret common = secret_of("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
  EXPECT_EQ(agree(bob, alice_open, "a purpose"), derive_key(common, "a purpose"));
  EXPECT_NE(agree(bob, alice_open, "a purpose"), agree(bob, alice_open, "another one"));
  // RFC 5869, test case 3: the first 32 of its 42 bytes.
  EXPECT_EQ(derive_key(std::vector<std::byte>(22, std::byte{0x0b}), ""),
            secret_of("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"));
}

TEST(KeyAgreement, BothSidesGetOneKeyAndPointsOfLowOrderGetNone) {
  const KeyPair one = make_key_pair();
  const KeyPair other = make_key_pair();
  EXPECT_NE(one.secret, other.secret);
  EXPECT_EQ(agree(one.secret, other.open, "x"), agree(other.secret, one.open, "x"));
  EXPECT_EQ(agree(one.secret, PublicKey{}, "x"), std::nullopt);
  PublicKey low{};
  low[0] = std::byte{1};
  EXPECT_EQ(agree(one.secret, low, "x"), std::nullopt);
}

TEST(Seal, IsAesInGaloisCounterMode) {
  // McGrew and Viega, "The Galois/counter mode of operation", test cases 13 and 14: key and nonce are zeros.
  EXPECT_EQ(seal(Secret{}, {}), bytes_of("530f8afbc74536b9a963b4f1c4cb738b"));
  EXPECT_EQ(seal(Secret{}, std::vector<std::byte>(16)),
            bytes_of("cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"));
}

TEST(Seal, OpensWithItsKeyAloneAndOnlyAsItWasSealed) {
  const Secret key = random_secret();
  const std::vector<std::byte> plain = bytes_of("00112233445566778899");
  std::vector<std::byte> sealed = seal(key, plain);
  EXPECT_EQ(open_sealed(key, sealed), plain);
  EXPECT_EQ(open_sealed(random_secret(), sealed), std::nullopt);
  EXPECT_EQ(open_sealed(key, std::span(sealed).first(5)), std::nullopt);
  sealed[3] ^= std::byte{1};
  EXPECT_EQ(open_sealed(key, sealed), std::nullopt);
}

TEST(Mask, IsAesInCounterModeAndUndoesItself) {
  // AES-256 of zeros under a key of zeros: the H of the test cases above.
  std::vector<std::uint32_t> words(10'001, 7);
  const std::vector<std::uint32_t> before = words;
  add_mask(Secret{}, words);
  std::vector<std::byte> first(16);
  for (std::uint32_t& word : words)
    word -= 7;
  std::memcpy(first.data(), words.data(), first.size());
  EXPECT_EQ(first, bytes_of("dc95c078a2408989ad48a21492842087"));
  for (std::uint32_t& word : words)
    word += 7;
  take_mask(Secret{}, words);
  EXPECT_EQ(words, before);
}

TEST(Shamir, AnyThresholdOfSharesGiveTheSecretBack) {
  std::mt19937 order(1);
  for (const auto& [threshold, count] :
       {std::pair<std::size_t, std::size_t>{1, 1}, {1, 5}, {3, 3}, {3, 7}, {67, 100}}) {
    const Secret secret = random_secret();
    const std::vector<Share> shares = split_secret(secret, threshold, count);
    ASSERT_EQ(shares.size(), count);
    std::vector<std::uint64_t> points(count);
    std::iota(points.begin(), points.end(), std::uint64_t{1});
    for (int i = 0; i < 5; ++i) {
      std::ranges::shuffle(points, order);
      for (const std::size_t used : {threshold, count}) {
        std::vector<Share> chosen;
        for (std::size_t k = 0; k < used; ++k)
          chosen.push_back(shares[points[k] - 1]);
        EXPECT_EQ(ShareRecovery(std::span(points).first(used)).recover(chosen), secret);
      }
    }
  }
}

TEST(Shamir, FewerSharesFitEverySecret) {
  // To two shares of a sharing by three, and any secret whatsoever, there is a third share that gives just that secret.
  const std::vector<Share> shares = split_secret(random_secret(), 3, 5);
  const std::uint64_t points[] = {1, 2, 3};
  const Secret wanted = random_secret();
  // The secret is linear in the shares: f(0) = a f(1) + b f(2) + c f(3), here with a, b, c = 3, -3, 1.
  Share third{};
  for (std::size_t limb = 0; limb < kShareLimbs; ++limb) {
    std::uint64_t value = 0;
    for (std::size_t i = std::min((limb + 1) * 7, wanted.size()); i-- > limb * 7;)
      value = value << 8 | static_cast<std::uint64_t>(wanted[i]);
    __extension__ using Wide = unsigned __int128;
    const Wide sum = Wide{value} + Wide{3} * (kSharePrime - shares[0][limb]) + Wide{3} * shares[1][limb];
    third[limb] = static_cast<std::uint64_t>(sum % kSharePrime);
  }
  EXPECT_EQ(ShareRecovery(points).recover(std::vector<Share>{shares[0], shares[1], third}), wanted);
}

TEST(Shamir, SharesAreRandomAndOfTheField) {
  const std::vector<Share> once = split_secret(Secret{}, 2, 400);
  const std::vector<Share> again = split_secret(Secret{}, 2, 400);
  EXPECT_NE(once, again);
  EXPECT_TRUE(std::ranges::all_of(once, is_share));
  EXPECT_FALSE(is_share({kSharePrime, 0, 0, 0, 0}));
  // Each bit of a random polynomial's values is as often set as not: six deviations of 2,000 throws.
  for (int bit = 0; bit < 61; ++bit) {
    int set = 0;
    for (int i = 0; i < 2000; ++i)
      set += static_cast<int>(random_field_number() >> bit & 1);
    EXPECT_NEAR(set, 1000, 6 * std::sqrt(500.0)) << bit;
  }
}

TEST(FixedPoint, SumsAreThoseOfTheWordsAndMeansThoseOfTheUpdates) {
  constexpr double kRange = 2.5;
  constexpr std::size_t kClients = 5;
  const FixedPoint fixed(kRange, kClients);
  std::mt19937 draw(3);
  std::uniform_real_distribution<float> value(-2.5F, 2.5F);
  std::vector<std::uint32_t> sum(20 + kExtraWords);
  std::vector<double> expected(20);
  std::vector<double> total(20);
  double weights = 0;
  double losses = 0;
  for (std::size_t client = 0; client < kClients; ++client) {
    std::vector<float> update(20);
    std::ranges::generate(update, [&] { return value(draw); });
    const double weight = static_cast<double>(client + 1) / kClients;
    const double loss = 0.5 * static_cast<double>(client);
    std::vector<std::uint32_t> words(sum.size());
    fixed.encode(update, weight, loss, words);
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] += words[i];
    for (std::size_t i = 0; i < update.size(); ++i)
      expected[i] += weight * static_cast<double>(update[i]);
    weights += weight;
    losses += weight * loss;
  }
  EXPECT_NEAR(fixed.weight(sum), weights, 1e-8);
  EXPECT_NEAR(fixed.loss(sum), losses / weights, kLossRange * kClients * kClients / 0x7fffffff);
  std::vector<float> mean(20);
  std::vector<float> whole(20);
  fixed.mean(sum, mean);
  fixed.total(sum, whole);
  for (std::size_t i = 0; i < mean.size(); ++i) {
    EXPECT_NEAR(mean[i], expected[i] / weights, 1e-6);
    EXPECT_NEAR(whole[i], expected[i], 1e-6);
  }
}

TEST(FixedPoint, AllClientsAtTheEndOfTheRangeDoNotOverflow) {
  for (const std::uint64_t clients : {1, 2, 3, 7, 100, 1000}) {
    const FixedPoint fixed(0.7, clients);
    const std::vector<float> update{0.7F, -0.7F, 100.0F, -100.0F};
    std::vector<std::uint32_t> words(update.size() + kExtraWords);
    fixed.encode(update, 1, 1e9, words);
    for (std::uint32_t& word : words)
      word *= static_cast<std::uint32_t>(clients);
    std::vector<float> mean(update.size());
    fixed.mean(words, mean);
    EXPECT_THAT(mean, ::testing::ElementsAre(0.7F, -0.7F, 0.7F, -0.7F)) << clients;
    EXPECT_EQ(fixed.weight(words), static_cast<double>(clients));
    EXPECT_EQ(fixed.loss(words), kLossRange);
  }
}

}  // namespace
}  // namespace muster::federated
