// A reader around another one: nothing above it knows that the file was not UTF-8. A table for the 32 bytes in which
// Windows differs from Latin-1; all others are the character of their own number.
#include "muster/data/latin1.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace muster::data {
namespace {

// Of the bytes 0x80 to 0x9F; all others are the character of their own number.
constexpr std::array<char16_t, 32> kWindows{0x20AC, 0x81,   0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021,
                                            0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8D,   0x017D, 0x8F,
                                            0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                            0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x9D,   0x017E, 0x0178};

class Latin1Reader final : public ByteReader {
 public:
  explicit Latin1Reader(std::unique_ptr<ByteReader> below) : below_(std::move(below)) {}

  std::size_t read(std::span<std::byte> out) override {
    std::size_t filled = 0;
    while (filled < out.size()) {
      if (at_ == text_.size() && !refill()) break;
      const std::size_t count = std::min(out.size() - filled, text_.size() - at_);
      std::copy_n(text_.begin() + static_cast<std::ptrdiff_t>(at_), count,
                  out.begin() + static_cast<std::ptrdiff_t>(filled));
      at_ += count;
      filled += count;
    }
    return filled;
  }

 private:
  bool refill() {
    constexpr std::size_t kPiece = std::size_t{64} << 10;
    raw_.resize(kPiece);
    raw_.resize(below_->read(raw_));
    text_.clear();
    at_ = 0;
    for (const std::byte byte : raw_)
      append(latin1_character(static_cast<unsigned char>(byte)));
    return !text_.empty();
  }
  void append(char32_t character) {
    const auto put = [&](std::uint32_t byte) { text_.push_back(static_cast<std::byte>(byte)); };
    if (character < 0x80) return put(character);
    if (character < 0x800) {
      put(0xC0 | (character >> 6));
    } else {
      put(0xE0 | (character >> 12));
      put(0x80 | ((character >> 6) & 0x3F));
    }
    put(0x80 | (character & 0x3F));
  }

  const std::unique_ptr<ByteReader> below_;
  std::vector<std::byte> raw_;
  std::vector<std::byte> text_;  // what was read last, as UTF-8
  std::size_t at_ = 0;           // how much of it was given
};

}  // namespace

char32_t latin1_character(unsigned char byte) {
  return byte >= 0x80 && byte < 0xA0 ? kWindows[byte - 0x80U] : char32_t{byte};
}

std::unique_ptr<ByteReader> latin1_as_utf8(std::unique_ptr<ByteReader> below) {
  return std::make_unique<Latin1Reader>(std::move(below));
}

}  // namespace muster::data
