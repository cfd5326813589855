// The token that lets a program command a job: 256 random bits in a file that only the run's owner can read.
//
// It is never an argument of a program (others see those) and never logged.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace muster::control {

// Of a run's folder: the coordinator's durable state, and the token.
inline std::filesystem::path store_file(const std::filesystem::path& run) {
  return run / "control.db";
}
inline std::filesystem::path token_file(const std::filesystem::path& run) {
  return run / "control.token";
}

// `bytes` random bytes of the kernel's, in hexadecimal digits.
std::string random_hex(std::size_t bytes);

// Makes a new token and puts it in the place of the one before, whole or not at all, with mode 0600. Throws kIo,
// kNotFound, kResource.
std::string make_token(const std::filesystem::path& path);
// Throws kNotFound, kDamaged (no token in it), kInvalidInput when others than the owner may read the file.
std::string read_token(const std::filesystem::path& path);

// In a time that does not depend on where they differ.
bool same_token(std::string_view a, std::string_view b);

}  // namespace muster::control
