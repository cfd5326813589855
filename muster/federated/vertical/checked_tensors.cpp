// What is hashed is named and measured, so that nothing can move from one tensor into another; the order is that of the
// names, since the writer puts wide types first.
#include "muster/federated/vertical/checked_tensors.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/hash.h"

namespace muster::federated {
namespace {

constexpr const char* kSum = "sha256";

void add_number(Sha256& hash, std::uint64_t number) {
  hash.update(std::as_bytes(std::span(&number, 1)));
}
void add_text(Sha256& hash, std::string_view text) {
  add_number(hash, text.size());
  hash.update(std::as_bytes(std::span(text)));
}

void add_tensor(Sha256& hash, std::string_view name, model::Dtype dtype, const std::vector<std::int64_t>& shape,
                std::span<const std::byte> data) {
  add_text(hash, name);
  add_text(hash, to_string(dtype));
  add_number(hash, shape.size());
  for (const std::int64_t size : shape)
    add_number(hash, static_cast<std::uint64_t>(size));
  add_number(hash, data.size());
  hash.update(data);
}

void add_metadata(Sha256& hash, const model::Metadata& metadata) {
  for (const auto& [key, value] : metadata) {
    if (key == kSum) continue;
    add_text(hash, key);
    add_text(hash, value);
  }
}

}  // namespace

void write_checked(const std::filesystem::path& path, std::span<const model::TensorView> tensors,
                   model::Metadata metadata) {
  std::vector<const model::TensorView*> by_name;
  for (const model::TensorView& tensor : tensors)
    by_name.push_back(&tensor);
  std::ranges::sort(by_name, {}, &model::TensorView::name);
  Sha256 hash;
  for (const model::TensorView* const tensor : by_name)
    add_tensor(hash, tensor->name, tensor->dtype, tensor->shape, tensor->data);
  add_metadata(hash, metadata);
  metadata[kSum] = hash.finish();
  model::write_safetensors(path, tensors, metadata);
}

model::SafetensorsFile open_checked(const std::filesystem::path& path) {
  model::SafetensorsFile file(path);
  const model::SafetensorsHeader& header = file.header();
  Sha256 hash;
  std::vector<std::byte> data;
  for (const auto& [name, place] : header.index) {
    const model::TensorEntry& entry = header.tensors[place];
    data.resize(entry.bytes());
    file.read(name, data);
    add_tensor(hash, name, entry.dtype, entry.shape, data);
  }
  add_metadata(hash, header.metadata);
  const auto sum = header.metadata.find(kSum);
  if (sum == header.metadata.end() || sum->second != hash.finish())
    throw Error(ErrorKind::kDamaged, "is not what was written: its checksum is another", path.string());
  return file;
}

}  // namespace muster::federated
