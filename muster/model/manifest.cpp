// The hash is taken over the values, not over the layout of the text, with the member sha256 left out: so reading and
// writing may format as they like.
#include "muster/model/manifest.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/hash.h"
#include "muster/base/text.h"

namespace muster::model {
namespace {

const std::string kHashMember = "sha256";

bool is_sha256(std::string_view text) {
  return text.size() == 64 &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// The hash is taken over the values, not over the layout of the text: reading gives back the very values hashed.
std::string hash_of(const Json& object) {
  const std::string text = object.dump();
  return sha256(std::as_bytes(std::span(text)));
}

ManifestFile parse_file(const Json& object, const std::string& where) {
  ManifestFile file{json_get<std::string>(object, "name", where), json_get<std::uint64_t>(object, "bytes", where),
                    json_get<std::string>(object, "sha256", where)};
  if (file.name != kModelFile && file.name != kOptimizerFile) {
    throw Error(
        ErrorKind::kDamaged,
        fmt::format("lists a file that a checkpoint does not have (it has {} and {})", kModelFile, kOptimizerFile),
        where);
  }
  if (!is_sha256(file.sha256)) {
    throw Error(ErrorKind::kDamaged, fmt::format("the sha256 of {} is not 64 hexadecimal digits", file.name), where);
  }
  return file;
}

}  // namespace

std::string seal(Json object) {
  MUSTER_CHECK(object.is_object() && !object.contains(kHashMember), "only an object without a hash can be sealed");
  try {
    object[kHashMember] = hash_of(object);
    return object.dump(2) + "\n";
  } catch (const Json::exception&) {
    throw Error(ErrorKind::kInvalidInput, "a text of the checkpoint's manifest is not UTF-8");
  }
}

Json unseal(std::string_view text, const std::string& where) {
  Json object = parse_json(text, where);
  const auto found = json_get<std::string>(object, kHashMember, where);
  object.erase(kHashMember);
  if (found != hash_of(object)) throw Error(ErrorKind::kDamaged, "is not what was written: its sha256 differs", where);
  return object;
}

std::string encode_manifest(const Manifest& manifest) {
  MUSTER_CHECK(manifest.progress.is_object(), "a manifest's progress is an object");
  Json files = Json::array();
  for (const ManifestFile& file : manifest.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  }
  Json object;
  object["format"] = kManifestFormat;
  object["step"] = manifest.step;
  object["generation"] = manifest.generation;
  object["seed"] = manifest.seed;
  object["epoch"] = manifest.epoch;
  object["position"] = manifest.position;
  object["job"] = manifest.job;
  object["progress"] = manifest.progress;
  object["muster_version"] = manifest.muster_version;
  object["files"] = std::move(files);
  std::string text = seal(std::move(object));
  if (text.size() > kMostManifestBytes) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("the checkpoint's manifest has {}; at most {} are possible",
                                                      human_bytes(text.size()), human_bytes(kMostManifestBytes)));
  }
  return text;
}

Manifest parse_manifest(std::string_view text, const std::string& where) {
  if (text.size() > kMostManifestBytes) {
    throw Error(ErrorKind::kDamaged,
                fmt::format("has {} bytes; at most {} are accepted", text.size(), kMostManifestBytes), where);
  }
  const Json object = unseal(text, where);
  const auto format = json_get<std::uint64_t>(object, "format", where);
  if (format != kManifestFormat) {
    throw Error(ErrorKind::kUnsupported, fmt::format("is of format {}; this Muster reads {}", format, kManifestFormat),
                where, "Use the version of Muster that wrote it.");
  }
  Manifest manifest;
  manifest.step = json_get<std::uint64_t>(object, "step", where);
  manifest.generation = json_get<std::uint64_t>(object, "generation", where);
  manifest.seed = json_get<std::uint64_t>(object, "seed", where);
  manifest.epoch = json_get<std::uint64_t>(object, "epoch", where);
  manifest.position = json_get<std::uint64_t>(object, "position", where);
  manifest.job = json_get<std::string>(object, "job", where);
  manifest.progress = json_get<Json>(object, "progress", where);
  manifest.muster_version = json_get<std::string>(object, "muster_version", where);
  const auto files = object.find("files");
  if (files == object.end() || !files->is_array()) throw Error(ErrorKind::kDamaged, "lists no files", where);
  for (const Json& file : *files)
    manifest.files.push_back(parse_file(file, where));
  if (manifest.files.size() != 2 || manifest.files[0].name == manifest.files[1].name) {
    throw Error(ErrorKind::kDamaged, fmt::format("does not list {} and {} once each", kModelFile, kOptimizerFile),
                where);
  }
  return manifest;
}

}  // namespace muster::model
