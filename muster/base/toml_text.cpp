// One pass that keeps only where it stands: line, open brackets, and counts of what the parser would walk again.
// Comments are taken out here, because the parser's search for them is what takes its time.
#include "muster/base/toml_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster {
namespace {

constexpr std::size_t kDeepest = 16;
constexpr int kMostParts = 16;
constexpr int kMostKeys = 1000;
constexpr int kMostElements = 4000;
// Bytes that the parser may walk in search of comments: for every value its line, and the lines above that start with
// #.
constexpr std::size_t kLongestWalk = 32 << 20;
constexpr std::size_t kCostOfALine = 64;  // in such bytes, for each line above

// Whether `word` has the form of a number and no 64-bit integer or double can hold it.
bool out_of_range(std::string_view word) {
  std::string digits(word);
  std::erase(digits, '_');
  if (digits.starts_with('+')) digits.erase(0, 1);
  const auto overflows = [&](std::size_t from, auto number, auto... how) {
    const char* const end = digits.data() + digits.size();
    const auto result = std::from_chars(digits.data() + from, end, number, how...);
    return result.ptr == end && result.ec == std::errc::result_out_of_range;
  };
  if (digits.starts_with("0x")) return overflows(2, std::int64_t{}, 16);
  if (digits.starts_with("0o")) return overflows(2, std::int64_t{}, 8);
  if (digits.starts_with("0b")) return overflows(2, std::int64_t{}, 2);
  if (digits.find_first_not_of("0123456789", digits.starts_with('-') ? 1 : 0) == std::string::npos)
    return overflows(0, std::int64_t{}, 10);
  return overflows(0, double{});
}

// Reads the text once, keeping only where it stands: the line, the open brackets, and what was counted so far.
class Scan {
 public:
  Scan(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  // The text without comments.
  std::string run() {
    while (at_ < text_.size())
      step();
    end_line();
    if (depth_ > 0) refuse(fmt::format("the {} is not closed", open_[depth_ - 1].what), open_[depth_ - 1].line);
    clean_ += text_.substr(copied_);
    return std::move(clean_);
  }

 private:
  struct Bracket {
    const char* what;
    int line;
  };

  [[noreturn]] void refuse(const std::string& message, int line) const {
    throw Error(ErrorKind::kInvalidInput, message, fmt::format("{}:{}", name_, line));
  }
  void count(int& counter, int most, const char* what) {
    ++on_line_;
    if (++counter > most) refuse(fmt::format("more than {} {}", most, what), line_);
  }
  bool follows(std::string_view mark) const { return text_.substr(at_).starts_with(mark); }

  // At a line break, which may stand inside a text, or at the end.
  void end_line(bool in_text = false) {
    const std::string_view line = text_.substr(line_start_, at_ - line_start_);
    walk_ += on_line_ * (line.size() + above_);
    if (walk_ > kLongestWalk) refuse("too many values on a line of this length; break it", line_);
    // The parser takes such a line of a text for a comment; true comments it does not get to see.
    const std::size_t first = line.find_first_not_of(" \t");
    const bool like_comment = in_text && first != std::string_view::npos && line[first] == '#';
    above_ = like_comment ? above_ + line.size() + kCostOfALine : 0;
    on_line_ = 0;
    line_start_ = at_ + 1;
    ++line_;
  }

  void step() {
    const char c = text_[at_];
    switch (c) {
      case '\n':
        end_line();
        parts_ = 0;
        // Outside of brackets a line is one header or one key with its value.
        if (depth_ == 0) in_value_ = false;
        break;
      case '#':
        clean_ += text_.substr(copied_, at_ - copied_);
        at_ = copied_ = std::min(text_.find('\n', at_), text_.size());
        return;
      case '"':
      case '\'':
        skip_quoted(c);
        return;
      case '=':
        count(keys_, kMostKeys, "keys");
        in_value_ = true;
        parts_ = 0;
        break;
      case ',':
        count(elements_, kMostElements, "elements");
        parts_ = 0;
        break;
      case '.':
        if (++parts_ >= kMostParts) refuse(fmt::format("a key of more than {} parts", kMostParts), line_);
        break;
      case '[':
      case '{':
        open(c);
        break;
      case ']':
      case '}':
        if (depth_ > 0) --depth_;
        break;
      default:
        if (in_value_ && is_of_word(c)) {
          check_word();
          return;
        }
        break;
    }
    ++at_;
  }

  void open(char bracket) {
    parts_ = 0;
    if (!in_value_) {  // a header, which the parser does not recurse into
      if (at_ == 0 || text_[at_ - 1] != '[') count(keys_, kMostKeys, "keys");
      return;
    }
    count(elements_, kMostElements, "elements");
    if (depth_ == kDeepest) refuse(fmt::format("nested deeper than {}", kDeepest), line_);
    open_[depth_++] = {bracket == '[' ? "array" : "table", line_};
  }

  // Past a text in quotes, of one line or of several (three quotes).
  void skip_quoted(char quote) {
    const int start = line_;
    const std::string three(3, quote);
    const bool long_text = follows(three);
    at_ += long_text ? 3 : 1;
    while (at_ < text_.size()) {
      if (text_[at_] == '\n') {
        if (!long_text) break;
        end_line(true);
      } else if (text_[at_] == '\\' && quote == '"') {
        ++at_;  // whatever stands behind it does not end the text
        check_escape();
        if (at_ < text_.size() && text_[at_] == '\n') {
          if (!long_text) break;
          end_line(true);
        }
      } else if (long_text ? follows(three) : text_[at_] == quote) {
        at_ += long_text ? 3 : 1;
        // Up to two quotes may stand before the three that end a long text.
        for (int more = 0; long_text && more < 2 && at_ < text_.size() && text_[at_] == quote; ++more)
          ++at_;
        return;
      }
      ++at_;
    }
    refuse(fmt::format("the text that starts with {} is not closed", long_text ? three : std::string(1, quote)), start);
  }

  // Behind a backslash. The parser refuses \ud800 as well, but toml11 4 says that it stands in line 1.
  void check_escape() const {
    const std::size_t digits = follows("u") ? 4 : follows("U") ? 8 : 0;
    const std::string_view number = text_.substr(std::min(at_ + 1, text_.size()), digits);
    std::uint32_t character = 0;
    const auto read = std::from_chars(number.data(), number.data() + number.size(), character, 16);
    if (digits == 0 || read.ptr != number.data() + digits) return;  // left to the parser
    if ((character >= 0xd800 && character <= 0xdfff) || character > 0x10ffff)
      refuse(fmt::format("\\{}{} is no character", text_[at_], number), line_);
  }

  static bool is_of_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' || c == '-' ||
           c == '_';
  }

  // At a value without quotes, or at a key of an inline table.
  void check_word() {
    std::size_t end = at_;
    while (end < text_.size() && (is_of_word(text_[end]) || text_[end] == '.')) {
      if (text_[end] == '.' && ++parts_ >= kMostParts)
        refuse(fmt::format("a key of more than {} parts", kMostParts), line_);
      ++end;
    }
    const std::string_view word = text_.substr(at_, end - at_);
    if (out_of_range(word)) refuse(fmt::format("{} is beyond what a number can hold", excerpt(word, 60)), line_);
    at_ = end;
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::size_t line_start_ = 0;
  std::size_t on_line_ = 0;  // keys and elements since line_start_
  std::size_t above_ = 0;    // cost of the lines above that look like comments
  std::size_t walk_ = 0;     // of kLongestWalk
  std::string clean_;
  std::size_t copied_ = 0;  // what stands before it is in clean_, but for comments
  std::array<Bracket, kDeepest> open_{};
  std::size_t depth_ = 0;  // of open_
  bool in_value_ = false;  // behind a '='; only there brackets nest and words are values
  int parts_ = 0;          // dots since the last mark between keys or values
  int keys_ = 0;
  int elements_ = 0;
};

}  // namespace

std::string checked_toml(std::string_view text, const std::string& name) {
  if (text.size() > kLargestToml) {
    throw Error(ErrorKind::kDamaged, fmt::format("has {} bytes; at most {} are accepted", text.size(), kLargestToml),
                name);
  }
  const auto refuse_byte = [&](std::size_t at, const std::string& message) {
    const auto lines = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    throw Error(ErrorKind::kInvalidInput, message, fmt::format("{}:{}", name, lines + 1));
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool line_end = c == '\n' || (c == '\r' && text.substr(i + 1).starts_with('\n'));
    if (c == 0) refuse_byte(i, "a zero byte; is this a text file?");
    if ((c < 0x20 && c != '\t' && !line_end) || c == 0x7f)
      refuse_byte(i, fmt::format("the control character 0x{:02x}; is this a text file?", c));
  }
  if (const std::size_t valid = valid_utf8_prefix(text); valid < text.size())
    refuse_byte(valid, fmt::format("the byte 0x{:02x} is not UTF-8", static_cast<unsigned char>(text[valid])));
  return Scan(text, name).run();
}

}  // namespace muster
