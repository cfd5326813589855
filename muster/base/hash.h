// SHA-256 (OpenSSL's), for checkpoints and for comparing weights.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace muster {

// Thread safety: one thread at a time.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::span<const std::byte> bytes);
  // 64 lower-case hexadecimal digits. The object is spent afterwards.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256(std::span<const std::byte> bytes);

}  // namespace muster
