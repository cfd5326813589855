// Which kind can be tried again and which exit code it has is decided here and nowhere else; docs/errors.md has the
// same table for people, and tools/check_docs compares the two.
#include "muster/base/error.h"

#include <utility>

#include "muster/base/check.h"

namespace muster {
namespace {

std::string join(const std::string& message, const std::string& where, const std::string& remedy) {
  std::string text = where.empty() ? message : where + ": " + message;
  if (!remedy.empty()) {
    const char last = text.empty() ? '.' : text.back();
    if (last != '.' && last != '!' && last != '?') text += '.';
    text += " " + remedy;
  }
  return text;
}

}  // namespace

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidInput:
      return "invalid_input";
    case ErrorKind::kNotFound:
      return "not_found";
    case ErrorKind::kDamaged:
      return "damaged";
    case ErrorKind::kMismatch:
      return "mismatch";
    case ErrorKind::kUnsupported:
      return "unsupported";
    case ErrorKind::kResource:
      return "resource";
    case ErrorKind::kTimeout:
      return "timeout";
    case ErrorKind::kPeerLost:
      return "peer_lost";
    case ErrorKind::kIo:
      return "io";
    case ErrorKind::kCompute:
      return "compute";
    case ErrorKind::kInterrupted:
      return "interrupted";
  }
  MUSTER_CHECK(false, "an ErrorKind without a name");
}

Error::Error(ErrorKind kind, std::string message, std::string where, std::string remedy)
    : std::runtime_error(join(message, where, remedy)),
      kind_(kind),
      message_(std::move(message)),
      where_(std::move(where)),
      remedy_(std::move(remedy)) {
}

bool Error::retryable() const {
  return kind_ == ErrorKind::kTimeout || kind_ == ErrorKind::kPeerLost;
}

int Error::exit_code() const {
  switch (kind_) {
    case ErrorKind::kInvalidInput:
    case ErrorKind::kNotFound:
    case ErrorKind::kDamaged:
    case ErrorKind::kMismatch:
    case ErrorKind::kUnsupported:
      return 2;
    default:
      return 1;
  }
}

}  // namespace muster
