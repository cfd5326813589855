// The writer of pth.h: the pickle, instruction by instruction, and the storages as members of the archive beside it;
// tensors over one memory share one storage. No torch here.
#include <bit>
#include <set>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/hash.h"
#include "muster/base/text.h"
#include "muster/base/zip_writer.h"
#include "muster/model/pth.h"

namespace muster::model {
namespace {

constexpr std::uint8_t kProto = 0x80;
constexpr std::uint8_t kLong1 = 0x8A;
constexpr std::uint8_t kNewTrue = 0x88;
constexpr std::uint8_t kNewFalse = 0x89;

std::string_view storage_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF64:
      return "DoubleStorage";
    case Dtype::kI64:
      return "LongStorage";
    case Dtype::kF32:
      return "FloatStorage";
    case Dtype::kI32:
      return "IntStorage";
    case Dtype::kF16:
      return "HalfStorage";
    case Dtype::kBf16:
      return "BFloat16Storage";
    case Dtype::kI16:
      return "ShortStorage";
    case Dtype::kI8:
      return "CharStorage";
    case Dtype::kU8:
      return "ByteStorage";
    case Dtype::kBool:
      return "BoolStorage";
  }
  MUSTER_CHECK(false, "a type that has no storage");
}

}  // namespace

PthWriter::PthWriter() {
  code(kProto);
  code(2);
}

void PthWriter::number(std::uint64_t value, int width) {
  for (int i = 0; i < width; ++i)
    code(static_cast<std::uint8_t>(value >> (8 * i)));
}

void PthWriter::none() {
  code('N');
}

void PthWriter::boolean(bool value) {
  code(value ? kNewTrue : kNewFalse);
}

void PthWriter::integer(std::int64_t value) {
  if (value >= INT32_MIN && value <= INT32_MAX) {
    code('J');
    number(static_cast<std::uint64_t>(value), 4);
  } else {
    code(kLong1);
    code(8);
    number(static_cast<std::uint64_t>(value), 8);
  }
}

void PthWriter::real(double value) {
  code('G');
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int i = 7; i >= 0; --i)
    code(static_cast<std::uint8_t>(bits >> (8 * i)));
}

void PthWriter::text(std::string_view value) {
  MUSTER_CHECK(value.size() <= UINT32_MAX, "a text of 4 GiB");
  code('X');
  number(value.size(), 4);
  const auto bytes = std::as_bytes(std::span(value));
  pickle_.insert(pickle_.end(), bytes.begin(), bytes.end());
}

void PthWriter::global(std::string_view module, std::string_view name) {
  const std::string line = fmt::format("c{}\n{}\n", module, name);
  const auto bytes = std::as_bytes(std::span(line));
  pickle_.insert(pickle_.end(), bytes.begin(), bytes.end());
}

void PthWriter::begin_dict() {
  code('}');
  code('(');
}

void PthWriter::begin_ordered_dict() {
  global("collections", "OrderedDict");
  code(')');
  code('R');
  code('(');
}

void PthWriter::end_dict() {
  code('u');
}

void PthWriter::begin_list() {
  code(']');
  code('(');
}

void PthWriter::end_list() {
  code('e');
}

void PthWriter::begin_tuple() {
  code('(');
}

void PthWriter::end_tuple() {
  code('t');
}

void PthWriter::extents(const std::vector<std::int64_t>& values) {
  begin_tuple();
  for (const std::int64_t value : values)
    integer(value);
  end_tuple();
}

void PthWriter::tensor(const TensorView& tensor) {
  const auto [known, is_new] = known_.try_emplace({tensor.data.data(), tensor.data.size()}, storages_.size());
  // Empty ones may have any address and never share.
  const std::size_t key = is_new || tensor.data.empty() ? storages_.size() : known->second;
  if (key == storages_.size()) storages_.push_back(tensor.data);
  std::vector<std::int64_t> strides(tensor.shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = strides.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(tensor.shape[i], 1);
  }
  global("torch._utils", "_rebuild_tensor_v2");
  begin_tuple();
  begin_tuple();
  text("storage");
  global("torch", storage_name(tensor.dtype));
  text(fmt::format("{}", key));
  text("cpu");
  integer(static_cast<std::int64_t>(tensor.data.size() / bytes_of(tensor.dtype)));
  end_tuple();
  code('Q');
  integer(0);
  extents(tensor.shape);
  extents(strides);
  boolean(false);
  begin_ordered_dict();
  end_dict();
  end_tuple();
  code('R');
}

FileDigest PthWriter::save(const std::filesystem::path& path) {
  code('.');
  if (pickle_.size() > kMostPickleBytes)
    throw Error(ErrorKind::kUnsupported, "there are too many tensors for a .pth file", path.string());
  AtomicFile file(path);
  Sha256 hash;
  FileDigest digest;
  ZipWriter zip([&](std::span<const std::byte> bytes) {
    digest.bytes += bytes.size();
    hash.update(bytes);
    file.write(bytes);
  });
  const auto add = [&](const std::string& name, std::span<const std::byte> bytes) {
    zip.add("archive/" + name, bytes);
  };
  const auto add_text = [&](const std::string& name, std::string_view text) {
    add(name, std::as_bytes(std::span(text)));
  };
  add("data.pkl", pickle_);
  add_text("byteorder", "little");
  for (std::size_t i = 0; i < storages_.size(); ++i)
    add(fmt::format("data/{}", i), storages_[i]);
  add_text("version", "3\n");
  zip.finish();
  file.commit();
  digest.sha256 = hash.finish();
  return digest;
}

FileDigest write_state_dict(const std::filesystem::path& path, std::span<const TensorView> tensors) {
  std::set<std::string_view> names;
  PthWriter writer;
  writer.begin_ordered_dict();
  for (const TensorView& tensor : tensors) {
    if (valid_utf8_prefix(tensor.name) != tensor.name.size() || !names.insert(tensor.name).second) {
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("the name \"{}\" is there twice or not UTF-8", excerpt(tensor.name, 80)), path.string());
    }
    writer.text(tensor.name);
    writer.tensor(tensor);
  }
  writer.end_dict();
  return writer.save(path);
}

}  // namespace muster::model
