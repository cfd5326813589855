// One form of address for all flags and files, and one place that reads it.
// Nothing is looked up here.
#include "muster/control/etcd_options.h"

#include <sstream>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::control {
namespace {

constexpr std::string_view kScheme = "etcd://";

[[noreturn]] void refuse_url(std::string_view url, const std::string& why) {
  throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" {}", excerpt(url, 200), why), "--store",
              "Give it as etcd://HOST:PORT[,HOST:PORT...][/PREFIX].");
}

bool is_address(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == address.size() || address.size() - colon > 6)
    return false;
  if (address.find_first_of("@ /?#") != std::string_view::npos) return false;
  return address.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
}

}  // namespace

EtcdOptions parse_etcd_url(std::string_view url) {
  if (!url.starts_with(kScheme)) refuse_url(url, "is no address of an etcd");
  const std::string_view rest = url.substr(kScheme.size());
  const std::size_t slash = rest.find('/');
  EtcdOptions options;
  if (slash != std::string_view::npos) {
    options.prefix = rest.substr(slash + 1);
    while (options.prefix.ends_with('/'))
      options.prefix.pop_back();
    if (options.prefix.empty()) options.prefix = EtcdOptions().prefix;
  }
  std::istringstream addresses{std::string(rest.substr(0, slash))};
  for (std::string address; std::getline(addresses, address, ',');) {
    if (!is_address(address)) refuse_url(url, fmt::format("names a member \"{}\"", excerpt(address, 100)));
    options.members.push_back(address);
  }
  if (options.members.empty() || rest.substr(0, slash).ends_with(',')) refuse_url(url, "names no member");
  return options;
}

std::string url_of(const EtcdOptions& options) {
  std::string url(kScheme);
  for (const std::string& member : options.members)
    url += (url.size() > kScheme.size() ? "," : "") + member;
  return url + "/" + options.prefix;
}

Json to_json(const EtcdOptions& options) {
  return {{"etcd", url_of(options)},
          {"authority", options.authority.string()},
          {"certificate", options.certificate.string()},
          {"key", options.key.string()},
          {"user", options.user},
          {"password_file", options.password.string()},
          {"lease_seconds", options.lease.count()}};
}

EtcdOptions etcd_from(const Json& json, const std::string& where) {
  EtcdOptions options = parse_etcd_url(json_get<std::string>(json, "etcd", where));
  options.authority = json_get<std::string>(json, "authority", where);
  options.certificate = json_get<std::string>(json, "certificate", where);
  options.key = json_get<std::string>(json, "key", where);
  options.user = json_get<std::string>(json, "user", where);
  options.password = json_get<std::string>(json, "password_file", where);
  options.lease = std::chrono::seconds(json_get<std::int64_t>(json, "lease_seconds", where));
  return options;
}

}  // namespace muster::control
