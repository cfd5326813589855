// Certificates of a job's own authority: making them, reading them, and judging one that a caller has shown.
//
// X.509 with keys on the curve P-256 and SHA-256. The role and the name of whom a certificate is for stand in one URI
// of its alternative names, "muster://ROLE/NAME": a URI is one exact string, whereas the parts of a subject (OU) have
// several spellings, may be there several times, and are what organisations fill in by rules of their own.
// An authority signs certificates and nothing else; only a coordinator's certificate is good for a server.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/control/caller_role.h"

namespace muster::control {

using WallTime = std::chrono::system_clock::time_point;

// When a certificate counts: whole seconds, both ends included.
struct CertificateLife {
  WallTime begin;
  WallTime end;
};

// As PEM.
struct SignedKey {
  std::string certificate;
  std::string key;
};

struct CertificateWish {
  CallerRole role = CallerRole::kReader;
  std::string name;                  // letters, digits and -._ ; 1 to 64 of them
  std::vector<std::string> hosts{};  // names and addresses, for programs that compare them with where they connect to
};

// The host's name that every coordinator's certificate has, and no other: callers compare with it instead of the
// address that they call, because a coordinator may run on any host.
constexpr const char* kCoordinatorHost = "coordinator.muster";

// Throws kInvalidInput (names and hosts that cannot stand in a certificate), kDamaged (the authority's files).
SignedKey make_authority(std::string_view name, const CertificateLife& life);
SignedKey make_certificate(const SignedKey& authority, const CertificateWish& wish, const CertificateLife& life);

// Who a certificate says it is for.
struct CallerIdentity {
  CallerRole role = CallerRole::kReader;
  std::string name;
};

struct CertificateFacts {
  std::string subject;
  std::string issuer;
  std::string serial;  // hexadecimal digits
  CertificateLife life;
  bool authority = false;
  std::optional<CallerIdentity> identity;  // none: no URI of ours, or more than one
  std::vector<std::string> hosts;
  std::string fingerprint;  // SHA-256, hexadecimal digits
};

// Of the first certificate in the text. Throws kDamaged.
CertificateFacts read_certificate(std::string_view pem, const std::string& where);

enum class CertificateUse { kClient, kServer };

struct CertificateVerdict {
  std::optional<CallerIdentity> identity;  // set: trusted
  std::string reason;                      // why not
  CertificateLife life{};                  // of what was trusted: until then the verdict holds
};

// Whether one of `authorities` (PEM, several may stand there) signed it, it counts at `now` and is for this use.
// Throws nothing: a certificate that cannot be read is not trusted. A pure function.
CertificateVerdict judge_certificate(std::string_view pem, std::string_view authorities, WallTime now,
                                     CertificateUse use);

}  // namespace muster::control
