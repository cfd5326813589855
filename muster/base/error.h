// Errors: what can happen to a healthy program (bad input, damaged file, full disk, lost peer, time-out).
//
// Broken invariants are not errors: they stop the process, see check.h. The policy is on one page, docs/errors.md.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace muster {

enum class ErrorKind {
  kInvalidInput,  // a user's mistake: job file, flag, argument; not retryable until the user changes it
  kNotFound,      // a file, model or data set that was named is not there
  kDamaged,       // bytes that are not what their format says: cut, altered, oversized
  kMismatch,      // two things that must agree do not: checkpoint and job, shapes, ranks
  kUnsupported,   // understood, and not possible in this build or on this machine
  kResource,      // out of disk, memory or descriptors
  kTimeout,       // a deadline passed; retryable
  kPeerLost,      // another process died or left; retryable once the group is rebuilt
  kIo,            // the operating system refused a read or a write
  kCompute,       // LibTorch or a model failed while computing
  kInterrupted,   // the user asked to stop
};

// Short name of a kind, as logs and --json output show it.
std::string_view to_string(ErrorKind kind);

// One failure: what was wrong, where, and what to do about it.
class Error : public std::runtime_error {
 public:
  // `where` names a place a person can go to (file:line, flag, rank); `remedy` is a sentence that says what
  // to do. Either may be empty. what() joins all three.
  Error(ErrorKind kind, std::string message, std::string where = {}, std::string remedy = {});

  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const std::string& where() const { return where_; }
  const std::string& remedy() const { return remedy_; }

  // Whether the same call can succeed later without anyone changing anything.
  bool retryable() const;
  // The program's exit code: 2 for a user's mistake (input, missing or damaged file, mismatch), 1 for a failure.
  int exit_code() const;

 private:
  ErrorKind kind_;
  std::string message_;
  std::string where_;
  std::string remedy_;
};

}  // namespace muster
