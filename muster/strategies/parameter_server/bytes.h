// States as bytes: written one part after the other, read with every length checked. Internal to this folder.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "muster/base/error.h"

namespace muster::strategies {

class ByteWriter {
 public:
  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    put_all(std::span(&value, 1));
  }
  template <typename T>
  void put_all(std::span<const T> values) {
    const auto bytes = std::as_bytes(values);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Throws kDamaged where bytes are missing.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T get() {
    T value;
    get_all(std::span(&value, 1));
    return value;
  }
  template <typename T>
  void get_all(std::span<T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::span<const std::byte> part = take(values.size_bytes());
    if (!part.empty()) std::memcpy(values.data(), part.data(), part.size());
  }
  std::span<const std::byte> take(std::size_t count) {
    if (count > bytes_.size()) throw Error(ErrorKind::kDamaged, "the state of a chunk ends too early");
    const std::span<const std::byte> part = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return part;
  }
  std::size_t left() const { return bytes_.size(); }
  void expect_end() const {
    if (!bytes_.empty()) throw Error(ErrorKind::kDamaged, "the state of a chunk is longer than it should be");
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace muster::strategies
