// Who clients are to each other, by the certificates of the job's authority: what one signs, all others can check, and
// the server cannot make up. Without certificates nothing is signed. Thread safety: immutable. No torch here.
#pragma once

#include <string>
#include <string_view>

namespace muster::federated {

// PEM: the authority (what others are checked by), the own certificate and its key. A server has the first alone;
// nobody has any where there are no certificates.
struct ClientIdentity {
  std::string authorities{};
  std::string certificate{};
  std::string key{};

  bool checked() const { return !authorities.empty(); }
};

// ECDSA with SHA-256, as the certificates' keys are. Throws Error{kDamaged} for a key that is none.
std::string sign_as(const ClientIdentity& identity, std::string_view text);

struct SignatureVerdict {
  std::string name{};    // whose it is
  std::string reason{};  // why it does not count; empty: it does
};
// Whether a client that one of `authorities` knows has signed `text`, now.
SignatureVerdict judge_signature(std::string_view authorities, std::string_view certificate, std::string_view text,
                                 std::string_view signature);

}  // namespace muster::federated
