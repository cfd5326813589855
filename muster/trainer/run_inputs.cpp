// Stamps are made of names, sizes and some pieces, in an order that does not depend on the disk's. Two runs on the same
// data elsewhere have the same stamps.
#include "muster/trainer/run_inputs.h"

#include <algorithm>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/hash.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/data/sources.h"

namespace muster::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPieces = 16;
constexpr std::uint64_t kPieceBytes = std::uint64_t{64} << 10;
constexpr std::uint64_t kMostStored = std::uint64_t{1} << 20;  // of inputs.json

void add_number(Sha256& hash, std::uint64_t number) {
  hash.update(std::as_bytes(std::span(&number, 1)));
}

void add_contents(Sha256& hash, const fs::path& path) {
  const OpenFile file = open_for_reading(path);
  add_number(hash, file.size);
  std::vector<std::byte> piece;
  const std::uint64_t pieces = std::min(kPieces, (file.size + kPieceBytes - 1) / kPieceBytes);
  for (std::uint64_t i = 0; i < pieces; ++i) {
    // The first begins the file and the last ends it.
    const std::uint64_t room = file.size > kPieceBytes ? file.size - kPieceBytes : 0;
    const std::uint64_t offset = pieces == 1 ? 0 : room / (pieces - 1) * i + room % (pieces - 1) * i / (pieces - 1);
    piece.resize(std::min(kPieceBytes, file.size));
    read_exactly(file, offset, piece, path);
    hash.update(piece);
  }
}

InputStamp stamp_of_folder(const fs::path& folder) {
  InputStamp stamp;
  std::map<std::string, std::uint64_t> sizes;  // by name, so that the order on disk does not show
  std::error_code code;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink, code);
  for (; !code && entry != fs::recursive_directory_iterator(); entry.increment(code)) {
    std::error_code ignored;  // what cannot be looked at is not data
    if (!entry->is_regular_file(ignored)) continue;
    sizes.emplace(entry->path().lexically_relative(folder).string(), entry->file_size(ignored));
  }
  if (code) throw Error(ErrorKind::kIo, code.message(), folder.string());
  Sha256 hash;
  const std::uint64_t every = std::max<std::uint64_t>(1, sizes.size() / kPieces);
  for (const auto& [name, size] : sizes) {
    hash.update(std::as_bytes(std::span(name)));
    add_number(hash, size);
    if (stamp.files++ % every == 0) add_contents(hash, folder / name);
    stamp.bytes += size;
  }
  stamp.hash = hash.finish();
  return stamp;
}

std::string in_words(const InputStamp& stamp) {
  return fmt::format("{} file{} of {} bytes", stamp.files, stamp.files == 1 ? "" : "s", stamp.bytes);
}

fs::path stored_in(const fs::path& run) {
  return run / "inputs.json";
}

}  // namespace

std::map<std::string, fs::path> inputs_of(const Job& job) {
  std::map<std::string, fs::path> inputs{{"data.path", job.data.path},
                                         {"data.test_path", job.data.test_path},
                                         {"data.validation_path", job.data.validation_path},
                                         {"data.labels", job.data.labels},
                                         {"model.script", job.model.script}};
  for (const data::SourceInfo& source : data::sources())
    if (source.name == job.data.source && job.data.path.empty()) inputs["data.path"] = source.folder;
  std::erase_if(inputs, [](const auto& input) { return input.second.empty(); });
  // What other hosts have they look after.
  std::error_code none;
  if (job.data.access != "shared" && !fs::exists(job.data.path, none)) inputs.erase("data.path");
  return inputs;
}

InputStamp stamp_of(const fs::path& path) {
  if (fs::is_directory(path)) return stamp_of_folder(path);
  Sha256 hash;
  add_contents(hash, path);
  return {.files = 1, .bytes = fs::file_size(path), .hash = hash.finish()};
}

void remember_inputs(const fs::path& run, const Job& job) {
  Json stored = Json::object();
  for (const auto& [key, path] : inputs_of(job)) {
    const InputStamp stamp = stamp_of(path);
    stored[key] = {{"files", stamp.files}, {"bytes", stamp.bytes}, {"hash", stamp.hash}};
  }
  write_atomically(stored_in(run), stored.dump(2) + "\n");
}

void check_inputs(const fs::path& run, const Job& job) {
  const std::string where = stored_in(run).string();
  if (!fs::exists(where)) return;
  const Json stored = parse_json(read_text(where, kMostStored), where);
  for (const auto& [key, path] : inputs_of(job)) {
    if (!stored.contains(key)) continue;
    const Json& entry = stored.at(key);
    const InputStamp then{json_get<std::uint64_t>(entry, "files", where),
                          json_get<std::uint64_t>(entry, "bytes", where), json_get<std::string>(entry, "hash", where)};
    const InputStamp now = stamp_of(path);
    if (now == then) continue;
    const bool same_size = now.files == then.files && now.bytes == then.bytes;
    throw Error(ErrorKind::kMismatch,
                fmt::format("{} is not what it was when the run began: {}", key,
                            same_size ? fmt::format("{} as then, with other contents", in_words(now))
                                      : fmt::format("{} then, {} now", in_words(then), in_words(now))),
                path.string(),
                fmt::format("Bring it back as it was, or start a new run without --resume. If the change is meant, "
                            "remove {}.",
                            where));
  }
}

}  // namespace muster::trainer
