// The one place where exceptions end. A reader that closed its pipe has seen enough and is no failure; output that
// could not be written to a file is.
#include "muster/cli/exit_code.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/launch/environment.h"

namespace muster::cli {
namespace {

// Whoever reads a pipe may have seen enough; a file that cannot be written (a full disk) lacks what was asked for.
bool output_lost() {
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  struct stat status {};
  return failed && ::fstat(STDOUT_FILENO, &status) == 0 && !S_ISFIFO(status.st_mode) && !S_ISSOCK(status.st_mode);
}

// What a process of which memory or threads are limited is told, since the system only says no.
std::string limit_on_memory() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return fmt::format(
      "; this process may have {} of addresses (ulimit -v), of which LibTorch alone takes some. Raise the "
      "limit, or bound memory by a cgroup instead",
      human_bytes(limit.rlim_cur));
}

}  // namespace

int exit_code_of(const std::function<int()>& work) {
  try {
    const int code = work();
    if (!output_lost()) return code;
    fmt::print(stderr, "muster: error: standard output cannot be written\n");
    return code == 0 ? 1 : code;
  } catch (const Error& error) {
    // A worker whose peer was lost is not the one to say so: the launcher knows which one it was, and why.
    const bool told_by_launcher = error.kind() == ErrorKind::kPeerLost && launch::detect_world().launcher == "muster";
    if (!told_by_launcher) fmt::print(stderr, "muster: error: {}\n", error.what());
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "muster: error: out of memory{}\n", limit_on_memory());
    return 1;
  } catch (const std::system_error& error) {
    // Threads that cannot be started, usually.
    const bool lacking =
        error.code() == std::errc::resource_unavailable_try_again || error.code() == std::errc::not_enough_memory;
    fmt::print(stderr, "muster: error: {}{}\n", error.what(), lacking ? limit_on_memory() : "");
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "muster: error: {}\n", error.what());
    return 1;
  }
}

}  // namespace muster::cli
