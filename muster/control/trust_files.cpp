// Folders are made under another name and renamed when they are whole, so that what has the name can be used. Files get
// their modes when they are created, before there is anything in them.
#include "muster/control/trust_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <sstream>

#include <fmt/format.h>

#include "muster/base/draft_name.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/text.h"
#include "muster/control/access_token.h"

namespace muster::control {
namespace {

constexpr const char* kAuthorityFile = "ca.crt";
constexpr const char* kAuthorityKeyFile = "ca.key";
constexpr const char* kCertificateFile = "cert.crt";
constexpr const char* kKeyFile = "cert.key";
constexpr std::uint64_t kMostFileBytes = 256 * 1024;
constexpr std::size_t kTokenDigits = 64;
constexpr std::chrono::hours kClockSkew{1};
constexpr int kAuthorityDays = 3650;

void write_new(const std::filesystem::path& path, std::string_view text, mode_t mode) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!file.valid()) throw_system_error("cannot be created", path);
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) || ::fsync(file.get()) != 0)
    throw_system_error("cannot be written", path);
}

void make_private_folder(const std::filesystem::path& path) {
  if (::mkdir(path.c_str(), 0700) != 0) throw_system_error("cannot be created", path);
}

// What nobody but the owner may be able to read.
std::string read_secret(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && (status.st_mode & 077) != 0)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("others than its owner may read it (mode {:o})", status.st_mode & 0777), path.string(),
                fmt::format("chmod 600 {}; who may have read it may use it, so make a new one.", path.string()));
  return read_text(path, kMostFileBytes);
}

CertificateLife life_of(const CertificateTerms& terms, int days) {
  return {terms.now - kClockSkew, terms.now + std::chrono::hours(24) * days};
}

void write_holder(const std::filesystem::path& folder, const SignedKey& authority, const SignedKey& own) {
  write_certificate_files(folder, {authority.certificate, own.certificate, own.key});
}

std::filesystem::path absolute_without_end(const std::filesystem::path& path) {
  const std::filesystem::path whole = std::filesystem::absolute(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

// Makes `folder` by `fill` under another name, and gives it its own when it is whole.
void make_whole(const std::filesystem::path& folder, const std::function<void(const std::filesystem::path&)>& fill) {
  const std::filesystem::path draft = folder.parent_path() / draft_name(folder.filename().string());
  std::error_code ignored;
  try {
    make_private_folder(draft);
    fill(draft);
    sync_folder(draft);
    if (std::rename(draft.c_str(), folder.c_str()) != 0) throw_system_error("cannot be put in place", folder);
    sync_folder(folder.parent_path());
  } catch (...) {
    std::filesystem::remove_all(draft, ignored);
    throw;
  }
}

void require_nothing_there(const std::filesystem::path& path) {
  std::error_code none;
  const bool empty_folder = std::filesystem::is_directory(path, none) && std::filesystem::is_empty(path, none);
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, none)) || empty_folder) return;
  throw Error(ErrorKind::kInvalidInput, "is there already, and would be overwritten", path.string(),
              "Give another name; what was made before stays as it is.");
}

std::string where_to(CallerRole role) {
  switch (role) {
    case CallerRole::kCoordinator:
      return "to the host that runs muster train --listen, and to those that may take its place";
    case CallerRole::kAgent:
      return "to the hosts that run muster agent";
    case CallerRole::kUser:
      return "to people who command jobs";
    case CallerRole::kReader:
      return "to people and programs who only look";
    case CallerRole::kClient:
      return "to the machine that runs muster federated client";
  }
  return {};
}

}  // namespace

CertificateFiles read_certificate_pair(const std::filesystem::path& certificate, const std::filesystem::path& key) {
  CertificateFiles files;
  files.certificate = read_text(certificate, kMostFileBytes);
  files.key = read_secret(key);
  read_certificate(files.certificate, certificate.string());
  return files;
}

void write_certificate_files(const std::filesystem::path& folder, const CertificateFiles& files) {
  make_private_folder(folder);
  write_new(folder / kAuthorityFile, files.authorities, 0644);
  write_new(folder / kCertificateFile, files.certificate, 0644);
  write_new(folder / kKeyFile, files.key, 0600);
  sync_folder(folder);
}

CertificateFiles read_certificate_files(const std::filesystem::path& folder) {
  CertificateFiles files = read_certificate_pair(folder / kCertificateFile, folder / kKeyFile);
  files.authorities = read_text(folder / kAuthorityFile, kMostFileBytes);
  read_certificate(files.authorities, (folder / kAuthorityFile).string());
  return files;
}

std::vector<MadeFiles> create_certificates(const std::filesystem::path& folder, const CertificateTerms& terms) {
  const std::filesystem::path place = absolute_without_end(folder);
  require_nothing_there(place);
  std::vector<CertificateWish> wishes{{CallerRole::kCoordinator, "coordinator", terms.hosts}};
  for (const std::string& host : terms.hosts) {
    std::string name = host;
    std::ranges::replace(name, ':', '-');  // of an IPv6 address: it becomes a folder's name, too
    wishes.push_back({CallerRole::kAgent, name, {host}});
  }
  if (terms.hosts.empty()) wishes.push_back({CallerRole::kAgent, "agent", {}});
  wishes.push_back({CallerRole::kUser, "user", {}});
  wishes.push_back({CallerRole::kReader, "reader", {}});
  std::vector<MadeFiles> made{
      {folder / kAuthorityKeyFile, "nowhere: who has it can make certificates of any role. Keep it here, or offline"}};
  make_whole(place, [&](const std::filesystem::path& draft) {
    const SignedKey authority =
        make_authority("muster-" + random_hex(4), life_of(terms, std::max(terms.days, kAuthorityDays)));
    write_new(draft / kAuthorityFile, authority.certificate, 0644);
    write_new(draft / kAuthorityKeyFile, authority.key, 0600);
    for (const CertificateWish& wish : wishes) {
      const std::string role(to_string(wish.role));
      const std::string name = wish.name == role ? role : fmt::format("{}-{}", role, wish.name);
      write_holder(draft / name, authority, make_certificate(authority, wish, life_of(terms, terms.days)));
      made.push_back({folder / name, wish.role == CallerRole::kAgent && !terms.hosts.empty()
                                         ? "to " + wish.hosts.front()
                                         : where_to(wish.role)});
    }
  });
  return made;
}

MadeFiles add_certificate(const std::filesystem::path& folder, CallerRole role, const std::string& name,
                          const CertificateTerms& terms) {
  const SignedKey authority{read_text(folder / kAuthorityFile, kMostFileBytes),
                            read_secret(folder / kAuthorityKeyFile)};
  const SignedKey own = make_certificate(authority, {role, name, terms.hosts}, life_of(terms, terms.days));
  const std::filesystem::path place = folder / fmt::format("{}-{}", to_string(role), name);
  require_nothing_there(place);
  const std::filesystem::path whole = absolute_without_end(place);
  make_whole(whole, [&](const std::filesystem::path& draft) {
    std::filesystem::remove(draft);
    write_holder(draft, authority, own);
  });
  return {place, where_to(role)};
}

std::vector<MadeFiles> create_tokens(const std::filesystem::path& folder) {
  const std::filesystem::path place = absolute_without_end(folder);
  require_nothing_there(place);
  std::vector<MadeFiles> made{{folder / "tokens", where_to(CallerRole::kCoordinator)}};
  make_whole(place, [&](const std::filesystem::path& draft) {
    std::string all;
    for (const CallerRole role : {CallerRole::kAgent, CallerRole::kUser, CallerRole::kReader}) {
      const std::string line = fmt::format("{} {}\n", to_string(role), random_hex(kTokenDigits / 2));
      const std::string name = fmt::format("{}.token", to_string(role));
      write_new(draft / name, line, 0600);
      made.push_back({folder / name, where_to(role)});
      all += line;
    }
    write_new(draft / "tokens", all, 0600);
  });
  return made;
}

std::vector<RoleToken> read_role_tokens(const std::filesystem::path& path) {
  std::vector<RoleToken> tokens;
  std::istringstream lines(read_secret(path));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::size_t space = line.find(' ');
    const std::optional<CallerRole> role = caller_role_named(line.substr(0, space));
    const std::string token = space == std::string::npos ? "" : line.substr(space + 1);
    if (!role || token.size() != kTokenDigits || token.find_first_not_of("0123456789abcdef") != std::string::npos)
      throw Error(ErrorKind::kDamaged, "is no line \"ROLE TOKEN\"", fmt::format("{}:{}", path.string(), number),
                  "Make tokens by muster certs tokens DIR.");
    tokens.push_back({*role, token});
  }
  if (tokens.empty())
    throw Error(ErrorKind::kDamaged, "holds no token", path.string(), "Make tokens by muster certs tokens DIR.");
  return tokens;
}

}  // namespace muster::control
