// Text for character and byte models: the tokens of a text, its vocabulary, and windows of it as samples.
//
// Tokens are bytes (a vocabulary of 256) or characters (Unicode code points; the vocabulary is those of the training
// part, in order, and one more for all others if the held-out parts have others). Memory: 1 byte a token for
// vocabularies up to 256, else 4; while characters are read 4 more, and the text itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/dataset.h"
#include "muster/data/text_options.h"

namespace muster::data {

// The code points of UTF-8 text. Throws kDamaged, naming file and line, for what is not UTF-8.
std::vector<char32_t> decode_utf8(std::string_view text, const std::string& where);

// The name of the token for all characters that training never saw. No character has it: it is several.
constexpr std::string_view kOtherToken = "other";

// Whether a vocabulary has a token for every character. Throws kMismatch, naming the first that it has none for and its
// line in `where`.
void check_known(std::span<const char32_t> text, const std::vector<std::string>& names, const std::string& where);

// Tokens as small as their vocabulary lets them be. Immutable after construction.
class Tokens {
 public:
  // Bytes as they are.
  explicit Tokens(std::span<const std::byte> text);
  // Characters: the vocabulary is that of the first `training` of them. REQUIRES: training <= text.size().
  Tokens(std::span<const char32_t> text, std::size_t training);
  // Characters by names() of another text, the one that a model was trained on. REQUIRES: check_known(text, names).
  Tokens(std::span<const char32_t> text, std::vector<std::string> names);

  std::uint64_t size() const { return small_.empty() ? large_.size() : small_.size(); }
  std::int64_t operator[](std::uint64_t i) const { return small_.empty() ? large_[i] : small_[i]; }
  std::int64_t vocabulary() const { return vocabulary_; }
  // What token i stands for, as UTF-8; "byte 0x0A" for bytes, "other" for the one of unknown characters.
  const std::vector<std::string>& names() const { return names_; }

 private:
  template <typename Number>
  void keep(std::span<const char32_t> text, const Number& number);

  std::vector<std::uint8_t> small_;
  std::vector<std::uint32_t> large_;
  std::int64_t vocabulary_ = 256;
  std::vector<std::string> names_;
};

// Windows of tokens begin .. end-1 that do not overlap: sample i is tokens i*window .. i*window + window-1, and its
// target is the token after each of them. What is left behind the last whole window is left out.
// Immutable. Thread safety: as Dataset.
class TextDataset final : public Dataset {
 public:
  // REQUIRES: begin <= end <= tokens->size(); window > 0.
  TextDataset(std::shared_ptr<const Tokens> tokens, std::uint64_t begin, std::uint64_t end, std::int64_t window);

  std::uint64_t size() const override { return windows_; }
  const SampleSpec& spec() const override { return spec_; }
  // Throws kUnsupported: these samples are tokens.
  std::int64_t read(std::uint64_t id, std::span<float> features) const override;
  void read_sample(std::uint64_t id, const SampleRoom& room) const override;

 private:
  const std::shared_ptr<const Tokens> tokens_;
  const std::uint64_t begin_;
  std::uint64_t windows_;
  SampleSpec spec_;
};

}  // namespace muster::data
