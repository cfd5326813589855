// Writes a zip archive as a stream: members stored one after the other, the directory last.
//
// Contents start at multiples of 64 bytes, so that whoever maps the file finds aligned tensors. zip64 fields are
// written where a size or an offset needs them. Time stamps are the format's first day: equal contents give equal
// bytes. Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace muster {

class ZipWriter {
 public:
  using Sink = std::function<void(std::span<const std::byte>)>;
  // What `sink` throws goes through; the archive is then worth nothing.
  explicit ZipWriter(Sink sink) : sink_(std::move(sink)) {}

  // REQUIRES: a name of at most 65535 bytes that was not added before.
  void add(const std::string& name, std::span<const std::byte> contents);
  // The directory. Nothing may be added afterwards.
  void finish();

 private:
  struct Entry {
    std::string name;
    std::uint64_t header = 0;
    std::uint64_t size = 0;
    std::uint32_t crc = 0;
  };
  void emit(std::span<const std::byte> bytes);

  Sink sink_;
  std::uint64_t position_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace muster
