// Pure functions on words. The nearest name is found by edits including swaps of neighbours, within a third of the
// letters: advice that is far-fetched is worse than none.
#include "muster/base/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <fmt/format.h>

namespace muster {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Optimal string alignment distance: insert, delete, replace, swap two neighbours.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j)
    cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  const auto lowered = [](std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(), lower);
    return out;
  };
  constexpr std::size_t kLongest = 64;  // nobody mistypes a name of this length; keeps the table small
  std::optional<std::string> best;
  if (word.empty() || word.size() > kLongest) return best;
  // A third of the letters may be wrong, one at least: "lrr" is lr, "banana" is not "batch".
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongest) continue;
    const std::size_t d = distance(lowered(word), lowered(candidate));
    // As many edits as letters means that nothing of the word is left.
    if (d < best_distance && d < std::max(word.size(), candidate.size())) {
      best_distance = d;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const auto name = nearest(word, candidates);
  return name ? fmt::format(" (did you mean \"{}\"?)", *name) : std::string();
}

std::string join_words(std::span<const std::string> words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " and " : ", ";
    text += words[i];
  }
  return text;
}

std::string grouped(std::uint64_t value) {
  const std::string digits = fmt::format("{}", value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits{"kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1000.0;
  std::size_t unit = 0;
  while (value >= 999.95 && unit + 1 < kUnits.size()) {  // what would be printed as 1000.0
    value /= 1000.0;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string human_duration(std::chrono::nanoseconds duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  // Each form ends where rounding would show a full unit of the next.
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const std::int64_t whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
    const unsigned first = byte(0);
    const std::size_t length = first < 0x80                     ? 1
                               : first >= 0xc2 && first < 0xe0  ? 2
                               : first >= 0xe0 && first < 0xf0  ? 3
                               : first >= 0xf0 && first <= 0xf4 ? 4
                                                                : 0;
    if (length == 0 || length > text.size() - at) return at;
    for (std::size_t i = 1; i < length; ++i) {
      if ((byte(i) & 0xc0U) != 0x80) return at;
    }
    // Longer than needed, half of a surrogate pair, or beyond U+10FFFF: all decided by the second byte.
    if (first == 0xe0 && byte(1) < 0xa0) return at;
    if (first == 0xed && byte(1) > 0x9f) return at;
    if (first == 0xf0 && byte(1) < 0x90) return at;
    if (first == 0xf4 && byte(1) > 0x8f) return at;
    at += length;
  }
  return at;
}

std::string excerpt(std::string_view text, std::size_t most_bytes) {
  constexpr std::size_t kLongestCharacter = 4;
  const bool cut = text.size() > most_bytes;
  if (cut) {
    // Back to the start of the character that the limit would split, if it splits one.
    std::size_t end = most_bytes;
    while (end > 0 && most_bytes - end < kLongestCharacter && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80)
      --end;
    text = text.substr(0, end);
  }
  std::string out;
  while (!text.empty()) {
    const std::size_t valid = valid_utf8_prefix(text);
    for (const char c : text.substr(0, valid))
      out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    text.remove_prefix(valid);
    if (!text.empty()) {
      out += '?';
      text.remove_prefix(1);
    }
  }
  return cut ? out + "..." : out;
}

}  // namespace muster
