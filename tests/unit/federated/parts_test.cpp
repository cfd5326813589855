// What clients send in fewer bytes, keep to themselves, hold out, and have of a narrower model: against the
// definitions.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/federated/client_split.h"
#include "muster/federated/kept_parts.h"
#include "muster/federated/offers.h"
#include "muster/federated/slice_map.h"
#include "muster/federated/update_codec.h"
#include "support/errors.h"

namespace muster::federated {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;

std::vector<float> waves(std::size_t size) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i)
    values[i] = static_cast<float>(std::sin(static_cast<double>(i * i)) * std::pow(10, static_cast<double>(i % 5) - 3));
  return values;
}

std::vector<float> there_and_back(const Compression& how, const std::vector<float>& update,
                                  std::span<float> residual = {}) {
  std::vector<float> arrived(update.size(), 9);
  const std::vector<std::byte> bytes = encode_update(how, update, residual);
  EXPECT_EQ(bytes.size(), encoded_bytes(how, update.size()));
  decode_update(how, bytes, arrived);
  return arrived;
}

TEST(UpdateCodec, AByteANumberIsWithinHalfAStep) {
  const Compression how = parse_compression("int8");
  for (const std::size_t size : {0, 1, 255, 256, 257, 1000}) {
    const std::vector<float> update = waves(size);
    const std::vector<float> arrived = there_and_back(how, update);
    for (std::size_t first = 0; first < size; first += 256) {
      const auto last = std::min(size, first + 256);
      float largest = 0;
      for (std::size_t i = first; i < last; ++i)
        largest = std::max(largest, std::abs(update[i]));
      for (std::size_t i = first; i < last; ++i)
        EXPECT_LE(std::abs(arrived[i] - update[i]), largest / 254 * 1.001F) << i << " of " << size;
    }
  }
  EXPECT_LT(encoded_bytes(how, 1'000'000) * 3.9, 4e6);
}

TEST(UpdateCodec, TheLargestAreSentAsTheyAre) {
  const Compression how = parse_compression("topk:0.4");
  EXPECT_THAT(there_and_back(how, {1, -5, 0.5, 4, -0.1F}), ElementsAre(0, -5, 0, 4, 0));
  EXPECT_THAT(there_and_back(how, {2, 2, 2}), ElementsAre(2, 2, 0)) << "the first ones of equal size";
  EXPECT_TRUE(there_and_back(how, {}).empty());
  EXPECT_EQ(encoded_bytes(parse_compression("topk:0.01"), 1000), 80U);
}

// What is sent in the end is the sum of all updates, but for what is still held back.
TEST(UpdateCodec, WhatIsNotSentComesLater) {
  for (const char* word : {"topk:0.1", "int8"}) {
    const Compression how = parse_compression(word);
    const std::vector<float> update = waves(300);
    std::vector<float> residual(300);
    std::vector<double> sent(300);
    for (int round = 1; round <= 40; ++round) {
      const std::vector<float> arrived = there_and_back(how, update, residual);
      for (std::size_t i = 0; i < sent.size(); ++i) {
        sent[i] += arrived[i];
        EXPECT_NEAR(sent[i] + residual[i], static_cast<double>(update[i]) * round, 1e-2) << word << " " << i;
      }
    }
  }
  // One that is not finite spoils nothing that is held back.
  std::vector<float> residual{1, 2};
  there_and_back(parse_compression("topk:0.5"), {std::numeric_limits<float>::quiet_NaN(), 3}, residual);
  EXPECT_THAT(residual, ElementsAre(1, 2));
}

TEST(UpdateCodec, BytesOfNobodyAreRefused) {
  const Compression how = parse_compression("topk:0.5");
  std::vector<float> update(4);
  std::vector<std::byte> bytes = encode_update(how, std::vector<float>{1, 2, 3, 4}, {});
  const std::uint32_t far = 4;
  std::memcpy(bytes.data() + sizeof far, &far, sizeof far);
  expect_error(ErrorKind::kDamaged, "place 4 of 4", [&] { decode_update(how, bytes, update); });
  const std::uint32_t twice[] = {2, 2};
  std::memcpy(bytes.data(), twice, sizeof twice);
  expect_error(ErrorKind::kDamaged, "place 2 of 4 after 3", [&] { decode_update(how, bytes, update); });
  bytes.pop_back();
  expect_error(ErrorKind::kDamaged, "bytes instead of", [&] { decode_update(how, bytes, update); });
  for (const char* word : {"", "int4", "topk", "topk:", "topk:0", "topk:1.1", "topk:nan", "topk:0.1x"})
    expect_error(ErrorKind::kInvalidInput, "no way to send", [&] { parse_compression(word); });
}

const std::vector<TensorPlace> kNet{{"conv.weight", {2, 2}, 0}, {"bn.weight", {2}, 4}, {"bn.bias", {2}, 6},
                                    {"fc.weight", {2, 3}, 8},   {"fc.bias", {2}, 14},  {"bn.running_mean", {2}, 16},
                                    {"bn.running_var", {2}, 18}};

std::set<std::size_t> kept_of(const std::vector<std::string>& words) {
  const KeptParts kept(words, kNet, 20, 16);
  std::vector<float> update(20, 1);
  std::vector<float> own(kept.floats(), 5);
  kept.leave(update, own);
  EXPECT_TRUE(std::ranges::all_of(own, [](float value) { return value == 6; }));
  std::set<std::size_t> places;
  for (std::size_t i = 0; i < update.size(); ++i) {
    if (update[i] == 0) places.insert(i);
  }
  std::vector<float> model(20, 1);
  kept.enter(own, model);
  for (std::size_t i = 0; i < model.size(); ++i)
    EXPECT_EQ(model[i], places.contains(i) ? 7 : 1);
  return places;
}

TEST(KeptParts, AreChosenByNames) {
  EXPECT_EQ(kept_of({"norm"}), (std::set<std::size_t>{4, 5, 6, 7, 16, 17, 18, 19}));
  EXPECT_EQ(kept_of({"head"}), (std::set<std::size_t>{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(kept_of({"fc.bias", "fc"}), kept_of({"head"}));
  EXPECT_EQ(kept_of({"conv.weight"}), (std::set<std::size_t>{0, 1, 2, 3}));
  EXPECT_TRUE(kept_of({}).empty());
  expect_error(ErrorKind::kInvalidInput, "\"con\" fits no tensor", [] { kept_of({"con"}); });
  expect_error(ErrorKind::kInvalidInput, "whole model", [] { kept_of({"norm", "head", "conv"}); });
}

TEST(SliceMap, IsTheCornerOfEachTensor) {
  const std::vector<TensorPlace> whole{{"a", {2, 3, 2}, 0}, {"b", {3}, 12}};
  const std::vector<TensorPlace> slice{{"a", {1, 2, 2}, 0}, {"b", {2}, 4}};
  const SliceMap map(whole, slice);
  EXPECT_EQ(map.floats(), 6U);
  std::vector<float> numbers(15);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(i);
  std::vector<float> taken(6);
  map.take(numbers, taken);
  EXPECT_THAT(taken, ElementsAre(0, 1, 2, 3, 12, 13));
  // The mean of each number is over those who have it.
  std::vector<float> sum(15);
  map.add(taken, 3, sum);
  std::vector<double> weights(15, 1);
  for (std::size_t i = 0; i < sum.size(); ++i)
    sum[i] += i == 14 ? 0 : 1;
  map.cover(3, weights);
  weights[14] = 0;
  divide_by_cover(sum, weights);
  EXPECT_THAT(std::span(sum).first(5), ElementsAre(0.25F, 1, 1.75F, 2.5F, 1));
  EXPECT_EQ(sum[14], 0);
  const std::vector<TensorPlace> wider{{"a", {1, 4, 2}, 0}, {"b", {2}, 8}};
  expect_error(ErrorKind::kInvalidInput, "is no part of", [&] { SliceMap(whole, wider); });
  expect_error(ErrorKind::kInvalidInput, "1 tensors", [&] { SliceMap(whole, std::span(slice).first(1)); });
}

TEST(HoldOut, IsAPartOfTheClientsOwn) {
  std::vector<std::uint64_t> all{3, 1, 4, 15, 9, 2};
  const ClientSamples parts = hold_out(all, 2, 1, 7);
  EXPECT_EQ(parts.train.size(), 4U);
  EXPECT_EQ(parts.test.size(), 2U);
  std::vector<std::uint64_t> both = parts.train;
  both.insert(both.end(), parts.test.begin(), parts.test.end());
  EXPECT_THAT(both, ::testing::UnorderedElementsAreArray(all));
  EXPECT_EQ(hold_out(all, 2, 1, 7).test, parts.test);
  EXPECT_EQ(hold_out(all, 0, 1, 7).train, all);
}

TEST(Offers, AClientTakesTheLargestModelThatFits) {
  const Offer offer{.name = "a", .model_floats = 100, .narrower_floats = {20, 60, 40}};
  EXPECT_EQ(largest_within(offer, 100), 0U);
  EXPECT_EQ(largest_within(offer, 99), 2U);
  EXPECT_EQ(largest_within(offer, 59), 3U);
  EXPECT_EQ(largest_within(offer, 20), 1U);
  EXPECT_FALSE(largest_within(offer, 19));
  EXPECT_FALSE(largest_within({.model_floats = 100}, 99));
}

}  // namespace
}  // namespace muster::federated
