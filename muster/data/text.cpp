// Tokens are numbered once, when the text is read, into the smallest integers that hold the vocabulary; a sample is
// then two windows into them, one shifted by a token.
#include "muster/data/text.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::data {
namespace {

constexpr std::size_t kSmallVocabulary = 256;

std::string to_utf8(char32_t point) {
  std::string text;
  const auto put = [&text](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto continuation = [&](int shift) { put(0x80U | ((point >> shift) & 0x3FU)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0U | (point >> 6));
    continuation(0);
  } else if (point < 0x10000) {
    put(0xE0U | (point >> 12));
    continuation(6);
    continuation(0);
  } else {
    put(0xF0U | (point >> 18));
    continuation(12);
    continuation(6);
    continuation(0);
  }
  return text;
}

// The numbers of characters in a vocabulary.
class Numbers {
 public:
  explicit Numbers(const std::vector<std::string>& names) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto number = static_cast<std::uint32_t>(i);
      if (names[i] == kOtherToken) {
        other_ = number;
      } else if (const auto points = decode_utf8(names[i], "the vocabulary"); points.size() == 1) {
        numbers_.emplace(points.front(), number);
      }
    }
  }
  std::optional<std::uint32_t> of(char32_t point) const {
    const auto found = numbers_.find(point);
    return found == numbers_.end() ? other_ : found->second;
  }

 private:
  std::unordered_map<char32_t, std::uint32_t> numbers_;
  std::optional<std::uint32_t> other_;
};

}  // namespace

void check_known(std::span<const char32_t> text, const std::vector<std::string>& names, const std::string& where) {
  const Numbers numbers(names);
  std::uint64_t line = 1;
  for (const char32_t point : text) {
    if (!numbers.of(point)) {
      throw Error(ErrorKind::kMismatch,
                  fmt::format("the training text has no character \"{}\" (U+{:04X})", excerpt(to_utf8(point), 4),
                              static_cast<std::uint32_t>(point)),
                  fmt::format("{}:{}", where, line),
                  "A model of characters knows those that it was trained on: take this one out, or train with it.");
    }
    if (point == U'\n') ++line;
  }
}

std::vector<char32_t> decode_utf8(std::string_view text, const std::string& where) {
  const std::size_t valid = valid_utf8_prefix(text);
  if (valid != text.size()) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(valid), '\n');
    throw Error(ErrorKind::kDamaged, fmt::format("byte {} is not UTF-8", valid), fmt::format("{}:{}", where, line),
                "Convert the file to UTF-8, or use data.tokens = \"bytes\".");
  }
  std::vector<char32_t> points;
  points.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const std::size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    char32_t point = length == 1 ? first : first & (0xFFU >> (length + 1));
    for (std::size_t k = 1; k < length; ++k)
      point = (point << 6) | (static_cast<unsigned char>(text[i + k]) & 0x3FU);
    points.push_back(point);
    i += length;
  }
  return points;
}

Tokens::Tokens(std::span<const std::byte> text) {
  small_.resize(text.size());
  std::transform(text.begin(), text.end(), small_.begin(),
                 [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
  for (int i = 0; i < 256; ++i)
    names_.push_back(fmt::format("byte 0x{:02X}", i));
}

Tokens::Tokens(std::span<const char32_t> text, std::size_t training) {
  MUSTER_CHECK(training <= text.size(), "a training part beyond the text");
  const char32_t largest = text.empty() ? 0 : *std::max_element(text.begin(), text.end());
  std::vector<std::uint32_t> numbers(std::size_t{largest} + 1, UINT32_MAX);
  for (const char32_t point : text.first(training))
    numbers[point] = 0;
  std::uint32_t next = 0;
  for (std::size_t point = 0; point < numbers.size(); ++point) {
    if (numbers[point] == UINT32_MAX) continue;
    numbers[point] = next++;
    names_.push_back(to_utf8(static_cast<char32_t>(point)));
  }
  const std::uint32_t other = next;
  const auto number = [&](char32_t point) { return std::min(numbers[point], other); };
  if (std::any_of(text.begin(), text.end(), [&](char32_t point) { return number(point) == other; })) {
    names_.emplace_back(kOtherToken);
    ++next;
  }
  vocabulary_ = next;
  keep(text, number);
}

Tokens::Tokens(std::span<const char32_t> text, std::vector<std::string> names)
    : vocabulary_(static_cast<std::int64_t>(names.size())), names_(std::move(names)) {
  const Numbers numbers(names_);
  keep(text, [&](char32_t point) {
    const std::optional<std::uint32_t> number = numbers.of(point);
    MUSTER_CHECK(number, "a character that is not in the vocabulary");
    return *number;
  });
}

template <typename Number>
void Tokens::keep(std::span<const char32_t> text, const Number& number) {
  if (static_cast<std::size_t>(vocabulary_) <= kSmallVocabulary) {
    small_.reserve(text.size());
    for (const char32_t point : text)
      small_.push_back(static_cast<std::uint8_t>(number(point)));
  } else {
    large_.reserve(text.size());
    for (const char32_t point : text)
      large_.push_back(number(point));
  }
}

TextDataset::TextDataset(std::shared_ptr<const Tokens> tokens, std::uint64_t begin, std::uint64_t end,
                         std::int64_t window)
    : tokens_(std::move(tokens)), begin_(begin) {
  MUSTER_CHECK(begin <= end && end <= tokens_->size() && window > 0, "windows beyond the text");
  // The last token of the part is nobody's input: it has no successor.
  windows_ = end > begin ? (end - begin - 1) / static_cast<std::uint64_t>(window) : 0;
  spec_.shape = {window};
  spec_.input = InputKind::kTokens;
  spec_.vocabulary = tokens_->vocabulary();
  spec_.target = TargetKind::kTokens;
  spec_.target_shape = {window};
  spec_.classes = tokens_->vocabulary();
  spec_.class_names = tokens_->names();
}

std::int64_t TextDataset::read(std::uint64_t, std::span<float>) const {
  throw Error(ErrorKind::kUnsupported, "samples of text are tokens and not numbers with a class");
}

void TextDataset::read_sample(std::uint64_t id, const SampleRoom& room) const {
  MUSTER_CHECK(id < windows_, "sample id beyond the data set");
  MUSTER_CHECK(room.tokens.size() == spec_.elements() && room.labels.size() == room.tokens.size(),
               "room of another size than the samples");
  const std::uint64_t first = begin_ + id * room.tokens.size();
  for (std::size_t i = 0; i < room.tokens.size(); ++i) {
    room.tokens[i] = (*tokens_)[first + i];
    room.labels[i] = (*tokens_)[first + i + 1];
  }
}

}  // namespace muster::data
