// Nets of blocks as words: what they say, what is refused, what may stand at an open place; and the table of times.
#include "muster/model/zoo/block_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/model/zoo/latency_table.h"
#include "support/errors.h"

namespace muster::zoo {
namespace {

using testing::expect_error;

TEST(BlockWordsTest, SayANetAndAreSaidBack) {
  const BlockNet net = parse_block_net("fbnet-16s2-24k3e6s2-24k5e1g2-32s2-32-128");
  EXPECT_EQ(net.stem, 16);
  EXPECT_EQ(net.stem_stride, 2);
  ASSERT_EQ(net.places.size(), 4U);
  EXPECT_EQ(net.places[0], (BlockPlace{24, 2, BlockChoice{3, 6, 1}, 1}));
  EXPECT_EQ(net.places[1], (BlockPlace{24, 1, BlockChoice{5, 1, 2}, 2}));
  EXPECT_EQ(net.places[2], (BlockPlace{32, 2, std::nullopt, 3}));
  EXPECT_EQ(net.head, 128);
  EXPECT_EQ(open_places(net), (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(to_string(net), "fbnet-16s2-24k3e6s2-24k5e1g2-32s2-32-128");
}

TEST(BlockWordsTest, WhatIsNoNetIsRefusedWithItsWord) {
  for (const auto& [name, word] : std::vector<std::pair<std::string, std::string>>{
           {"fbnet-8-16", "fbnet-8-16"},
           {"fbnet-8k3-16-32", "8k3"},
           {"fbnet-8-16k3-32", "16k3"},
           {"fbnet-8-16k4e1-32", "16k4e1"},
           {"fbnet-8-16k3e1x2-32", "16k3e1x2"},
           {"fbnet-8-16k3k3e1-32", "16k3k3e1"},
           {"fbnet-8-15k3e1g2-32", "15k3e1g2"},
           {"fbnet-8--32", ""},
           {"fbnet-0-16-32", "0"},
           {"fbnet-8-16k3e99999999999999999999-32", "16k3e99999999999999999999"},
           {"fbnet-8-16-32s2", "32s2"}})
    expect_error(ErrorKind::kInvalidInput, "\"" + word + "\"", [&] { parse_block_net(name); });
}

TEST(BlockWordsTest, APlaceMayBeLeftOutWhereThatKeepsTheShape) {
  EXPECT_EQ(choices_at({16, 1}, 16).size(), 9U);
  EXPECT_FALSE(choices_at({16, 1}, 16).back());
  EXPECT_EQ(choices_at({16, 2}, 16).size(), 8U);
  EXPECT_EQ(choices_at({16, 1}, 8).size(), 8U);
  EXPECT_EQ(choices_at({15, 1}, 15).size(), 7U);  // no groups
}

TEST(BlockWordsTest, OpenPlacesAreFilledAndThoseWithoutABlockAreGone) {
  const BlockNet net = parse_block_net("fbnet-8-16s2-16-16k3e1-32");
  EXPECT_EQ(to_string(filled(net, {3, 8})), "fbnet-8-16k3e6s2-16k3e1-32");
  EXPECT_EQ(to_string(filled(net, {5, 0})), "fbnet-8-16k5e1g2s2-16k3e1-16k3e1-32");
  EXPECT_EQ(filled(net, {3, 8}).places[1].number, 2);
}

TEST(LatencyTableTest, IsReadBackAndAddsUp) {
  LatencyTable table;
  table.net = parse_block_net("fbnet-8-16s2-16-32");
  table.input = {1, 28, 28};
  table.rest_ms = 0.5;
  table.choices_ms = {{1, 2, 3, 4, 5, 6, 7, 8}, {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0}};
  const LatencyTable read = LatencyTable::from_json(table.json(), "times.json");
  EXPECT_EQ(read.net, table.net);
  EXPECT_EQ(read.choices_ms, table.choices_ms);
  EXPECT_DOUBLE_EQ(read.of({2, 8}), 3.5);
  EXPECT_DOUBLE_EQ(read.of({0, 1}), 1.7);
  Json missing = table.json();
  missing["places"][1]["choices"].erase("skip");
  expect_error(ErrorKind::kDamaged, "skip", [&] { LatencyTable::from_json(missing, "times.json"); });
  Json fewer = table.json();
  fewer["places"].erase(1);
  expect_error(ErrorKind::kDamaged, "1 places", [&] { LatencyTable::from_json(fewer, "times.json"); });
}

}  // namespace
}  // namespace muster::zoo
