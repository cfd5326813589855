// The language of nets of FBNet's blocks: a net as a name, words with dashes between them, as
//   fbnet-16s2-24k3e6s2-24k5e3-32k3e6s2-32k3e1g2-128
//   stem: channels of the first convolution (3x3), its stride
//   blocks: output channels, kernel, expansion, stride (1), groups of the 1x1 convolutions (1)
//   head: channels of the last convolution (1x1)
// A word without a kernel, as 24s2, is a place that is open: a net with such places stands for all nets that differ in
// them, and a search (trainer/block_search.h) fills them in. No torch here. Thread safety: values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::zoo {

// What may stand at a place: kernel of the depthwise convolution, channels inside by channels in front, groups of the
// 1x1 convolutions.
struct BlockChoice {
  std::int64_t kernel = 3;
  std::int64_t expansion = 1;
  std::int64_t groups = 1;

  bool operator==(const BlockChoice&) const = default;
};

struct BlockPlace {
  std::int64_t channels = 0;
  std::int64_t stride = 1;
  std::optional<BlockChoice> choice{};  // empty: open
  std::int64_t number = 0;              // names the block's parameters: block3.expand.conv

  bool operator==(const BlockPlace&) const = default;
};

struct BlockNet {
  std::int64_t stem = 16;
  std::int64_t stem_stride = 2;
  std::vector<BlockPlace> places{};
  std::int64_t head = 128;

  bool operator==(const BlockNet&) const = default;
};

// Whether `name` is meant as one: it begins with "fbnet-".
bool is_block_net(std::string_view name);
// Blocks are numbered from 1. Throws Error{kInvalidInput} that names the word.
BlockNet parse_block_net(std::string_view name);
std::string to_string(const BlockNet& net);
// "k3e6", "k5e1g2".
std::string to_string(const BlockChoice& choice);

// The numbers of the places that are open.
std::vector<std::size_t> open_places(const BlockNet& net);

// What may stand at a place that gets `inputs` channels: the paper's choices, kernels 3 and 5 with expansions 1, 3 and
// 6, and of 1 with two groups as well. An empty one is no block at all, where that leaves the shape as it is.
std::vector<std::optional<BlockChoice>> choices_at(const BlockPlace& place, std::int64_t inputs);
// "skip" for an empty one.
std::string to_string(const std::optional<BlockChoice>& choice);

// `net` with choice number chosen[i] at its i-th open place; places without a block are gone.
// REQUIRES: a number for each open place, below the number of its choices.
BlockNet filled(const BlockNet& net, const std::vector<std::size_t>& chosen);

}  // namespace muster::zoo
