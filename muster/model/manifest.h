// The manifest of a checkpoint: what the run was at that step and which files, of which length and hash,
// belong to it.
//
// A JSON object {format, step, generation, seed, epoch, position, job, progress, files: [{name, bytes,
// sha256}], muster_version, sha256}. The last member is the hash of all the others, so that a changed digit
// is seen. Written last: a folder with a manifest is complete. Pure functions of text; no disk here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/json.h"

namespace muster::model {

constexpr std::uint64_t kManifestFormat = 1;
// Enough for any job and its progress, and little enough that a hostile manifest costs no memory.
constexpr std::uint64_t kMostManifestBytes = std::uint64_t{1024} * 1024;

constexpr std::string_view kModelFile = "model.safetensors";          // parameters and buffers, by their names
constexpr std::string_view kOptimizerFile = "optimizer.safetensors";  // state slots, "<slot>/<parameter>"
constexpr std::string_view kExtraPrefix = "extra/";                   // there: of what a strategy keeps beyond

struct ManifestFile {
  std::string name;  // kModelFile or kOptimizerFile
  std::uint64_t bytes = 0;
  std::string sha256;
};

struct Manifest {
  std::uint64_t step = 0;        // committed steps
  std::uint64_t generation = 0;  // of the membership that committed it
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;         // the data cursor: this epoch,
  std::uint64_t position = 0;      // and so many samples of its permutation are used
  std::string job;                 // the resolved job, as text
  Json progress = Json::object();  // free-form, the trainer's own
  std::string muster_version;
  std::vector<ManifestFile> files;  // exactly the two above; filled in by CheckpointStore::save
};

// `object` as text with a member "sha256" of everything else at its end. Throws kInvalidInput if a text is
// not UTF-8. REQUIRES: an object without such a member.
std::string seal(Json object);
// The object that was sealed, without the hash. Throws kDamaged if it is not JSON or not what was sealed.
Json unseal(std::string_view text, const std::string& where);

// Throws kInvalidInput if the text would be larger than kMostManifestBytes or is not UTF-8.
std::string encode_manifest(const Manifest& manifest);
// Throws kDamaged with the reason, or kUnsupported for a format other than kManifestFormat.
Manifest parse_manifest(std::string_view text, const std::string& where);

}  // namespace muster::model
