// Most numbers of tables are short and without an exponent: for these an exact integer is divided by an exact power of
// ten, which rounds once. All others go the slow way, and both give the nearest double.
#include "muster/data/number.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace muster::data {
namespace {

// A double holds each of them exactly.
constexpr std::size_t kMostDigits = 18;
constexpr std::array<double, kMostDigits + 1> kPowers{1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8, 1e9,
                                                      1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18};
constexpr std::uint64_t kExactIntegers = std::uint64_t{1} << 53;

bool is_digit(char c) {
  return static_cast<unsigned char>(c - '0') < 10;
}

// Four characters at once, if all of them are digits: what most numbers have behind their point.
bool four_digits(const char* at, std::uint64_t& value) {
  static_assert(std::endian::native == std::endian::little, "the first digit is the lowest byte");
  std::uint32_t word = 0;
  std::memcpy(&word, at, sizeof word);
  word -= 0x30303030;
  // The highest bit of a byte is set if it was below '0', or above '9'.
  if ((((word + 0x76767676) | word) & 0x80808080) != 0) return false;
  const std::uint32_t pairs = (word * 10 + (word >> 8)) & 0x00FF00FF;
  value = (pairs & 0xFF) * 100 + (pairs >> 16);
  return true;
}

// Whether a number that no double holds is too large, rather than too close to 0: where its first digit stands.
bool is_huge(const char* at, const char* end) {
  std::int64_t place = 0;  // of the first digit that is not 0; 1 for units
  bool met = false;
  bool behind_point = false;
  for (; at < end && (is_digit(*at) || *at == '.' || *at == '-'); ++at) {
    if (*at == '.') behind_point = true;
    if (!is_digit(*at)) continue;
    met |= *at != '0';
    if (met && !behind_point) ++place;
    if (!met && behind_point) --place;
  }
  std::int64_t exponent = 0;
  const bool negative = at + 1 < end && at[1] == '-';
  for (; at < end; ++at) {
    if (is_digit(*at)) exponent = std::min<std::int64_t>(exponent * 10 + (*at - '0'), std::int64_t{1} << 40);
  }
  return place + (negative ? -exponent : exponent) > 0;
}

// Everything that has the grammar of a number; slower, and right for all of them.
std::optional<float> parse_any(const char* begin, const char* end) {
  if (*begin == '+') ++begin;
  double value = 0;
  const auto result = std::from_chars(begin, end, value);
  if (result.ptr != end) return std::nullopt;
  if (result.ec == std::errc::result_out_of_range) return is_huge(begin, end) ? std::nullopt : std::optional(0.0F);
  if (result.ec != std::errc() || !std::isfinite(static_cast<float>(value))) return std::nullopt;
  return static_cast<float>(value);
}

}  // namespace

std::optional<float> parse_float(std::string_view text) {
  const char* at = text.data();
  const char* end = at + text.size();
  while (at < end && (*at == ' ' || *at == '\t'))
    ++at;
  while (at < end && (end[-1] == ' ' || end[-1] == '\t'))
    --end;
  const char* const begin = at;
  const bool negative = at < end && *at == '-';
  if (at < end && (*at == '-' || *at == '+')) ++at;
  const char* const digits = at;
  std::uint64_t mantissa = 0;
  for (; at < end && is_digit(*at); ++at)
    mantissa = mantissa * 10 + static_cast<std::uint64_t>(*at - '0');
  auto count = at - digits;
  std::ptrdiff_t fraction_digits = 0;
  if (at < end && *at == '.') {
    const char* const fraction = ++at;
    for (std::uint64_t four = 0; end - at >= 4 && four_digits(at, four); at += 4)
      mantissa = mantissa * 10000 + four;
    for (; at < end && is_digit(*at); ++at)
      mantissa = mantissa * 10 + static_cast<std::uint64_t>(*at - '0');
    fraction_digits = at - fraction;
    count += fraction_digits;
  }
  if (count == 0) return std::nullopt;  // also words: inf, nan
  // Digits that may have overflowed, exponents and what is no number go the slow way.
  if (at != end || static_cast<std::size_t>(count) > kMostDigits || mantissa >= kExactIntegers)
    return parse_any(begin, end);
  // An exact integer divided by an exact power of ten: one rounding, so it is the nearest double.
  const double value = static_cast<double>(mantissa) / kPowers[static_cast<std::size_t>(fraction_digits)];
  return static_cast<float>(negative ? -value : value);
}

}  // namespace muster::data
