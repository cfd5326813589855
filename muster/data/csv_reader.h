// CsvReader: the records of a CSV file, one after the other, as fields.
//
// Fields are separated by the delimiter and records by LF or CRLF. A field that starts with a quote runs to the next
// single quote, over delimiters and line ends; two quotes in it stand for one. A quote elsewhere is a character like
// any other. Blank lines are no records; a byte-order mark at the start is left out. Memory: one buffer of 256 KiB, or
// of twice the longest record, at most 32 MiB, beside what ByteReader needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/byte_reader.h"

namespace muster::data {

// Thread safety: one thread at a time.
class CsvReader {
 public:
  static constexpr std::size_t kBufferBytes = std::size_t{256} << 10;

  // `where` names the file in errors. `buffer_bytes` is where the buffer begins to grow. REQUIRES:
  // the delimiter is neither a quote nor a line end; room for at least one byte.
  CsvReader(std::unique_ptr<ByteReader> bytes, std::string where, char delimiter = ',',
            std::size_t buffer_bytes = kBufferBytes);

  // Reads the next record into `fields`, which are good until the next call; false at the end of the file. Throws what
  // ByteReader throws, and kDamaged, naming file and line: a quote that is not closed, text behind a closing quote, a
  // record of more than 16 MiB or 65,536 fields.
  bool next(std::vector<std::string_view>& fields);

  const std::string& file() const { return file_; }
  // Where the record that next() read begins: "file:line".
  std::string where() const;
  std::uint64_t line() const { return line_; }
  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  enum class Scan { kRecord, kBlank, kNeedsMore, kEnd };

  Scan scan(std::vector<std::string_view>& fields);
  // The next delimiter or line end at or after `from`, or the end of what is buffered.
  const char* next_structural(const char* from);
  // Reads a quoted field at `at` and moves behind it; false if the buffer ends first.
  bool scan_quoted(const char*& at, std::string_view& field);
  void refill();
  [[noreturn]] void damaged(std::string message) const;

  const std::unique_ptr<ByteReader> bytes_;
  const std::string file_;
  const char delimiter_;
  const std::size_t buffer_bytes_;
  std::vector<char> buffer_;  // with room behind the end for whole blocks of the scan
  std::size_t begin_ = 0;     // of what is not yet read
  std::size_t end_ = 0;
  bool at_end_ = false;  // nothing is left behind the buffer
  std::uint64_t bytes_read_ = 0;
  std::uint64_t line_ = 0;       // of the record read last
  std::uint64_t next_line_ = 1;  // of the one to come
  std::uint64_t mask_ = 0;       // structural characters of block block_
  std::size_t block_ = SIZE_MAX;
  std::vector<std::unique_ptr<std::string>> unescaped_;  // fields of this record that had doubled quotes
};

}  // namespace muster::data
