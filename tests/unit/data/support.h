// What several data tests need: a folder that goes away, files of bytes, and the Error a call throws.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/dataset.h"
#include "support/sandbox.h"

namespace muster::data {

using Bytes = std::vector<std::byte>;

inline Bytes to_bytes(const std::vector<int>& values) {
  Bytes bytes;
  for (const int value : values)
    bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// The tests' folder, with files of bytes.
class TemporaryFolder : public testing::TemporaryFolder {
 public:
  std::filesystem::path write(const std::string& name, const Bytes& bytes) const {
    const auto file = path() / name;
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return file;
  }
};

// The Error that `call` throws, or nothing if it returns.
inline std::optional<Error> error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

// Sample i is {i, i + 0.5} with label i % 3, or what `on_read` makes of it.
class Counting : public Dataset {
 public:
  explicit Counting(std::uint64_t size) : size_(size) {}

  std::uint64_t size() const override { return size_; }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t read(std::uint64_t id, std::span<float> features) const override {
    if (on_read) on_read(id);
    features[0] = static_cast<float>(id);
    features[1] = static_cast<float>(id) + 0.5F;
    return label_offset + static_cast<std::int64_t>(id % 3);
  }

  std::function<void(std::uint64_t)> on_read;  // set before the first read; may throw or block
  std::int64_t label_offset = 0;

 private:
  std::uint64_t size_;
  SampleSpec spec_{.shape = {2}, .classes = 3};
};

}  // namespace muster::data
