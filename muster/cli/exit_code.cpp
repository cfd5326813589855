#include "muster/cli/exit_code.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <new>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/launch/environment.h"

namespace muster::cli {
namespace {

// Whoever reads a pipe may have seen enough; a file that cannot be written (a full disk) lacks what was asked for.
bool output_lost() {
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  struct stat status {};
  return failed && ::fstat(STDOUT_FILENO, &status) == 0 && !S_ISFIFO(status.st_mode) && !S_ISSOCK(status.st_mode);
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
    fmt::print(stderr, "muster: error: out of memory\n");
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "muster: error: {}\n", error.what());
    return 1;
  }
}

}  // namespace muster::cli
