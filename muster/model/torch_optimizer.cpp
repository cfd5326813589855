// Numbers of parameters become names and back, by the order of torch's groups. What torch keeps as tensors and we as
// counts (the step of Adam) is translated one by one.
#include "muster/model/torch_optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::model {
namespace {

constexpr std::string_view kUpdates = "updates/";
constexpr std::string_view kNames = "param_names";

void write_option(PthWriter& writer, const TorchOption& option) {
  if (const bool* const flag = std::get_if<bool>(&option)) return writer.boolean(*flag);
  if (const double* const value = std::get_if<double>(&option)) return writer.real(*value);
  const auto* const pair = std::get_if<std::pair<double, double>>(&option);
  if (pair == nullptr) return writer.none();
  writer.begin_tuple();
  writer.real(pair->first);
  writer.real(pair->second);
  writer.end_tuple();
}

void write_groups(PthWriter& writer, std::span<const TorchGroup> groups) {
  writer.begin_list();
  std::int64_t number = 0;
  for (const TorchGroup& group : groups) {
    writer.begin_dict();
    for (const auto& option : group.options) {
      writer.text(option.first);
      write_option(writer, option.second);
    }
    writer.text("params");
    writer.begin_list();
    for (std::size_t i = 0; i < group.parameters.size(); ++i)
      writer.integer(number++);
    writer.end_list();
    writer.text(kNames);
    writer.begin_list();
    for (const std::string& name : group.parameters)
      writer.text(name);
    writer.end_list();
    writer.end_dict();
  }
  writer.end_list();
}

// Reads an optimizer's state dict step by step; every refusal names the file.
class StateReader {
 public:
  StateReader(std::shared_ptr<PthFile> file, std::span<const StateOwner> owners, std::span<const std::string> slots)
      : file_(std::move(file)), pickle_(file_->values()), owners_(owners), slots_(slots) {}

  OptimizerState read() {
    const Pickle::Dictionary* const root = pickle_.dictionary(pickle_.root());
    const Pickle::Id* state = root == nullptr ? nullptr : pickle_.member(*root, "state");
    const Pickle::Id* groups = root == nullptr ? nullptr : pickle_.member(*root, "param_groups");
    if (state == nullptr || groups == nullptr || pickle_.dictionary(*state) == nullptr ||
        pickle_.sequence(*groups) == nullptr) {
      throw Error(ErrorKind::kInvalidInput, "is no state of an optimizer", file_->where(),
                  "Save it with torch.save(optimizer.state_dict(), FILE).");
    }
    read_groups(*pickle_.sequence(*groups));
    std::map<std::int64_t, Pickle::Id> states;
    for (const auto& [key, value] : pickle_.dictionary(*state)->items) {
      const std::int64_t* const number = pickle_.integer(key);
      if (number == nullptr || pickle_.dictionary(value) == nullptr) refuse("state that belongs to no parameter");
      states[*number] = value;
    }
    std::size_t without = 0;
    for (const StateOwner& owner : owners_) {
      const auto found = states.find(numbers_.at(owner.name));
      if (found == states.end()) ++without;
      read_parameter(owner, found == states.end() ? nullptr : pickle_.dictionary(found->second));
    }
    if (without > 0)
      result_.notes.push_back(fmt::format("{} of {} parameters have no state yet", without, owners_.size()));
    result_.memory.push_back(file_);
    return std::move(result_);
  }

 private:
  // Which number each parameter has.
  void read_groups(const Pickle::Sequence& groups) {
    std::vector<std::int64_t> numbers;
    std::vector<std::string> names;
    for (const Pickle::Id id : groups.items) {
      const Pickle::Dictionary* const group = pickle_.dictionary(id);
      const Pickle::Id* const members = group == nullptr ? nullptr : pickle_.member(*group, "params");
      const Pickle::Sequence* const list = members == nullptr ? nullptr : pickle_.sequence(*members);
      if (list == nullptr) refuse("a group without parameters");
      for (const Pickle::Id item : list->items) {
        const std::int64_t* const number = pickle_.integer(item);
        if (number == nullptr) refuse("a parameter without a number");
        numbers.push_back(*number);
      }
      const Pickle::Id* const named = pickle_.member(*group, kNames);
      const Pickle::Sequence* const texts = named == nullptr ? nullptr : pickle_.sequence(*named);
      for (std::size_t i = 0; texts != nullptr && i < texts->items.size(); ++i) {
        if (const std::string* const name = pickle_.text(texts->items[i])) names.push_back(*name);
      }
      tell_rates(*group);
    }
    if (numbers.size() != owners_.size()) {
      throw Error(ErrorKind::kMismatch,
                  fmt::format("has {} parameters and the model {}", numbers.size(), owners_.size()), file_->where(),
                  "Save the state of an optimizer over model.parameters(), all of them.");
    }
    if (names.size() != numbers.size() && groups.items.size() > 1) {
      throw Error(ErrorKind::kUnsupported, "has several groups that do not name their parameters", file_->where(),
                  "Save the state of an optimizer over one group, or over model.named_parameters().");
    }
    const bool named = names.size() == numbers.size();
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers_[named ? names[i] : owners_[i].name] = numbers[i];
    for (const StateOwner& owner : owners_) {
      if (!numbers_.contains(owner.name))
        throw Error(ErrorKind::kMismatch, fmt::format("has no parameter {}", owner.name), file_->where());
    }
  }

  void tell_rates(const Pickle::Dictionary& group) {
    const Pickle::Id* const lr = pickle_.member(group, "lr");
    if (lr == nullptr) return;
    if (const double* const value = std::get_if<double>(&pickle_.at(*lr)))
      result_.notes.push_back(fmt::format("its rate was {}; the job's own counts", *value));
  }

  void read_parameter(const StateOwner& owner, const Pickle::Dictionary* state) {
    std::int64_t updates = 0;
    if (state != nullptr) {
      refuse_foreign(owner, *state);
      updates = updates_of(owner, *state);
    }
    bool any = false;
    for (const std::string& slot : slots_) {
      const Pickle::Id* const id = state == nullptr ? nullptr : pickle_.member(*state, slot);
      const bool there = id != nullptr && pickle_.tensor(*id) != nullptr;
      if (there) {
        TensorView view = file_->tensor(*id, slot + "/" + owner.name);
        if (view.shape != owner.shape || view.dtype != Dtype::kF32) {
          throw Error(ErrorKind::kMismatch,
                      fmt::format("{} of {} is {} of [{}], expected F32 of [{}]", slot, owner.name,
                                  to_string(view.dtype), fmt::join(view.shape, ", "), fmt::join(owner.shape, ", ")),
                      file_->where());
        }
        result_.tensors.push_back(std::move(view));
        any = true;
      } else {
        result_.tensors.push_back(zeros(slot + "/" + owner.name, owner.shape));
      }
    }
    if (any && updates == 0) updates = 1;
    auto count = std::make_shared<std::int64_t>(updates);
    result_.tensors.push_back(
        {std::string(kUpdates) + owner.name, Dtype::kI64, {}, std::as_bytes(std::span(count.get(), 1))});
    result_.memory.push_back(std::move(count));
  }

  // Tensors that this optimizer has no place for belong to another one.
  void refuse_foreign(const StateOwner& owner, const Pickle::Dictionary& state) {
    for (const auto& [key, value] : state.items) {
      const std::string* const name = pickle_.text(key);
      if (name == nullptr || *name == "step" || pickle_.tensor(value) == nullptr) continue;
      if (std::find(slots_.begin(), slots_.end(), *name) == slots_.end()) {
        throw Error(ErrorKind::kMismatch,
                    fmt::format("has {} of {}, which the job's optimizer does not keep", excerpt(*name), owner.name),
                    file_->where(), "Give the job the optimizer that the state is of.");
      }
    }
  }

  // torch counts in a float tensor; before 1.12 it was an integer.
  std::int64_t updates_of(const StateOwner& owner, const Pickle::Dictionary& state) {
    const Pickle::Id* const id = pickle_.member(state, "step");
    if (id == nullptr) return 0;
    if (const std::int64_t* const count = pickle_.integer(*id); count != nullptr && *count >= 0) return *count;
    if (pickle_.tensor(*id) != nullptr) {
      const TensorView view = file_->tensor(*id, "step");
      float count = -1;
      if (view.dtype == Dtype::kF32 && view.data.size() == sizeof count)
        std::memcpy(&count, view.data.data(), sizeof count);
      constexpr float kMost = 1e15F;
      if (count >= 0 && count <= kMost && count == std::floor(count)) return static_cast<std::int64_t>(count);
    }
    refuse(fmt::format("a step of {} that is no count", owner.name));
  }

  TensorView zeros(std::string name, const std::vector<std::int64_t>& shape) {
    std::uint64_t bytes = sizeof(float);
    for (const std::int64_t extent : shape)
      bytes *= static_cast<std::uint64_t>(extent);
    auto memory = std::make_shared<std::vector<std::byte>>(bytes);
    const std::span<const std::byte> span = *memory;
    result_.memory.push_back(std::move(memory));
    return {std::move(name), Dtype::kF32, shape, span};
  }

  [[noreturn]] void refuse(const std::string& reason) const {
    throw Error(ErrorKind::kDamaged, fmt::format("is no state of an optimizer: {}", reason), file_->where());
  }

  std::shared_ptr<PthFile> file_;
  const Pickle& pickle_;
  std::span<const StateOwner> owners_;
  std::span<const std::string> slots_;
  std::map<std::string, std::int64_t> numbers_;
  OptimizerState result_;
};

}  // namespace

void write_torch_optimizer(const std::filesystem::path& path, std::span<const TorchGroup> groups,
                           std::span<const TensorView> state, const std::string& where) {
  std::map<std::string_view, std::vector<const TensorView*>> by_parameter;  // without the counts
  std::map<std::string_view, std::int64_t> updates;
  for (const TensorView& tensor : state) {
    const std::size_t slash = tensor.name.find('/');
    if (slash == std::string::npos) continue;
    const std::string_view parameter = std::string_view(tensor.name).substr(slash + 1);
    if (!tensor.name.starts_with(kUpdates)) {
      by_parameter[parameter].push_back(&tensor);
    } else if (tensor.data.size() == sizeof(std::int64_t)) {
      std::memcpy(&updates[parameter], tensor.data.data(), sizeof(std::int64_t));
    }
  }
  std::vector<float> steps;  // referred to until it is saved: never grown
  steps.reserve(updates.size());
  PthWriter writer;
  writer.begin_dict();
  writer.text("state");
  writer.begin_dict();
  std::int64_t number = 0;
  for (const TorchGroup& group : groups) {
    for (const std::string& parameter : group.parameters) {
      const std::int64_t at = number++;
      const auto count = updates.find(parameter);
      if (count == updates.end())
        throw Error(ErrorKind::kDamaged, fmt::format("has no state of {}", excerpt(parameter)), where);
      if (count->second == 0 || by_parameter[parameter].empty()) continue;
      writer.integer(at);
      writer.begin_dict();
      for (const TensorView* const tensor : by_parameter[parameter]) {
        const std::string slot = tensor->name.substr(0, tensor->name.find('/'));
        if (slot == "exp_avg") {
          steps.push_back(static_cast<float>(count->second));
          writer.text("step");
          writer.tensor({"step", Dtype::kF32, {}, std::as_bytes(std::span(&steps.back(), 1))});
        }
        writer.text(slot);
        writer.tensor(*tensor);
      }
      writer.end_dict();
    }
  }
  writer.end_dict();
  writer.text("param_groups");
  write_groups(writer, groups);
  writer.end_dict();
  writer.save(path);
}

OptimizerState read_torch_optimizer(const std::filesystem::path& path, std::span<const StateOwner> parameters,
                                    std::span<const std::string> slots) {
  return StateReader(std::make_shared<PthFile>(path), parameters, slots).read();
}

}  // namespace muster::model
