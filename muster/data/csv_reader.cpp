// Looks for delimiters and line ends 64 bytes at a time, as bits of a word; a quoted field is searched for its quote
// instead. Fields are views into the buffer, valid until the next record.
#include "muster/data/csv_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"

namespace muster::data {
namespace {

constexpr std::size_t kCsvBlock = 64;
constexpr std::size_t kLongestRecord = std::size_t{16} << 20;
constexpr std::size_t kMostFields = 65536;

// Which of the 64 bytes at `block` are the delimiter or a line end: bit i for byte i.
std::uint64_t structural_mask(const char* block, char delimiter) {
  std::uint64_t mask = 0;
#if defined(__SSE2__)
  const __m128i delimiters = _mm_set1_epi8(delimiter);
  const __m128i line_ends = _mm_set1_epi8('\n');
  for (std::size_t part = 0; part < 4; ++part) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 16 * part));
    const __m128i found = _mm_or_si128(_mm_cmpeq_epi8(bytes, delimiters), _mm_cmpeq_epi8(bytes, line_ends));
    mask |= std::uint64_t{static_cast<std::uint32_t>(_mm_movemask_epi8(found))} << (16 * part);
  }
#else
  for (std::size_t i = 0; i < kCsvBlock; ++i)
    mask |= std::uint64_t{block[i] == delimiter || block[i] == '\n'} << i;
#endif
  return mask;
}

}  // namespace

CsvReader::CsvReader(std::unique_ptr<ByteReader> bytes, std::string where, char delimiter, std::size_t buffer_bytes)
    : bytes_(std::move(bytes)), file_(std::move(where)), delimiter_(delimiter), buffer_bytes_(buffer_bytes) {
  MUSTER_CHECK(delimiter != '"' && delimiter != '\n' && delimiter != '\r', "a delimiter that CSV cannot have");
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  while (end_ < kMark.size() && !at_end_)
    refill();
  if (std::string_view(buffer_.data(), end_).starts_with(kMark)) begin_ = kMark.size();
}

std::string CsvReader::where() const {
  return fmt::format("{}:{}", file_, line_);
}

void CsvReader::damaged(std::string message) const {
  throw Error(ErrorKind::kDamaged, std::move(message), where());
}

bool CsvReader::next(std::vector<std::string_view>& fields) {
  while (true) {
    line_ = next_line_;
    switch (scan(fields)) {
      case Scan::kRecord:
        return true;
      case Scan::kBlank:
        break;
      case Scan::kNeedsMore:
        next_line_ = line_;
        refill();
        break;
      case Scan::kEnd:
        return false;
    }
  }
}

inline const char* CsvReader::next_structural(const char* from) {
  const char* const base = buffer_.data();
  auto offset = static_cast<std::size_t>(from - base);
  while (offset < end_) {
    const std::size_t block = offset / kCsvBlock;
    if (block != block_) {
      block_ = block;
      mask_ = structural_mask(base + block * kCsvBlock, delimiter_);
    }
    const std::uint64_t rest = mask_ >> (offset % kCsvBlock);
    if (rest != 0) return std::min(base + offset + std::countr_zero(rest), base + end_);
    offset = (block + 1) * kCsvBlock;
  }
  return base + end_;
}

CsvReader::Scan CsvReader::scan(std::vector<std::string_view>& fields) {
  fields.clear();
  unescaped_.clear();
  const char* const end = buffer_.data() + end_;
  const char* at = buffer_.data() + begin_;
  if (at == end) return at_end_ ? Scan::kEnd : Scan::kNeedsMore;
  while (true) {
    std::string_view field;
    const char* stop = nullptr;
    if (at < end && *at == '"') {
      if (!scan_quoted(at, field)) {
        if (at_end_) damaged("a quote is opened and never closed");
        return Scan::kNeedsMore;
      }
      stop = at;
      const bool last = stop + 1 == end && at_end_;
      if (stop < end && *stop == '\r' && (last || (stop + 1 < end && stop[1] == '\n'))) ++stop;
      if (stop + 1 >= end && !at_end_) return Scan::kNeedsMore;
      if (stop < end && *stop != delimiter_ && *stop != '\n') damaged("text stands behind a closing quote");
    } else {
      stop = next_structural(at);
      if (stop == end && !at_end_) return Scan::kNeedsMore;
      field = std::string_view(at, static_cast<std::size_t>(stop - at));
      if ((stop == end || *stop == '\n') && field.ends_with('\r')) field.remove_suffix(1);
    }
    if (fields.size() >= kMostFields) damaged(fmt::format("has more than {} fields", kMostFields));
    fields.push_back(field);
    if (stop < end && *stop == delimiter_) {
      at = stop + 1;
      continue;
    }
    if (stop < end) ++next_line_;
    const bool blank = fields.size() == 1 && field.empty() && buffer_[begin_] != '"';
    begin_ = static_cast<std::size_t>(std::min(stop + 1, end) - buffer_.data());
    return blank ? Scan::kBlank : Scan::kRecord;
  }
}

bool CsvReader::scan_quoted(const char*& at, std::string_view& field) {
  const char* const end = buffer_.data() + end_;
  const char* const start = at + 1;
  std::string* text = nullptr;
  const char* from = start;
  while (true) {
    const auto* quote = static_cast<const char*>(std::memchr(from, '"', static_cast<std::size_t>(end - from)));
    // A quote that ends the buffer may be the first of two.
    if (quote == nullptr || (quote + 1 == end && !at_end_)) return false;
    if (quote + 1 < end && quote[1] == '"') {
      if (text == nullptr) {
        unescaped_.push_back(std::make_unique<std::string>(start, from));
        text = unescaped_.back().get();
      }
      text->append(from, quote + 1);
      from = quote + 2;
      continue;
    }
    if (text != nullptr) text->append(from, quote);
    field =
        text != nullptr ? std::string_view(*text) : std::string_view(start, static_cast<std::size_t>(quote - start));
    next_line_ += static_cast<std::uint64_t>(std::count(start, quote, '\n'));
    at = quote + 1;
    return true;
  }
}

void CsvReader::refill() {
  const std::size_t held = end_ - begin_;
  if (held > kLongestRecord)
    damaged(fmt::format("a record of more than {} MiB: is a quote not closed?", kLongestRecord >> 20));
  if (held > 0 && begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, held);
  begin_ = 0;
  end_ = held;
  block_ = SIZE_MAX;
  const std::size_t size = std::max(buffer_bytes_, 2 * held);
  if (buffer_.size() < size + kCsvBlock) buffer_.resize(size + kCsvBlock);
  const std::size_t room = buffer_.size() - kCsvBlock - held;
  const std::size_t count = bytes_->read(std::as_writable_bytes(std::span(buffer_)).subspan(held, room));
  end_ += count;
  bytes_read_ += count;
  at_end_ = count < room;
  std::memset(buffer_.data() + end_, 0, kCsvBlock);
}

}  // namespace muster::data
