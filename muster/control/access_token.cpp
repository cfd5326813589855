// The file has its permissions before the token is in it, and its name when it is whole. Tokens are compared in a time
// that does not depend on where they differ.
#include "muster/control/access_token.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/draft_name.h"
#include "muster/base/error.h"
#include "muster/base/files.h"

namespace muster::control {
namespace {

constexpr std::size_t kTokenBytes = 32;

}  // namespace

std::string random_hex(std::size_t bytes) {
  std::array<unsigned char, 64> random{};
  MUSTER_CHECK(bytes <= random.size(), "so many random bytes are not for here");
  // So few bytes are given at once or not at all.
  if (::getrandom(random.data(), bytes, 0) != static_cast<ssize_t>(bytes))
    throw_system_error("gives no random numbers", "the kernel");
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i)
    text += fmt::format("{:02x}", random[i]);
  return text;
}

std::string make_token(const std::filesystem::path& path) {
  const std::string token = random_hex(kTokenBytes);
  const std::filesystem::path draft = path.parent_path() / draft_name("control.token");
  try {
    const FileDescriptor file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file.valid()) throw_system_error("cannot be created", path);
    const std::string line = token + "\n";
    if (::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()) || ::fsync(file.get()) != 0)
      throw_system_error("cannot be written", path);
    if (std::rename(draft.c_str(), path.c_str()) != 0) throw_system_error("cannot be put in place", path);
  } catch (...) {
    ::unlink(draft.c_str());
    throw;
  }
  return token;
}

std::string read_token(const std::filesystem::path& path) {
  const OpenFile file = open_for_reading(path);
  struct stat status {};
  if (::fstat(file.descriptor.get(), &status) != 0) throw_system_error("cannot be examined", path);
  if ((status.st_mode & 077) != 0)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("others than its owner may read it (mode {:o})", status.st_mode & 0777), path.string(),
                fmt::format("chmod 600 {}, and start the coordinator anew for a new token.", path.string()));
  if (file.size != 2 * kTokenBytes + 1) throw Error(ErrorKind::kDamaged, "holds no token", path.string());
  std::string token(2 * kTokenBytes, '\0');
  read_exactly(file, 0, std::as_writable_bytes(std::span(token)), path);
  if (token.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw Error(ErrorKind::kDamaged, "holds no token", path.string());
  return token;
}

bool same_token(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace muster::control
