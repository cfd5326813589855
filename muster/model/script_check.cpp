// From cheap to dear: the directory, the names and sizes of members, then the pickle and each tensor inside its
// storage. LibTorch gets to see the file only after all of it.
#include "muster/model/script_check.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/text.h"
#include "muster/base/zip.h"
#include "muster/model/weights.h"

namespace muster::model {
namespace {

// Source text shrinks to a fifth or a tenth; what grows a hundredfold is made to fill memory.
constexpr std::uint64_t kMostGrowth = 100;
constexpr std::uint64_t kHarmlessBytes =
    std::uint64_t{64} * 1024;  // very regular text is small, and may have shrunk by more
constexpr std::uint64_t kMostSourceBytes = std::uint64_t{256} * 1024 * 1024;

bool is_in(const ZipMember& member, std::string_view name) {
  const std::size_t slash = member.name.find('/');
  return slash != std::string::npos && std::string_view(member.name).substr(slash + 1) == name;
}

void check_growth(const std::vector<ZipMember>& members, const std::string& where) {
  std::uint64_t source = 0;
  for (const ZipMember& member : members) {
    if (!member.deflated) continue;
    const bool grows = member.size > kHarmlessBytes && member.size / kMostGrowth > member.compressed;
    if (grows || member.size > kMostSourceBytes - source) {
      throw Error(ErrorKind::kDamaged,
                  fmt::format("\"{}\" grows from {} to {}: no source text does", excerpt(member.name),
                              human_bytes(member.compressed), human_bytes(member.size)),
                  where);
    }
    source += member.size;
  }
}

void check_contents(std::span<const std::byte> archive, const std::vector<ZipMember>& members,
                    const std::string& where) {
  for (const ZipMember& member : members) {
    if (member.deflated)
      read_member(archive, member, where);
    else
      stored_member(archive, member, where);
  }
}

// That each lies inside its storage.
void check_tensors(const std::shared_ptr<PthFile>& file) {
  try {
    weights_of(file);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalidInput) throw;  // a script without tensors is whole too
  }
}

}  // namespace

void check_script(AlignedBytes archive, const std::string& where) {
  const std::span<const std::byte> bytes = std::as_const(archive).span();  // stays where it is
  const auto file = std::make_shared<PthFile>(std::move(archive), where);  // reads the directory and data.pkl
  if (!file->is_script())
    throw Error(ErrorKind::kDamaged, "is a file of torch.save, with weights and no script", where);
  const std::vector<ZipMember> members = zip_members(bytes, where);
  check_growth(members, where);
  check_contents(bytes, members, where);
  check_tensors(file);
  const auto constants =
      std::ranges::find_if(members, [](const ZipMember& member) { return is_in(member, "constants.pkl"); });
  parse_pickle(stored_member(bytes, *constants, where), where + ": constants.pkl", PickleDialect::kScript);
}

void check_script(const std::filesystem::path& path) {
  const OpenFile file = open_for_reading(path);
  AlignedBytes bytes(file.size, path.string());
  read_exactly(file, 0, bytes.span(), path);
  check_script(std::move(bytes), path.string());
}

}  // namespace muster::model
