// A restricted reader of Python pickles, as PyTorch writes them into .pth files: it builds values and runs nothing.
//
// A pickle is a program for a stack machine that may call any function of Python. This machine has the instructions
// that plain values need, and knows a closed list of names: collections.OrderedDict, the storages of the types that we
// have (torch.FloatStorage, ...) and the two functions by which tensors are rebuilt, which it does itself. Every other
// instruction and every other name is refused, with its name and the byte where it stands. TorchScript files have a
// dialect of their own, with objects of the script's classes, of which only the attributes are kept. Time and memory
// are bounded by the limits below, whatever the pickle says. Values live in one array and refer to each other by
// number, so nothing nests, and a value that contains itself does no harm. Thread safety: values; const methods from
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "muster/model/safetensors.h"

namespace muster::model {

constexpr std::uint64_t kMostPickleBytes = std::uint64_t{16} * 1024 * 1024;
constexpr std::size_t kMostPickleValues = 500'000;        // also the limit of the memo
constexpr std::size_t kMostPickleReferences = 2'000'000;  // to values, in the stack and in lists and dictionaries

class Pickle {
 public:
  using Id = std::uint32_t;
  struct None {};
  struct Sequence {  // a tuple or a list
    std::vector<Id> items;
    bool is_tuple = false;
  };
  struct Dictionary {  // a dict, an OrderedDict or an object's attributes, in order of insertion; keys may repeat
    std::vector<std::pair<Id, Id>> items;
    bool is_object = false;
  };
  struct Storage {  // memory that tensors look into
    Dtype dtype = Dtype::kF32;
    std::string key;  // of the archive's member, data/KEY
    std::uint64_t elements = 0;
  };
  struct Tensor {  // lies inside its storage: checked
    Id storage = 0;
    std::uint64_t offset = 0;  // elements
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;  // elements, not negative
    std::uint64_t elements = 0;         // product of the shape
  };
  // A name that may be called, or is the type of a storage. Of TorchScript also: a class, and functions that give back
  // their first argument.
  enum class Callable : std::uint8_t { kOrderedDict, kRebuildTensor, kRebuildParameter, kStorageType, kClass, kFirst };
  struct Global {
    Callable callable = Callable::kOrderedDict;
    Dtype dtype = Dtype::kF32;  // of kStorageType
  };
  using Value = std::variant<None, bool, std::int64_t, double, std::string, std::unique_ptr<Sequence>,
                             std::unique_ptr<Dictionary>, std::unique_ptr<Storage>, std::unique_ptr<Tensor>, Global>;

  const Value& at(Id id) const { return values_[id]; }
  Id root() const { return root_; }

  // Null when the value is something else.
  const Sequence* sequence(Id id) const { return held<Sequence>(id); }
  const Dictionary* dictionary(Id id) const { return held<Dictionary>(id); }
  const Storage* storage(Id id) const { return held<Storage>(id); }
  const Tensor* tensor(Id id) const { return held<Tensor>(id); }
  const std::string* text(Id id) const { return std::get_if<std::string>(&values_[id]); }
  const std::int64_t* integer(Id id) const { return std::get_if<std::int64_t>(&values_[id]); }
  // The last value of `key` in a dictionary, or null.
  const Id* member(const Dictionary& dictionary, std::string_view key) const;
  // "a tensor", "a text": for messages.
  std::string_view kind(Id id) const;

 private:
  friend class PickleMachine;
  template <typename T>
  const T* held(Id id) const {
    const auto* const pointer = std::get_if<std::unique_ptr<T>>(&values_[id]);
    return pointer == nullptr ? nullptr : pointer->get();
  }

  std::vector<Value> values_;
  Id root_ = 0;
};

enum class PickleDialect { kStateDict, kScript };

// Throws kDamaged (cut, or not what Python writes) or kUnsupported (an instruction, a name or a tensor that is not on
// the list; more than the limits), with `where` and the byte.
Pickle parse_pickle(std::span<const std::byte> bytes, const std::string& where,
                    PickleDialect dialect = PickleDialect::kStateDict);

// The name that Python's documentation gives an instruction: "GLOBAL"; empty if there is none.
std::string_view pickle_opcode_name(std::uint8_t code);

}  // namespace muster::model
