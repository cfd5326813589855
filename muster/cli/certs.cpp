// muster certs: makes and shows what hosts trust each other by. The files are control/trust_files.h's business; here
// are the words that say what goes where.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/text.h"
#include "muster/cli/command.h"
#include "muster/control/trust_files.h"

namespace muster::cli {
namespace {

constexpr int kLongestDays = 3650;
constexpr std::uint64_t kMostCertificateBytes = 256 * 1024;

struct CertsFlags {
  std::string folder;
  std::string file;
  std::string role;
  std::string name;
  std::vector<std::string> hosts;
  int days = 365;

  control::CertificateTerms terms() const {
    return {.hosts = hosts, .days = days, .now = std::chrono::system_clock::now()};
  }
};

void print_made(const std::vector<control::MadeFiles>& made) {
  std::size_t width = 0;
  for (const control::MadeFiles& one : made)
    width = std::max(width, one.path.string().size());
  for (const control::MadeFiles& one : made)
    fmt::print("  {:<{}}  {}\n", one.path.string(), width, one.use);
}

void run_create(const CertsFlags& flags) {
  const std::vector<control::MadeFiles> made = control::create_certificates(flags.folder, flags.terms());
  fmt::print("Made, for {} days. Copy each folder, whole, with its modes:\n", flags.days);
  print_made(made);
  fmt::print(
      "Then, on the host that listens and on the others:\n"
      "  muster train job.toml --listen ADDRESS:PORT --certs coordinator\n"
      "  muster agent --join ADDRESS:PORT --certs {}\n",
      flags.hosts.empty() ? "agent" : "agent-HOST");
}

void run_add(const CertsFlags& flags) {
  const std::optional<control::CallerRole> role = control::caller_role_named(flags.role);
  if (!role)
    throw Error(ErrorKind::kInvalidInput, fmt::format("no role \"{}\"", excerpt(flags.role)), {},
                "Roles are coordinator, agent, user, reader and client.");
  fmt::print("Made, for {} days. Copy the folder, whole, with its modes:\n", flags.days);
  print_made({control::add_certificate(flags.folder, *role, flags.name, flags.terms())});
}

void run_tokens(const CertsFlags& flags) {
  const std::vector<control::MadeFiles> made = control::create_tokens(flags.folder);
  fmt::print("Made. Copy each file, with its mode:\n");
  print_made(made);
  fmt::print(
      "Then, on the host that listens and on the others:\n"
      "  muster train job.toml --listen ADDRESS:PORT --tls-cert FILE --tls-key FILE --token tokens\n"
      "  muster agent --join NAME:PORT --token agent.token [--tls-ca FILE]\n");
}

std::string utc(control::WallTime time) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

void run_show(const CertsFlags& flags) {
  std::filesystem::path file = flags.file;
  if (std::filesystem::is_directory(file)) file /= std::filesystem::exists(file / "cert.crt") ? "cert.crt" : "ca.crt";
  const control::CertificateFacts facts =
      control::read_certificate(read_text(file, kMostCertificateBytes), file.string());
  const control::WallTime now = std::chrono::system_clock::now();
  const char* state = now < facts.life.begin ? "not yet" : now > facts.life.end ? "no more: it has expired" : "now";
  fmt::print("{}\n", file.string());
  if (facts.identity)
    fmt::print("  for          {} {}\n", control::to_string(facts.identity->role), facts.identity->name);
  else
    fmt::print("  for          {}\n", facts.authority ? "signing others: an authority" : "no role of Muster's");
  if (!facts.hosts.empty()) fmt::print("  hosts        {}\n", join_words(facts.hosts));
  fmt::print("  counts       {}\n  from         {}\n  until        {}\n", state, utc(facts.life.begin),
             utc(facts.life.end));
  fmt::print("  subject      {}\n  signed by    {}\n  serial       {}\n  fingerprint  {}\n", facts.subject,
             facts.issuer, facts.serial, facts.fingerprint);
}

void add_terms(CLI::App& command, CertsFlags& flags) {
  command.add_option("--host", flags.hosts, "A host's name or address; may be given several times");
  command.add_option("--days", flags.days, "How long certificates count")
      ->check(CLI::Range(1, kLongestDays))
      ->capture_default_str();
}

}  // namespace

void add_certs(CLI::App& app) {
  CLI::App* certs = app.add_subcommand("certs", "Certificates and tokens by which hosts trust each other.");
  certs->require_subcommand(1);
  auto flags = std::make_shared<CertsFlags>();

  CLI::App* create = certs->add_subcommand("create", "A new authority, and certificates for every role.");
  create->add_option("folder", flags->folder, "A new folder")->required();
  add_terms(*create, *flags);
  create->footer(
      "Each --host gets an agent's certificate of its own, and stands in the coordinator's.\n"
      "Nothing is overwritten.\n"
      "\nExamples:\n"
      "  muster certs create certs\n"
      "  muster certs create certs --host 10.0.0.1 --host 10.0.0.2 --days 30");
  create->callback([flags] { run_create(*flags); });

  CLI::App* add = certs->add_subcommand("add", "One more certificate by an authority that was made before.");
  add->add_option("folder", flags->folder, "The authority's folder, with ca.crt and ca.key")->required();
  add->add_option("role", flags->role, "coordinator, agent, user, reader or client (of federated training)")
      ->required();
  add->add_option("name", flags->name, "Whom it is for")->required();
  add_terms(*add, *flags);
  add->footer(
      "Example:\n"
      "  muster certs add certs user alice --days 30   makes certs/user-alice\n"
      "  muster certs add certs client hospital-1      makes certs/client-hospital-1: its name in federated training");
  add->callback([flags] { run_add(*flags); });

  CLI::App* tokens = certs->add_subcommand("tokens", "New tokens, for TLS with a certificate that you have.");
  tokens->add_option("folder", flags->folder, "A new folder")->required();
  tokens->callback([flags] { run_tokens(*flags); });

  CLI::App* show = certs->add_subcommand("show", "What a certificate says.");
  show->add_option("file", flags->file, "A certificate, or a folder with cert.crt")->required();
  show->callback([flags] { run_show(*flags); });
}

}  // namespace muster::cli
