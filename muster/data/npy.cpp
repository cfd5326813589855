// A parser for exactly the dictionary that NumPy writes, and one loop for each element type. Shapes are held against
// the file's length before anything is allocated.
#include "muster/data/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::data {
namespace {

constexpr std::size_t kMostDimensions = 32;

[[noreturn]] void damaged(const std::string& where, std::string message) {
  throw Error(ErrorKind::kDamaged, std::move(message), where);
}

// The header's dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } and nothing else.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& where) : rest_(text), where_(where) {}

  void parse() {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr") {
        set(descr, quoted());
      } else if (key == "fortran_order") {
        set(fortran_order, boolean());
      } else if (key == "shape") {
        set(shape, tuple());
      } else {
        refuse();
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!rest_.empty() || !descr || !fortran_order || !shape) refuse();
  }

  std::optional<std::string_view> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> shape;

 private:
  [[noreturn]] void refuse() const { damaged(where_, "its header is not one that NumPy writes"); }
  template <typename T>
  void set(std::optional<T>& value, T found) const {
    if (value) refuse();
    value = std::move(found);
  }
  void skip_space() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n'))
      rest_.remove_prefix(1);
  }
  bool accept(char c) {
    skip_space();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) refuse();
  }
  std::string_view quoted() {
    expect('\'');
    const std::size_t end = rest_.find('\'');
    if (end == std::string_view::npos) refuse();
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool boolean() {
    skip_space();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    refuse();
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> extents;
    expect('(');
    while (!accept(')')) {
      skip_space();
      std::int64_t extent = 0;
      const auto result = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (result.ec != std::errc() || extent < 0 || extents.size() >= kMostDimensions) refuse();
      rest_.remove_prefix(static_cast<std::size_t>(result.ptr - rest_.data()));
      extents.push_back(extent);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return extents;
  }

  std::string_view rest_;
  const std::string& where_;
};

void set_type(NpyHeader& header, std::string_view descr, const std::string& where) {
  const auto refuse = [&] {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("has elements of type \"{}\"; bool, integers and floats of 2, 4 and 8 bytes are read",
                            excerpt(descr, 40)),
                where, "Convert it: np.save(file, array.astype(np.float32)).");
  };
  if (descr.size() != 3 || std::string_view("<>|=").find(descr[0]) == std::string_view::npos) refuse();
  header.big_endian = descr[0] == '>';
  header.item_bytes = static_cast<std::size_t>(descr[2] - '0');
  const bool size_1_to_8 = descr[2] == '1' || descr[2] == '2' || descr[2] == '4' || descr[2] == '8';
  switch (descr[1]) {
    case 'b':
      header.type = NpyType::kBool;
      if (descr[2] != '1') refuse();
      break;
    case 'i':
      header.type = NpyType::kInt;
      break;
    case 'u':
      header.type = NpyType::kUnsigned;
      break;
    case 'f':
      header.type = NpyType::kFloat;
      if (descr[2] == '1') refuse();
      break;
    default:
      refuse();
  }
  if (!size_1_to_8) refuse();
}

float half_to_float(std::uint16_t half) {
  const int exponent = (half >> 10) & 0x1F;
  const int mantissa = half & 0x3FF;
  float value = 0;
  if (exponent == 0x1F) {
    value = mantissa == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), -24);
  } else {
    value = std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  }
  return (half & 0x8000) != 0 ? -value : value;
}

template <typename Word>
Word load(const std::byte* bytes, bool big_endian) {
  std::array<std::byte, sizeof(Word)> copy{};
  std::copy_n(bytes, sizeof(Word), copy.begin());
  if (big_endian) std::reverse(copy.begin(), copy.end());
  return std::bit_cast<Word>(copy);
}

// Calls `use` with each element as the type that it has.
template <typename Use>
void each(const NpyHeader& header, std::span<const std::byte> bytes, const Use& use) {
  const auto run = [&](auto example, auto convert) {
    using Word = decltype(example);
    for (std::size_t i = 0; i < bytes.size() / sizeof(Word); ++i)
      use(i, convert(load<Word>(bytes.data() + i * sizeof(Word), header.big_endian)));
  };
  const auto same = [](auto value) { return value; };
  const bool is_signed = header.type == NpyType::kInt;
  switch (header.item_bytes) {
    case 1:
      return is_signed ? run(std::int8_t{}, same) : run(std::uint8_t{}, same);
    case 2:
      if (header.type == NpyType::kFloat) return run(std::uint16_t{}, half_to_float);
      return is_signed ? run(std::int16_t{}, same) : run(std::uint16_t{}, same);
    case 4:
      if (header.type == NpyType::kFloat) return run(float{}, same);
      return is_signed ? run(std::int32_t{}, same) : run(std::uint32_t{}, same);
    default:
      if (header.type == NpyType::kFloat) return run(double{}, same);
      return is_signed ? run(std::int64_t{}, same) : run(std::uint64_t{}, same);
  }
}

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> front, std::uint64_t file_bytes, const std::string& where) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  const std::string_view text(reinterpret_cast<const char*>(front.data()), front.size());
  if (!text.starts_with(kMagic) || front.size() < 10) damaged(where, "is not an .npy file");
  const auto byte = [&](std::size_t i) { return std::to_integer<std::size_t>(front[i]); };
  const std::size_t version = byte(6);
  if (version < 1 || version > 3) damaged(where, fmt::format("has the version {}; 1 to 3 are read", version));
  const std::size_t start = version == 1 ? 10 : 12;
  if (front.size() < start) damaged(where, "is cut short");
  const std::size_t length =
      version == 1 ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (length > front.size() - start)
    damaged(where, fmt::format("has a header of {} bytes, more than is there", length));
  HeaderParser parser(text.substr(start, length), where);
  parser.parse();
  NpyHeader header;
  set_type(header, *parser.descr, where);
  header.shape = *parser.shape;
  header.data_offset = start + length;
  if (*parser.fortran_order && header.shape.size() > 1) {
    throw Error(ErrorKind::kUnsupported, "is in Fortran order", where,
                "Write it in C order: np.save(file, np.ascontiguousarray(array)).");
  }
  bool overflow = false;
  for (const std::int64_t extent : header.shape)
    overflow |= __builtin_mul_overflow(header.elements, static_cast<std::uint64_t>(extent), &header.elements);
  std::uint64_t bytes = 0;
  overflow |= __builtin_mul_overflow(header.elements, header.item_bytes, &bytes);
  if (overflow || bytes != file_bytes - header.data_offset) {
    damaged(where, fmt::format("declares an array of another size than the {} bytes behind its header",
                               file_bytes - header.data_offset));
  }
  return header;
}

void npy_floats(const NpyHeader& header, std::span<const std::byte> bytes, std::span<float> out) {
  MUSTER_CHECK(bytes.size() == out.size() * header.item_bytes, "elements of another size");
  each(header, bytes, [&](std::size_t i, auto value) { out[i] = static_cast<float>(value); });
}

std::int64_t npy_integer(const NpyHeader& header, std::span<const std::byte> bytes) {
  MUSTER_CHECK(bytes.size() == header.item_bytes, "one element");
  std::int64_t integer = 0;
  each(header, bytes, [&](std::size_t, auto value) {
    // What no 64-bit integer holds is no label anyone can mean; -1 is refused wherever labels are checked.
    if constexpr (std::is_floating_point_v<decltype(value)>) {
      const auto number = static_cast<double>(value);
      integer = std::abs(number) < 9e18 ? static_cast<std::int64_t>(number) : -1;
    } else {
      integer = static_cast<std::int64_t>(value);
    }
  });
  return integer;
}

}  // namespace muster::data
