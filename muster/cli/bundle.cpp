// muster bundle: this program and its libraries as a folder or an archive that other machines can run.
// What is in it: launch/bundle.h.
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/cli/command.h"
#include "muster/cli/workers.h"
#include "muster/launch/bundle.h"

namespace muster::cli {
namespace {

constexpr const char* kArchiveEnding = ".tar.zst";

void run_bundle(const std::filesystem::path& to) {
  const std::string name = to.filename().string();
  const bool archive = name.ends_with(kArchiveEnding);
  if (!archive && (name.ends_with(".tar") || name.ends_with(".gz") || name.ends_with(".zip") || name.ends_with(".zst")))
    throw Error(ErrorKind::kInvalidInput, "is neither a folder nor a .tar.zst", to.string(),
                fmt::format("Name a folder, or an archive that ends with {}.", kArchiveEnding));
  std::error_code code;
  if (archive && std::filesystem::exists(to, code))
    throw Error(ErrorKind::kInvalidInput, "is there already", to.string(), "Remove it, or name another one.");
  const launch::MadeBundle made =
      archive ? launch::make_bundle_archive(own_program(), to) : launch::make_bundle(own_program(), to);
  const auto megabytes = [](std::uint64_t bytes) { return (bytes + 500'000) / 1'000'000; };
  fmt::print("{}: muster and {} libraries, {} MB", to.string(), made.libraries, megabytes(made.bytes));
  if (archive) {
    fmt::print(", {} MB as an archive\n", megabytes(std::filesystem::file_size(to)));
    fmt::print("There: tar --zstd -xf {}, then muster/bin/muster\n", name);
  } else {
    fmt::print("\nThere: {}/bin/muster, wherever the folder lies\n", name.empty() ? "FOLDER" : name);
  }
}

}  // namespace

void add_bundle(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("bundle", "Make a copy of Muster that runs on machines with nothing installed.");
  auto to = std::make_shared<std::filesystem::path>();
  command->add_option("to", *to, "A folder or FILE.tar.zst that is not there yet")->required();
  command->footer(
      "The program and every library that it has loaded, but for the C library: the other machine's has to be as new\n"
      "as this one's (made on Debian 12: Debian 12, 13 and later). It runs wherever it lies, finds its own libraries\n"
      "and leaves those of other programs alone. SHA256SUMS there is for sha256sum --check; docs/bundle.md tells "
      "more.\n"
      "\nExamples:\n"
      "  muster bundle muster.tar.zst\n"
      "  scp muster.tar.zst second: && ssh second 'tar --zstd -xf muster.tar.zst && muster/bin/muster info'\n"
      "  muster bundle /srv/shared/muster-1     on a file system that all hosts see");
  command->callback([to] { run_bundle(*to); });
}

}  // namespace muster::cli
