// The reader of pth.h; the writer is pth_writer.cpp. Tensors are views of the file's bytes where they are contiguous
// and copies where they are not; sums of claimed sizes are compared without products that could overflow.
#include "muster/model/pth.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::model {
namespace {

constexpr std::string_view kPickleMember = "data.pkl";

AlignedBytes read_whole(const std::filesystem::path& path) {
  const OpenFile file = open_for_reading(path);
  AlignedBytes bytes(file.size, path.string());
  read_exactly(file, 0, bytes.span(), path);
  return bytes;
}

[[noreturn]] void refuse_foreign(std::span<const std::byte> archive, const std::string& where) {
  // A pickle of protocol 2 that begins with a long integer: the mark of the format before the archives.
  constexpr std::byte kOldMark[] = {std::byte{0x80}, std::byte{2}, std::byte{0x8A}, std::byte{10}};
  if (archive.size() > sizeof kOldMark && std::equal(std::begin(kOldMark), std::end(kOldMark), archive.begin())) {
    throw Error(ErrorKind::kUnsupported, "is in the format of PyTorch before 1.6, which is not read", where,
                "Load it in Python and save it again: torch.save(torch.load(FILE), NEW_FILE).");
  }
  throw Error(ErrorKind::kDamaged, "is not an archive that torch.save wrote", where);
}

// Row-major without gaps.
bool contiguous(const Pickle::Tensor& tensor) {
  std::uint64_t expected = 1;
  for (std::size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] != 1 && static_cast<std::uint64_t>(tensor.strides[i]) != expected) return false;
    expected *= static_cast<std::uint64_t>(tensor.shape[i]);
  }
  return true;
}

// The elements in row-major order. REQUIRES: all inside `storage`.
void gather(const Pickle::Tensor& tensor, std::span<const std::byte> storage, std::size_t width,
            std::span<std::byte> out) {
  std::vector<std::int64_t> index(tensor.shape.size());
  std::uint64_t from = tensor.offset;
  for (std::uint64_t i = 0; i < tensor.elements; ++i) {
    std::memcpy(out.data() + i * width, storage.data() + from * width, width);
    for (std::size_t d = index.size(); d-- > 0;) {
      from += static_cast<std::uint64_t>(tensor.strides[d]);
      if (++index[d] < tensor.shape[d]) break;
      from -= static_cast<std::uint64_t>(tensor.strides[d]) * static_cast<std::uint64_t>(tensor.shape[d]);
      index[d] = 0;
    }
  }
}

}  // namespace

PthFile::PthFile(const std::filesystem::path& path) : PthFile(read_whole(path), path.string()) {
}

PthFile::PthFile(AlignedBytes archive, std::string where) : archive_(std::move(archive)), where_(std::move(where)) {
  const auto bytes = std::as_const(archive_).span();
  if (bytes.size() < 2 || bytes[0] != std::byte{'P'} || bytes[1] != std::byte{'K'}) refuse_foreign(bytes, where_);
  std::string folder;
  for (ZipMember& member : zip_members(bytes, where_)) {
    const std::size_t slash = member.name.find('/');
    if (slash == std::string::npos) throw Error(ErrorKind::kDamaged, "is not an archive that torch.save wrote", where_);
    if (folder.empty()) folder = member.name.substr(0, slash);
    // Newer versions put members of their own beside the folder.
    if (member.name.compare(0, slash, folder) != 0) continue;
    std::string name = member.name.substr(slash + 1);
    if (!members_.emplace(name, std::move(member)).second) {
      throw Error(ErrorKind::kDamaged, fmt::format("has the member \"{}\" twice", excerpt(name)), where_);
    }
  }
  const auto pickle = members_.find(kPickleMember);
  if (pickle == members_.end())
    throw Error(ErrorKind::kDamaged, "is not an archive that torch.save wrote: it has no data.pkl", where_);
  if (const auto order = members_.find("byteorder"); order != members_.end()) {
    const auto text = stored_member(bytes, order->second, where_);
    constexpr std::string_view kLittle = "little";
    if (std::string_view(reinterpret_cast<const char*>(text.data()), text.size()) != kLittle)
      throw Error(ErrorKind::kUnsupported, "was written on a big-endian machine", where_);
  }
  pickle_ = parse_pickle(stored_member(bytes, pickle->second, where_), fmt::format("{}: {}", where_, kPickleMember),
                         is_script() ? PickleDialect::kScript : PickleDialect::kStateDict);
}

std::span<const std::byte> PthFile::storage(const Pickle::Storage& storage) {
  if (const auto known = storages_.find(storage.key); known != storages_.end()) return known->second;
  const auto member = members_.find("data/" + storage.key);
  if (member == members_.end()) {
    throw Error(ErrorKind::kDamaged, fmt::format("has no storage \"{}\"", excerpt(storage.key)), where_);
  }
  const auto bytes = stored_member(std::as_const(archive_).span(), member->second, where_);
  storages_.emplace(storage.key, bytes);
  return bytes;
}

TensorView PthFile::tensor(Pickle::Id id, std::string name) {
  const Pickle::Tensor& tensor = *pickle_.tensor(id);
  const Pickle::Storage& reference = *pickle_.storage(tensor.storage);
  const auto bytes = storage(reference);
  const std::uint64_t width = bytes_of(reference.dtype);
  // Not by a product, which might overflow. All references to a storage must fit it, whatever type each has.
  if (bytes.size() / width < reference.elements) {
    throw Error(ErrorKind::kDamaged,
                fmt::format("storage \"{}\" has {} bytes and should have {} elements of {}", excerpt(reference.key),
                            bytes.size(), reference.elements, width),
                where_);
  }
  TensorView view{std::move(name), reference.dtype, tensor.shape, {}};
  if (tensor.elements == 0) return view;
  if (contiguous(tensor)) {
    view.data = bytes.subspan(tensor.offset * width, tensor.elements * width);
    return view;
  }
  const std::uint64_t size = tensor.elements * width;
  copied_ += size;
  if (copied_ > std::as_const(archive_).span().size()) {
    throw Error(ErrorKind::kUnsupported, "its tensors overlap so much that they are larger than the file", where_,
                "Save contiguous tensors: {k: v.contiguous() for k, v in state_dict.items()}.");
  }
  AlignedBytes& copy = copies_.emplace_back(size, where_);
  gather(tensor, bytes, width, copy.span());
  view.data = std::as_const(copy).span();
  return view;
}

}  // namespace muster::model
