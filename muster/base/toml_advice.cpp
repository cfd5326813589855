// Guesses from the line alone what its writer meant. It is asked only after the parser has refused the file, so a wrong
// guess costs a remark and no value.
#include "muster/base/toml_advice.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "muster/base/text.h"

namespace muster {
namespace {

constexpr std::size_t kShownOfLine = 60;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

std::string_view line_of(std::string_view text, std::uint64_t line) {
  for (std::uint64_t skipped = 1; skipped < line; ++skipped) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return trimmed(text.substr(0, text.find('\n')));
}

bool has_typographic_quote(std::string_view text) {
  constexpr std::array<std::string_view, 7> kQuotes{"“", "”", "„", "‘", "’", "«", "»"};
  return std::any_of(kQuotes.begin(), kQuotes.end(),
                     [&](std::string_view quote) { return text.find(quote) != std::string_view::npos; });
}

bool is_number_with_comma(std::string_view text) {
  const std::size_t comma = text.find(',');
  return comma != std::string_view::npos && comma > 0 && comma + 1 < text.size() &&
         text.find_first_not_of("+-0123456789,eE") == std::string_view::npos;
}

std::string advice_on_value(std::string_view key, std::string_view value) {
  if (value.empty()) return fmt::format("A value is missing behind {} =.", key);
  if (has_typographic_quote(value)) return fmt::format("Use straight quotes: {} = \"...\".", key);
  std::string lower(value);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower == "true" || lower == "false" || lower == "yes" || lower == "no")
    return fmt::format("Write {} = {}.", key, lower == "true" || lower == "yes" ? "true" : "false");
  if (is_number_with_comma(value)) return "A number has a point, not a comma.";
  const auto first = static_cast<unsigned char>(value.front());
  const bool word = std::isalpha(first) != 0 || first >= 0x80 || value.find_first_of("/~._") == 0;
  const bool quoted = value.find_first_of("\"'") != std::string_view::npos;
  if (word && !quoted) return fmt::format("Text stands in quotes: {} = \"{}\".", key, excerpt(value, kShownOfLine));
  const bool words =
      first == '[' && std::any_of(value.begin(), value.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
  if (words && !quoted) return fmt::format("Text stands in quotes, also in lists: {} = [\"a\", \"b\"].", key);
  return {};
}

}  // namespace

std::string toml_advice(std::string_view text, std::uint64_t line) {
  std::string_view found = line_of(text, line);
  if (found.empty() || found.front() == '[') return {};
  const std::size_t equals = found.find('=');
  if (equals == std::string_view::npos) {
    const std::size_t colon = found.find(':');
    const std::string key = excerpt(trimmed(found.substr(0, colon)), kShownOfLine);
    if (colon != std::string_view::npos && colon > 0 && key.find_first_of(" ,;") == std::string::npos)
      return fmt::format("Write {} = ..., with an equals sign.", key);
    return "A line is [section], key = value, or a comment that begins with #.";
  }
  // A comment is no part of the value, unless it stands in quotes.
  std::string_view value = found.substr(equals + 1);
  if (value.find_first_of("\"'") == std::string_view::npos) value = value.substr(0, value.find('#'));
  return advice_on_value(excerpt(trimmed(found.substr(0, equals)), kShownOfLine), trimmed(value));
}

}  // namespace muster
