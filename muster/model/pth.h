// PyTorch's .pth files: the zip archives that torch.save writes since PyTorch 1.6. Reader and writer.
//
// The archive's members stand in one folder of any name: data.pkl, a pickle (pickle.h) of values in which tensors refer
// to storages; data/KEY, the bytes of each storage; version; byteorder (newer ones). All are stored, not compressed.
// The reader checks every size before it allocates: contiguous tensors are views of the file's bytes, others are
// copied, and together the copies are no larger than the file. LibTorch's own unpickler has no part in this. No torch
// here.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/zip.h"
#include "muster/model/pickle.h"
#include "muster/model/safetensors.h"

namespace muster::model {

class PthFile {
 public:
  // Reads the whole file. Throws kNotFound, kInvalidInput (no regular file), kIo, kResource, and what the next does.
  explicit PthFile(const std::filesystem::path& path);
  // A TorchScript file is one too: its values are the attributes of its modules. Throws kDamaged, or kUnsupported: the
  // format of before PyTorch 1.6, another byte order, a compressed member, and what pickle.h refuses.
  PthFile(AlignedBytes archive, std::string where);

  const Pickle& values() const { return pickle_; }
  const std::string& where() const { return where_; }
  bool is_script() const { return members_.contains("constants.pkl"); }
  // The tensor with number `id`, under `name`: a view that holds as long as this file. Throws kDamaged (its storage is
  // not in the archive, or of another size or checksum), kUnsupported (copies larger than the file) or kResource.
  // REQUIRES: a tensor.
  TensorView tensor(Pickle::Id id, std::string name);

 private:
  std::span<const std::byte> storage(const Pickle::Storage& storage);

  AlignedBytes archive_;
  std::string where_;
  std::map<std::string, ZipMember, std::less<>> members_;                    // without the folder
  std::map<std::string, std::span<const std::byte>, std::less<>> storages_;  // whose checksum was verified
  Pickle pickle_;
  std::deque<AlignedBytes> copies_;
  std::uint64_t copied_ = 0;
};

// Writes what torch.load reads, also with weights_only: values one by one, tensors by reference.
//   PthWriter writer;  writer.begin_dict();  writer.text("weight");  writer.tensor(view);  writer.end_dict();
//   writer.save("model.pth");
// Thread safety: one thread at a time.
class PthWriter {
 public:
  PthWriter();

  void none();
  void boolean(bool value);
  void integer(std::int64_t value);
  void real(double value);
  void text(std::string_view value);
  // Kept by reference until save(). Tensors over the same bytes share a storage.
  void tensor(const TensorView& tensor);
  // Between begin and end: key, value, key, value, ...; of a list or a tuple its items.
  void begin_dict();
  void begin_ordered_dict();
  void end_dict();
  void begin_list();
  void end_list();
  void begin_tuple();
  void end_tuple();

  // Atomically. Throws kResource or kIo; then `path` is as it was. REQUIRES: exactly one value.
  FileDigest save(const std::filesystem::path& path);

 private:
  void code(std::uint8_t value) { pickle_.push_back(static_cast<std::byte>(value)); }
  void number(std::uint64_t value, int width);
  void global(std::string_view module, std::string_view name);
  void extents(const std::vector<std::int64_t>& values);

  std::vector<std::byte> pickle_;
  std::vector<std::span<const std::byte>> storages_;
  std::map<std::pair<const std::byte*, std::size_t>, std::size_t> known_;
};

// A state dict: an OrderedDict of tensors by name, in the order given. Throws as PthWriter::save and kInvalidInput for
// a name that is repeated or not UTF-8.
FileDigest write_state_dict(const std::filesystem::path& path, std::span<const TensorView> tensors);

}  // namespace muster::model
