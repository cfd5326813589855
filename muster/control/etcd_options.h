// Where an etcd is, what part of it is meant, and by what both sides know each other; as flags and files give it.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/json.h"

namespace muster::control {

struct EtcdOptions {
  std::vector<std::string> members{};  // "10.0.0.1:2379": any of them; the others of the cluster are not looked for
  std::string prefix = "muster";       // of all keys
  // Files. With an authority or a certificate the connection is TLS, and a member has to be who its address says.
  std::filesystem::path authority{};    // that has signed the members' certificates (PEM)
  std::filesystem::path certificate{};  // of this side, where etcd asks for one; with its key
  std::filesystem::path key{};
  std::string user{};
  std::filesystem::path password{};                        // its file, for the owner's eyes only
  std::chrono::seconds lease{5};                           // after which a holder that is silent has lost its lease
  std::chrono::milliseconds timeout{5000};                 // longest wait in each call
  std::chrono::milliseconds patience_with_a_member{1500};  // in a call, before another one is asked
  bool encrypted() const { return !authority.empty() || !certificate.empty(); }
  bool operator==(const EtcdOptions&) const = default;
};

// "etcd://10.0.0.1:2379,10.0.0.2:2379/PREFIX"; the prefix may be left out. Throws kInvalidInput for what is none.
EtcdOptions parse_etcd_url(std::string_view url);
// The same as people write it.
std::string url_of(const EtcdOptions& options);

// For a file that others read: names of files, never what is in them. Times are those of whoever reads.
Json to_json(const EtcdOptions& options);
EtcdOptions etcd_from(const Json& json, const std::string& where);

}  // namespace muster::control
