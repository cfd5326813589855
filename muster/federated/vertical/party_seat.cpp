// The number is written once, before anybody is told of it. One that a full disk or a death has cut is drawn anew: the
// label holder then waits until the one of before has been silent for a while.
#include "muster/federated/vertical/party_seat.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <span>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/federated/vertical/party_files.h"

namespace muster::federated {
namespace {

constexpr std::size_t kDigits = 32;

std::string drawn_secret() {
  std::array<std::uint64_t, 2> numbers{};
  if (RAND_bytes(reinterpret_cast<unsigned char*>(numbers.data()), sizeof numbers) != 1) {
    ERR_clear_error();
    throw Error(ErrorKind::kResource, "OpenSSL cannot draw random numbers", "vertical training");
  }
  return fmt::format("{:016x}{:016x}", numbers[0], numbers[1]);
}

bool is_secret(const std::string& text) {
  return text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string read_secret(const FileDescriptor& file, const std::filesystem::path& path) {
  std::string text(kDigits, '\0');
  const ssize_t count = ::pread(file.get(), text.data(), text.size(), 0);
  if (count < 0) throw_system_error("cannot be read", path);
  text.resize(static_cast<std::size_t>(count));
  return text;
}

}  // namespace

PartySeat::PartySeat(const std::filesystem::path& state, const std::string& name) {
  make_private_folder(state);
  const std::filesystem::path path = state / fmt::format("{}.seat", name);
  file_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file_.valid()) throw_system_error("cannot be opened", path);
  while (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) break;  // a file system without locks keeps nobody out
    throw Error(ErrorKind::kMismatch, fmt::format("another process is {} with this folder already", name),
                path.string(), "End that one, or give each party a --state of its own.");
  }
  secret_ = read_secret(file_, path);
  if (is_secret(secret_)) return;
  secret_ = drawn_secret();
  if (::ftruncate(file_.get(), 0) != 0 ||
      ::pwrite(file_.get(), secret_.data(), secret_.size(), 0) != static_cast<ssize_t>(secret_.size()) ||
      ::fsync(file_.get()) != 0)
    throw_system_error("cannot be written", path);
}

}  // namespace muster::federated
