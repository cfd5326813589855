// One method an instruction, or a group of them, over values that lie in one array and refer to each other by number.
// Limits are counted while values are made, so that no program of bytes runs long or grows large.
#include "muster/model/pickle.h"

#include <algorithm>
#include <bit>
#include <limits>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::model {
namespace {

constexpr std::size_t kLongestName = 200;

struct NamedGlobal {
  std::string_view module;
  std::string_view name;
  Pickle::Global global;
};

using enum Pickle::Callable;
constexpr NamedGlobal kGlobals[] = {
    {"collections", "OrderedDict", {kOrderedDict}},
    {"torch._utils", "_rebuild_tensor_v2", {kRebuildTensor}},
    {"torch._utils", "_rebuild_parameter", {kRebuildParameter}},
    {"torch", "DoubleStorage", {kStorageType, Dtype::kF64}},
    {"torch", "LongStorage", {kStorageType, Dtype::kI64}},
    {"torch", "FloatStorage", {kStorageType, Dtype::kF32}},
    {"torch", "IntStorage", {kStorageType, Dtype::kI32}},
    {"torch", "HalfStorage", {kStorageType, Dtype::kF16}},
    {"torch", "BFloat16Storage", {kStorageType, Dtype::kBf16}},
    {"torch", "ShortStorage", {kStorageType, Dtype::kI16}},
    {"torch", "CharStorage", {kStorageType, Dtype::kI8}},
    {"torch", "ByteStorage", {kStorageType, Dtype::kU8}},
    {"torch", "BoolStorage", {kStorageType, Dtype::kBool}},
};

// Of TorchScript: lists with a type, and values with the name of theirs.
constexpr NamedGlobal kScriptGlobals[] = {
    {"torch.jit._pickle", "build_intlist", {kFirst}},    {"torch.jit._pickle", "build_tensorlist", {kFirst}},
    {"torch.jit._pickle", "build_doublelist", {kFirst}}, {"torch.jit._pickle", "build_boollist", {kFirst}},
    {"torch.jit._pickle", "restore_type_tag", {kFirst}},
};

}  // namespace

// The stack machine. One method an instruction, or a group of them.
class PickleMachine {
 public:
  using Id = Pickle::Id;

  PickleMachine(std::span<const std::byte> bytes, const std::string& where, PickleDialect dialect)
      : bytes_(bytes), where_(where), dialect_(dialect) {}

  Pickle run() {
    if (bytes_.size() > kMostPickleBytes)
      unsupported(fmt::format("it has {} bytes and at most {} are read", bytes_.size(), kMostPickleBytes));
    while (!step()) {
    }
    if (at_ != bytes_.size()) damaged("bytes follow its end");
    return std::move(pickle_);
  }

 private:
  enum Opcode : std::uint8_t {
    kMark = '(',
    kStop = '.',
    kNone = 'N',
    kNewTrue = 0x88,
    kNewFalse = 0x89,
    kBinInt = 'J',
    kBinInt1 = 'K',
    kBinInt2 = 'M',
    kLong1 = 0x8A,
    kBinFloat = 'G',
    kBinUnicode = 'X',
    kEmptyTuple = ')',
    kTuple = 't',
    kTuple1 = 0x85,
    kTuple2 = 0x86,
    kTuple3 = 0x87,
    kEmptyList = ']',
    kAppend = 'a',
    kAppends = 'e',
    kEmptyDict = '}',
    kSetItem = 's',
    kSetItems = 'u',
    kGlobal = 'c',
    kReduce = 'R',
    kBuild = 'b',
    kNewObject = 0x81,  // kScript only
    kBinPersId = 'Q',
    kBinPut = 'q',
    kLongBinPut = 'r',
    kBinGet = 'h',
    kLongBinGet = 'j',
    kProto = 0x80,
  };

  // True at the end.
  bool step() {
    opcode_at_ = at_;
    const auto code = static_cast<std::uint8_t>(number(1));
    switch (code) {
      case kProto:
        if (const std::uint64_t version = number(1); opcode_at_ != 0 || version != 2)
          unsupported(fmt::format("protocol {}; torch.save writes protocol 2", version));
        return false;
      case kStop:
        pickle_.root_ = pop();
        if (!stack_.empty() || !marks_.empty()) damaged("it ends with values left over");
        return true;
      case kMark:
        marks_.push_back(stack_.size());
        count_reference();
        return false;
      case kNone:
      case kNewTrue:
      case kNewFalse:
      case kBinInt:
      case kBinInt1:
      case kBinInt2:
      case kLong1:
      case kBinFloat:
      case kBinUnicode:
        plain_value(code);
        return false;
      case kEmptyTuple:
      case kTuple1:
      case kTuple2:
      case kTuple3:
        tuple(code == kEmptyTuple ? 0 : static_cast<std::size_t>(code - kTuple1) + 1);
        return false;
      case kTuple:
        tuple(above_mark());
        return false;
      case kEmptyList:
        push(std::make_unique<Pickle::Sequence>());
        return false;
      case kEmptyDict:
        push(std::make_unique<Pickle::Dictionary>());
        return false;
      case kAppend:
        append(1);
        return false;
      case kAppends:
        append(above_mark());
        return false;
      case kSetItem:
        set_items(2);
        return false;
      case kSetItems:
        set_items(above_mark());
        return false;
      case kBinPut:
        remember(number(1));
        return false;
      case kLongBinPut:
        remember(number(4));
        return false;
      case kBinGet:
        recall(number(1));
        return false;
      case kLongBinGet:
        recall(number(4));
        return false;
      case kGlobal:
        global();
        return false;
      case kBinPersId:
        storage();
        return false;
      case kReduce:
        reduce();
        return false;
      case kBuild:
        build();
        return false;
      case kNewObject:
        if (dialect_ == PickleDialect::kScript) {
          new_object();
          return false;
        }
        [[fallthrough]];
      default: {
        const std::string_view name = pickle_opcode_name(code);
        if (name.empty()) damaged(fmt::format("{:#04x} is no instruction", code));
        unsupported(fmt::format("the instruction {} is not allowed", name));
      }
    }
  }

  void plain_value(std::uint8_t code) {
    switch (code) {
      case kNone:
        return push(Pickle::None{});
      case kNewTrue:
        return push(true);
      case kNewFalse:
        return push(false);
      case kBinInt:
        return push(std::int64_t{static_cast<std::int32_t>(number(4))});
      case kBinInt1:
        return push(static_cast<std::int64_t>(number(1)));
      case kBinInt2:
        return push(static_cast<std::int64_t>(number(2)));
      case kLong1:
        return long_integer();
      case kBinFloat: {
        std::uint64_t bits = 0;  // the one big-endian number of the format
        for (const std::byte byte : take(8))
          bits = bits << 8 | std::to_integer<std::uint64_t>(byte);
        return push(std::bit_cast<double>(bits));
      }
      default: {
        const auto text = take(number(4));
        std::string value(reinterpret_cast<const char*>(text.data()), text.size());
        if (valid_utf8_prefix(value) != value.size()) damaged("a text is not UTF-8");
        return push(std::move(value));
      }
    }
  }

  // Two's complement of as many bytes as are needed.
  void long_integer() {
    const std::uint64_t width = number(1);
    if (width > 8) unsupported(fmt::format("an integer of {} bytes", width));
    std::uint64_t value = number(width);
    if (width > 0 && width < 8 && (value >> (8 * width - 1)) != 0) value |= ~std::uint64_t{0} << (8 * width);
    push(static_cast<std::int64_t>(value));
  }

  void tuple(std::size_t count) {
    auto value = std::make_unique<Pickle::Sequence>();
    value->is_tuple = true;
    value->items = pop_many(count);
    push(std::move(value));
  }

  void append(std::size_t count) {
    const std::vector<Id> items = pop_many(count);
    const Pickle::Sequence* const list = pickle_.sequence(top());
    if (list == nullptr || list->is_tuple) damaged(fmt::format("an item is appended to {}", pickle_.kind(top())));
    auto& all = std::get<std::unique_ptr<Pickle::Sequence>>(pickle_.values_[top()])->items;
    all.insert(all.end(), items.begin(), items.end());
  }

  void set_items(std::size_t count) {
    if (count % 2 != 0) damaged("a key without a value");
    const std::vector<Id> items = pop_many(count);
    if (pickle_.dictionary(top()) == nullptr) damaged(fmt::format("an item is set in {}", pickle_.kind(top())));
    auto& all = std::get<std::unique_ptr<Pickle::Dictionary>>(pickle_.values_[top()])->items;
    for (std::size_t i = 0; i < count; i += 2)
      all.emplace_back(items[i], items[i + 1]);
  }

  void remember(std::uint64_t index) {
    if (index >= kMostPickleValues) unsupported(fmt::format("the number {} in the memo", index));
    if (index >= memo_.size()) memo_.resize(index + 1, kNobody);
    memo_[index] = top();
  }

  void recall(std::uint64_t index) {
    if (index >= memo_.size() || memo_[index] == kNobody) damaged(fmt::format("nothing has the number {}", index));
    push_id(memo_[index]);
  }

  void global() {
    const std::string_view module = line();
    const std::string_view name = line();
    for (const NamedGlobal& known : kGlobals) {
      if (known.module == module && known.name == name) return push(known.global);
    }
    if (dialect_ == PickleDialect::kScript) {
      for (const NamedGlobal& known : kScriptGlobals) {
        if (known.module == module && known.name == name) return push(known.global);
      }
      if (module == "__torch__" || module.starts_with("__torch__.")) return push(Pickle::Global{kClass});
    }
    unsupported(
        fmt::format("the name {}.{} is not allowed: nothing of a file is executed", excerpt(module), excerpt(name)));
  }

  // ("storage", type, key, location, elements) is how torch.save refers to a member of the archive.
  void storage() {
    const Pickle::Sequence* const parts = pickle_.sequence(pop());
    const std::string* word = nullptr;
    if (parts != nullptr && parts->is_tuple && parts->items.size() == 5) word = pickle_.text(parts->items[0]);
    if (word == nullptr || *word != "storage") damaged("a reference to something that is no storage");
    const auto* const type = std::get_if<Pickle::Global>(&pickle_.at(parts->items[1]));
    const std::string* const key = pickle_.text(parts->items[2]);
    const std::int64_t* const elements = pickle_.integer(parts->items[4]);
    if (type == nullptr || type->callable != kStorageType || key == nullptr || elements == nullptr || *elements < 0)
      damaged("a reference to a storage without type, key or size");
    if (key->size() > kLongestName) damaged("a storage's key is too long");
    auto value = std::make_unique<Pickle::Storage>();
    value->dtype = type->dtype;
    value->key = *key;
    value->elements = static_cast<std::uint64_t>(*elements);
    push(std::move(value));
  }

  void reduce() {
    const Pickle::Sequence* const arguments = pickle_.sequence(pop());
    const auto* const function = std::get_if<Pickle::Global>(&pickle_.at(pop()));
    if (function == nullptr || arguments == nullptr || !arguments->is_tuple)
      damaged("a call of something that is no function");
    switch (function->callable) {
      case kOrderedDict:
        if (!arguments->items.empty()) unsupported("an OrderedDict that is made from a list");
        return push(std::make_unique<Pickle::Dictionary>());
      case kRebuildTensor:
        return rebuild_tensor(arguments->items);
      case kRebuildParameter:
        if (arguments->items.size() != 3 || pickle_.tensor(arguments->items[0]) == nullptr)
          damaged("a parameter that is no tensor");
        require_no_hooks(arguments->items[2]);
        return push_id(arguments->items[0]);
      case kFirst:
        if (arguments->items.empty()) damaged("a call without an argument");
        return push_id(arguments->items[0]);
      case kStorageType:
      case kClass:
        unsupported("a call of a class");
    }
  }

  // (storage, offset, shape, strides, requires_grad, hooks)
  void rebuild_tensor(const std::vector<Id>& parts) {
    if (parts.size() != 6 && parts.size() != 7) damaged(fmt::format("a tensor of {} parts", parts.size()));
    const Pickle::Storage* const storage = pickle_.storage(parts[0]);
    const std::int64_t* const offset = pickle_.integer(parts[1]);
    if (storage == nullptr || offset == nullptr || *offset < 0) damaged("a tensor without storage or offset");
    auto tensor = std::make_unique<Pickle::Tensor>();
    tensor->storage = parts[0];
    tensor->offset = static_cast<std::uint64_t>(*offset);
    tensor->shape = extents(parts[2]);
    tensor->strides = extents(parts[3]);
    require_no_hooks(parts[5]);
    if (parts.size() == 7) require_no_hooks(parts[6]);
    place(*tensor, *storage);
    push(std::move(tensor));
  }

  // Counts the elements and demands that the last of them is inside the storage.
  void place(Pickle::Tensor& tensor, const Pickle::Storage& storage) {
    if (tensor.shape.size() != tensor.strides.size()) damaged("a tensor with more extents than strides, or fewer");
    tensor.elements = 1;
    std::uint64_t last = tensor.offset;
    bool overflow = false;
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      const auto extent = static_cast<std::uint64_t>(tensor.shape[i]);
      overflow |= __builtin_mul_overflow(tensor.elements, extent, &tensor.elements);
      std::uint64_t reach = 0;
      if (extent > 0)
        overflow |= __builtin_mul_overflow(extent - 1, static_cast<std::uint64_t>(tensor.strides[i]), &reach);
      overflow |= __builtin_add_overflow(last, reach, &last);
    }
    if (overflow || tensor.elements > std::numeric_limits<std::int64_t>::max() / 8)
      damaged("a tensor whose size does not fit in 64 bits");
    if (tensor.elements > 0 && last >= storage.elements)
      damaged(fmt::format("a tensor that reaches element {} of a storage of {}", last, storage.elements));
    if (tensor.elements > storage.elements)
      unsupported(
          fmt::format("a tensor of {} elements that repeats a storage of {}", tensor.elements, storage.elements));
  }

  std::vector<std::int64_t> extents(Id id) {
    const Pickle::Sequence* const sequence = pickle_.sequence(id);
    if (sequence == nullptr || !sequence->is_tuple) damaged("a tensor's shape is no tuple");
    if (sequence->items.size() > kMostDimensions)
      unsupported(fmt::format("a tensor of {} dimensions", sequence->items.size()));
    std::vector<std::int64_t> values;
    for (const Id item : sequence->items) {
      const std::int64_t* const value = pickle_.integer(item);
      if (value == nullptr || *value < 0) damaged("a tensor's extent or stride is no number of at least 0");
      values.push_back(*value);
    }
    return values;
  }

  // Hooks are functions; torch.save writes an empty dictionary in their place.
  void require_no_hooks(Id id) {
    const Pickle::Dictionary* const hooks = pickle_.dictionary(id);
    const bool none = std::holds_alternative<Pickle::None>(pickle_.at(id));
    if (!none && (hooks == nullptr || !hooks->items.empty())) unsupported("a tensor with hooks or special properties");
  }

  // Gives an object its attributes. State dicts have one: _metadata, the versions of their layers' formats, which the
  // tensors do not need.
  void build() {
    const Pickle::Dictionary* const attributes = pickle_.dictionary(pop());
    const Pickle::Dictionary* const owner = pickle_.dictionary(top());
    if (owner == nullptr || attributes == nullptr || attributes == owner)
      unsupported(fmt::format("attributes of {}", pickle_.kind(top())));
    if (!owner->is_object) return;
    references_ += attributes->items.size();
    count_reference();
    auto& items = std::get<std::unique_ptr<Pickle::Dictionary>>(pickle_.values_[top()])->items;
    items.insert(items.end(), attributes->items.begin(), attributes->items.end());
  }

  void new_object() {
    const Pickle::Sequence* const arguments = pickle_.sequence(pop());
    const auto* const type = std::get_if<Pickle::Global>(&pickle_.at(pop()));
    if (type == nullptr || type->callable != kClass || arguments == nullptr || !arguments->items.empty())
      damaged("an object of something that is no class");
    auto object = std::make_unique<Pickle::Dictionary>();
    object->is_object = true;
    push(std::move(object));
  }

  std::span<const std::byte> take(std::uint64_t count) {
    if (count > bytes_.size() - at_) damaged("it ends inside an instruction");
    const auto taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }

  std::uint64_t number(std::uint64_t width) {
    const auto field = take(width);
    std::uint64_t value = 0;
    for (std::size_t i = width; i-- > 0;)
      value = value << 8 | std::to_integer<std::uint64_t>(field[i]);
    return value;
  }

  std::string_view line() {
    const auto* const begin = reinterpret_cast<const char*>(bytes_.data()) + at_;
    const std::string_view rest(begin, std::min(bytes_.size() - at_, kLongestName + 1));
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) damaged("a name does not end");
    at_ += end + 1;
    return rest.substr(0, end);
  }

  template <typename T>
  void push(T value) {
    if (pickle_.values_.size() == kMostPickleValues) unsupported(fmt::format("more than {} values", kMostPickleValues));
    pickle_.values_.emplace_back(std::move(value));
    push_id(static_cast<Id>(pickle_.values_.size() - 1));
  }

  void push_id(Id id) {
    count_reference();
    stack_.push_back(id);
  }

  void count_reference() {
    if (++references_ > kMostPickleReferences)
      unsupported(fmt::format("more than {} references to values", kMostPickleReferences));
  }

  // Values above the last mark, which is taken away.
  std::size_t above_mark() {
    if (marks_.empty()) damaged("a mark is missing");
    const std::size_t count = stack_.size() - marks_.back();
    marks_.pop_back();
    return count;
  }

  // What may not be taken: it belongs to a mark below.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  Id top() {
    if (stack_.size() <= floor()) damaged("a value is missing");
    return stack_.back();
  }

  Id pop() {
    const Id id = top();
    stack_.pop_back();
    return id;
  }

  std::vector<Id> pop_many(std::size_t count) {
    if (stack_.size() - floor() < count) damaged("a value is missing");
    const auto begin = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<Id> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    return items;
  }

  std::string place_text() const { return fmt::format("{}: byte {}", where_, opcode_at_); }
  [[noreturn]] void damaged(std::string_view reason) const {
    throw Error(ErrorKind::kDamaged, fmt::format("is no pickle of PyTorch's: {}", reason), place_text());
  }
  [[noreturn]] void unsupported(std::string_view reason) const {
    throw Error(ErrorKind::kUnsupported, fmt::format("is not read: {}", reason), place_text(),
                "Save the state dict alone: torch.save(model.state_dict(), FILE).");
  }

  static constexpr Id kNobody = 0xFFFFFFFF;
  const std::span<const std::byte> bytes_;
  const std::string& where_;
  const PickleDialect dialect_;
  std::uint64_t at_ = 0;
  std::uint64_t opcode_at_ = 0;
  std::vector<Id> stack_;
  std::vector<std::size_t> marks_;
  std::vector<Id> memo_;
  std::size_t references_ = 0;
  Pickle pickle_;
};

const Pickle::Id* Pickle::member(const Dictionary& dictionary, std::string_view key) const {
  const Id* found = nullptr;
  for (const auto& item : dictionary.items) {
    const std::string* const name = text(item.first);
    if (name != nullptr && *name == key) found = &item.second;
  }
  return found;
}

std::string_view Pickle::kind(Id id) const {
  // In the order of Value's alternatives.
  constexpr std::string_view kKinds[] = {"None",   "a bool",       "an integer", "a float",  "a text",
                                         "a list", "a dictionary", "a storage",  "a tensor", "a name"};
  const Sequence* const items = sequence(id);
  return items != nullptr && items->is_tuple ? "a tuple" : kKinds[values_[id].index()];
}

Pickle parse_pickle(std::span<const std::byte> bytes, const std::string& where, PickleDialect dialect) {
  return PickleMachine(bytes, where, dialect).run();
}

}  // namespace muster::model
