// Reading is checked in safetensors_header.cpp; here are the file around it and the writer, which keeps to what the
// reader accepts and hashes in pieces that stay in the cache on their way to the kernel.
#include "muster/model/safetensors.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/hash.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::model {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1024} * 1024;

[[noreturn]] void throw_no_tensor(std::string_view name, const SafetensorsHeader& header, const std::string& where) {
  std::vector<std::string> names;
  for (const TensorEntry& entry : header.tensors)
    names.push_back(entry.name);
  throw Error(ErrorKind::kNotFound, fmt::format("has no tensor \"{}\"{}", name, did_you_mean(name, names)), where);
}

[[noreturn]] void refuse(const std::string& name, const std::string& reason) {
  throw Error(ErrorKind::kInvalidInput, fmt::format("tensor \"{}\" cannot be written: {}", name, reason));
}

// The writer keeps to what the reader accepts, so that nothing is saved that cannot be loaded.
void check_writable(std::span<const TensorView> tensors, const Metadata& metadata) {
  if (tensors.size() > kMostTensors || metadata.size() > kMostTensors) {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("{} tensors and {} metadata members; a safetensors file holds at most {} of each",
                            tensors.size(), metadata.size(), kMostTensors));
  }
  std::set<std::string_view> names;
  for (const TensorView& tensor : tensors) {
    if (tensor.name == "__metadata__") refuse(tensor.name, "the name is reserved");
    if (!names.insert(tensor.name).second) refuse(tensor.name, "the name is there twice");
    if (tensor.shape.size() > kMostDimensions) refuse(tensor.name, "too many dimensions");
    std::uint64_t bytes = bytes_of(tensor.dtype);
    for (const std::int64_t extent : tensor.shape) {
      if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) {
        refuse(tensor.name, "its shape is impossible");
      }
    }
    if (bytes != tensor.data.size()) {
      refuse(tensor.name, fmt::format("it has {} bytes; shape and dtype need {}", tensor.data.size(), bytes));
    }
  }
}

// The 8 bytes, the JSON and the padding. `tensors` in the order of their data.
std::string encode_header(std::span<const TensorView* const> tensors, const Metadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t position = 0;
  // Appended directly: the ordered object looks a name up by walking over all that it has.
  auto& members = header.get_ref<Json::object_t&>();
  for (const TensorView* const tensor : tensors) {
    Json entry;
    entry["dtype"] = to_string(tensor->dtype);
    entry["shape"] = tensor->shape;
    entry["data_offsets"] = {position, position + tensor->data.size()};
    members.push_back({tensor->name, std::move(entry)});
    position += tensor->data.size();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception&) {
    throw Error(ErrorKind::kInvalidInput, "a tensor's name or a metadata text is not UTF-8");
  }
  const std::uint64_t padding = (kDataAlignment - (8 + text.size()) % kDataAlignment) % kDataAlignment;
  text.append(padding, ' ');
  if (text.size() > kMostHeaderBytes) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("names and metadata need a header of {}; at most {} are possible",
                                                      human_bytes(text.size()), human_bytes(kMostHeaderBytes)));
  }
  std::string prefix(8, '\0');
  for (std::size_t i = 0; i < 8; ++i)
    prefix[i] = static_cast<char>(text.size() >> (8 * i) & 0xFF);
  return prefix + text;
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::filesystem::path path) : path_(std::move(path)), file_(open_for_reading(path_)) {
  std::array<std::byte, 8> prefix{};
  if (file_.size >= prefix.size()) read_exactly(file_, 0, prefix, path_);
  const std::uint64_t bytes = safetensors_header_bytes(prefix, file_.size, path_.string());
  std::vector<std::byte> head(std::min(file_.size, 8 + bytes));
  read_exactly(file_, 0, head, path_);
  header_ = parse_safetensors_header(head, file_.size, path_.string());
}

void SafetensorsFile::read(std::string_view name, std::span<std::byte> out) const {
  const TensorEntry* const entry = header_.find(name);
  if (entry == nullptr) throw_no_tensor(name, header_, path_.string());
  if (entry->bytes() != out.size()) {
    throw Error(ErrorKind::kMismatch,
                fmt::format("tensor \"{}\" has {} bytes and {} were expected", name, entry->bytes(), out.size()),
                path_.string());
  }
  read_exactly(file_, header_.data_begin + entry->begin, out, path_);
}

AlignedBytes::AlignedBytes(std::uint64_t size, const std::string& where) : size_(size) {
  if (size == 0) return;
  if (size <= PTRDIFF_MAX - kDataAlignment) {
    const std::uint64_t rounded = (size + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
    bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(kDataAlignment, rounded)));
  }
  if (!bytes_) {
    throw Error(ErrorKind::kResource, fmt::format("needs {} of memory, which is not there", human_bytes(size)), where);
  }
}

void AlignedBytes::Free::operator()(std::byte* bytes) const {
  std::free(bytes);
}

TensorSet::TensorSet(AlignedBytes file, const std::string& where)
    : file_(std::move(file)),
      bytes_(std::as_const(file_).span()),
      header_(parse_safetensors_header(bytes_, bytes_.size(), where)),
      where_(where) {
}

TensorSet::TensorSet(FileMapping file, const std::string& where)
    : mapped_(std::move(file)),
      bytes_(mapped_.bytes()),
      header_(parse_safetensors_header(bytes_, bytes_.size(), where)),
      where_(where) {
}

std::span<const std::byte> TensorSet::data(const TensorEntry& entry) const {
  return bytes_.subspan(header_.data_begin + entry.begin, entry.bytes());
}

TensorView TensorSet::tensor(std::string_view name) const {
  const TensorEntry* const entry = header_.find(name);
  if (entry == nullptr) throw_no_tensor(name, header_, where_);
  return {entry->name, entry->dtype, entry->shape, data(*entry)};
}

FileDigest encode_safetensors(std::span<const TensorView> tensors, const Metadata& metadata, const ByteSink& sink) {
  check_writable(tensors, metadata);
  std::vector<const TensorView*> ordered;
  ordered.reserve(tensors.size());
  for (const TensorView& tensor : tensors)
    ordered.push_back(&tensor);
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const TensorView* a, const TensorView* b) { return bytes_of(a->dtype) > bytes_of(b->dtype); });

  const std::string header = encode_header(ordered, metadata);
  Sha256 hash;
  FileDigest digest;
  const auto emit = [&](std::span<const std::byte> bytes) {
    digest.bytes += bytes.size();
    // In pieces that stay in the cache between the hash and the copy to the kernel.
    while (!bytes.empty()) {
      const auto piece = bytes.first(std::min(bytes.size(), kPieceBytes));
      hash.update(piece);
      sink(piece);
      bytes = bytes.subspan(piece.size());
    }
  };
  emit(std::as_bytes(std::span(header)));
  for (const TensorView* const tensor : ordered)
    emit(tensor->data);
  digest.sha256 = hash.finish();
  return digest;
}

FileDigest write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                             const Metadata& metadata) {
  AtomicFile file(path);
  FileDigest digest =
      encode_safetensors(tensors, metadata, [&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
  return digest;
}

}  // namespace muster::model
