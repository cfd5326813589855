// A word is read letter by letter, each at most once.
// Numbers are checked for what a layer can be made of.
#include "muster/model/zoo/block_words.h"

#include <charconv>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"

namespace muster::zoo {
namespace {

constexpr std::string_view kPrefix = "fbnet-";
constexpr std::int64_t kMostChannels = 1 << 16;
constexpr std::int64_t kMostKernel = 31;
constexpr std::int64_t kMostExpansion = 64;
constexpr std::int64_t kMostStride = 16;
constexpr std::size_t kMostPlaces = 1000;

[[noreturn]] void refuse(std::string_view word, const std::string& reason) {
  throw Error(ErrorKind::kInvalidInput, fmt::format("no net of blocks: \"{}\" {}", word, reason), {},
              "A net is fbnet-STEM-BLOCK-...-HEAD, for example fbnet-16s2-24k3e6s2-24k5e3-128 (docs/models.md).");
}

// "24k3e6s2": channels, then letters with a number each.
struct Word {
  std::int64_t channels = 0;
  std::optional<std::int64_t> kernel{}, expansion{}, stride{}, groups{};
};

std::int64_t take_number(std::string_view word, std::string_view& rest, std::int64_t most) {
  std::int64_t number = 0;
  const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (code != std::errc() || number < 1 || number > most)
    refuse(word, fmt::format("needs a number from 1 to {} where \"{}\" stands", most, rest));
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return number;
}

Word parse_word(std::string_view word) {
  Word parsed;
  std::string_view rest = word;
  parsed.channels = take_number(word, rest, kMostChannels);
  while (!rest.empty()) {
    const char letter = rest.front();
    rest.remove_prefix(1);
    std::optional<std::int64_t>* const value = letter == 'k'   ? &parsed.kernel
                                               : letter == 'e' ? &parsed.expansion
                                               : letter == 's' ? &parsed.stride
                                               : letter == 'g' ? &parsed.groups
                                                               : nullptr;
    if (value == nullptr) refuse(word, fmt::format("has a '{}'; there are k, e, s and g", letter));
    if (*value) refuse(word, fmt::format("says {} twice", letter));
    *value = take_number(word, rest,
                         letter == 'k'   ? kMostKernel
                         : letter == 'e' ? kMostExpansion
                         : letter == 's' ? kMostStride
                                         : kMostChannels);
  }
  return parsed;
}

// Of the stem and the head.
Word parse_end(std::string_view word, bool stride) {
  const Word parsed = parse_word(word);
  if (parsed.kernel || parsed.expansion || parsed.groups || (parsed.stride && !stride))
    refuse(word, stride ? "is the stem: it has channels and a stride" : "is the head: it has channels only");
  return parsed;
}

BlockPlace parse_place(std::string_view word, std::int64_t inputs) {
  const Word parsed = parse_word(word);
  BlockPlace place{.channels = parsed.channels, .stride = parsed.stride.value_or(1)};
  if (!parsed.kernel && !parsed.expansion && !parsed.groups) return place;
  if (!parsed.kernel || !parsed.expansion)
    refuse(word, "needs a kernel and an expansion, as 24k3e6, or none of both where it is open");
  place.choice = BlockChoice{*parsed.kernel, *parsed.expansion, parsed.groups.value_or(1)};
  if (place.choice->kernel % 2 == 0) refuse(word, "has an even kernel");
  if (inputs % place.choice->groups != 0 || place.channels % place.choice->groups != 0)
    refuse(word, fmt::format("has {} groups, which do not divide {} and {} channels", place.choice->groups, inputs,
                             place.channels));
  return place;
}

}  // namespace

bool is_block_net(std::string_view name) {
  return name.starts_with(kPrefix);
}

BlockNet parse_block_net(std::string_view name) {
  if (!is_block_net(name)) refuse(name, "does not begin with fbnet-");
  std::vector<std::string_view> words;
  for (std::string_view rest = name.substr(kPrefix.size());;) {
    const std::size_t dash = rest.find('-');
    words.push_back(rest.substr(0, dash));
    if (dash == std::string_view::npos) break;
    rest.remove_prefix(dash + 1);
  }
  if (words.size() < 3) refuse(name, "needs a stem, a block and a head at least");
  if (words.size() > kMostPlaces) refuse(words.back(), fmt::format("is word {}; that is too many", words.size()));
  BlockNet net;
  const Word stem = parse_end(words.front(), true);
  net.stem = stem.channels;
  net.stem_stride = stem.stride.value_or(1);
  std::int64_t inputs = net.stem;
  for (std::size_t i = 1; i + 1 < words.size(); ++i) {
    net.places.push_back(parse_place(words[i], inputs));
    net.places.back().number = static_cast<std::int64_t>(i);
    inputs = net.places.back().channels;
  }
  net.head = parse_end(words.back(), false).channels;
  return net;
}

std::string to_string(const BlockChoice& choice) {
  return fmt::format("k{}e{}{}", choice.kernel, choice.expansion,
                     choice.groups == 1 ? "" : fmt::format("g{}", choice.groups));
}

std::string to_string(const std::optional<BlockChoice>& choice) {
  return choice ? to_string(*choice) : "skip";
}

std::string to_string(const BlockNet& net) {
  const auto stride = [](std::int64_t number) { return number == 1 ? std::string() : fmt::format("s{}", number); };
  std::string name = fmt::format("{}{}{}", kPrefix, net.stem, stride(net.stem_stride));
  for (const BlockPlace& place : net.places)
    name += fmt::format("-{}{}{}", place.channels, place.choice ? to_string(*place.choice) : "", stride(place.stride));
  return fmt::format("{}-{}", name, net.head);
}

std::vector<std::size_t> open_places(const BlockNet& net) {
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < net.places.size(); ++i) {
    if (!net.places[i].choice) open.push_back(i);
  }
  return open;
}

std::vector<std::optional<BlockChoice>> choices_at(const BlockPlace& place, std::int64_t inputs) {
  std::vector<std::optional<BlockChoice>> choices;
  for (const std::int64_t kernel : {3, 5}) {
    choices.push_back(BlockChoice{kernel, 1, 1});
    if (inputs % 2 == 0 && place.channels % 2 == 0) choices.push_back(BlockChoice{kernel, 1, 2});
    choices.push_back(BlockChoice{kernel, 3, 1});
    choices.push_back(BlockChoice{kernel, 6, 1});
  }
  if (place.stride == 1 && place.channels == inputs) choices.push_back(std::nullopt);
  return choices;
}

BlockNet filled(const BlockNet& net, const std::vector<std::size_t>& chosen) {
  BlockNet result = net;
  result.places.clear();
  std::int64_t inputs = net.stem;
  std::size_t open = 0;
  for (const BlockPlace& place : net.places) {
    BlockPlace next = place;
    if (!place.choice) {
      MUSTER_CHECK(open < chosen.size(), "a choice for each open place");
      const auto choices = choices_at(place, inputs);
      MUSTER_CHECK(chosen[open] < choices.size(), "there is such a choice");
      next.choice = choices[chosen[open++]];
    }
    inputs = place.channels;
    if (!next.choice) continue;
    next.number = static_cast<std::int64_t>(result.places.size()) + 1;
    result.places.push_back(next);
  }
  return result;
}

}  // namespace muster::zoo
