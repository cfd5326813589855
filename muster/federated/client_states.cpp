// CLIENT/ROUND.f32 in one of 256 folders: raw floats of this machine, read back by the same program only. No client has
// more than two files for long.
#include "muster/federated/client_states.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"

namespace muster::federated {
namespace {

constexpr const char* kEnding = ".f32";

std::vector<std::uint64_t> rounds_in(const std::filesystem::path& folder) {
  std::vector<std::uint64_t> rounds;
  std::error_code error;
  const std::filesystem::directory_iterator entries(folder, error);
  if (error == std::errc::no_such_file_or_directory) return rounds;
  if (error) {
    errno = error.value();
    throw_system_error("cannot be listed", folder);
  }
  for (const auto& entry : entries) {
    if (entry.path().extension() != kEnding) continue;
    const std::string stem = entry.path().stem().string();
    std::uint64_t round = 0;
    const auto [end, wrong] = std::from_chars(stem.data(), stem.data() + stem.size(), round);
    if (wrong == std::errc() && end == stem.data() + stem.size()) rounds.push_back(round);
  }
  std::ranges::sort(rounds);
  return rounds;
}

std::filesystem::path file_of(const std::filesystem::path& folder, std::uint64_t round) {
  return folder / fmt::format("{}{}", round, kEnding);
}

}  // namespace

ClientStates::ClientStates(std::filesystem::path folder) : folder_(std::move(folder)) {
  make_folder(folder_);
  // What a client has computed says something of its data.
  std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
}

std::filesystem::path ClientStates::folder_of(std::uint64_t client) const {
  return folder_ / fmt::format("{:02x}", client % 256) / std::to_string(client);
}

void ClientStates::read(std::uint64_t client, std::uint64_t round, std::span<float> state) const {
  const std::filesystem::path folder = folder_of(client);
  std::optional<std::uint64_t> newest;
  for (const std::uint64_t written : rounds_in(folder)) {
    if (written < round) newest = written;
  }
  if (!newest) {
    std::ranges::fill(state, 0.0F);
    return;
  }
  const std::filesystem::path path = file_of(folder, *newest);
  const OpenFile file = open_for_reading(path);
  if (file.size != state.size_bytes())
    throw Error(ErrorKind::kDamaged, fmt::format("has {} bytes, and a client keeps {}", file.size, state.size_bytes()),
                path.string(), "It is of another model: begin a new run.");
  read_exactly(file, 0, std::as_writable_bytes(state), path);
}

void ClientStates::forget_from(std::uint64_t client, std::uint64_t round) const {
  const std::filesystem::path folder = folder_of(client);
  for (const std::uint64_t written : rounds_in(folder)) {
    if (written >= round) std::filesystem::remove(file_of(folder, written));
  }
}

void ClientStates::write(std::uint64_t client, std::uint64_t round, std::span<const float> state) const {
  const std::filesystem::path folder = folder_of(client);
  make_folder(folder);
  AtomicFile file(file_of(folder, round));
  file.write(std::as_bytes(state));
  file.commit();
  std::vector<std::uint64_t> rounds = rounds_in(folder);
  // The newest of before this round is what a run that is killed now goes on from.
  std::erase_if(rounds, [&](std::uint64_t written) { return written >= round; });
  if (!rounds.empty()) rounds.pop_back();
  for (const std::uint64_t old : rounds) {
    std::error_code ignored;
    std::filesystem::remove(file_of(folder, old), ignored);
  }
}

}  // namespace muster::federated
