// Files are opened and compared by the model layer; here the job's words are turned into its options and its report
// into lines of the log.
#include "muster/trainer/initial_state.h"

#include <cstring>
#include <map>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/model/initialize.h"
#include "muster/model/torch_optimizer.h"

namespace muster::trainer {

std::vector<std::string> initialize_model(const Job& job, model::Net& net) {
  const std::string& path = job.model.init;
  if (path.empty()) return {};
  const model::Weights weights = model::read_weights(path);
  const model::InitReport report = model::initialize(net, weights, job.model.init_skip, path);
  std::vector<std::string> lines;
  for (const std::string& line : report.lines())
    lines.push_back(lines.empty() ? fmt::format("{} from {}", line, path) : line);
  for (const std::string& note : weights.notes)
    lines.push_back("note: " + note);
  return lines;
}

std::vector<std::string> initialize_optimizer(const Job& job, SessionCore& session) {
  const std::string& path = job.optimizer.init;
  if (path.empty()) return {};
  const auto& tensors = session.layout().tensors();
  std::vector<model::StateOwner> owners;  // in the order of registration, the reverse of the layout's
  for (auto tensor = tensors.rbegin(); tensor != tensors.rend(); ++tensor)
    owners.push_back({tensor->name, tensor->shape});
  const model::OptimizerState loaded = model::read_torch_optimizer(path, owners, session.slot_names());
  std::map<std::string_view, const model::TensorView*> by_name;
  for (const model::TensorView& view : loaded.tensors)
    by_name[view.name] = &view;

  const strategies::CommittedState committed = session.committed();
  const std::vector<float> parameters(committed.parameters.begin(), committed.parameters.end());
  const std::vector<std::byte> buffers(committed.buffers.begin(), committed.buffers.end());
  std::array<std::vector<float>, 2> state;
  std::vector<std::uint64_t> updates(tensors.size());
  const auto copy = [&](const std::string& name, void* to, std::size_t bytes) {
    const std::span<const std::byte> from = by_name.at(name)->data;
    MUSTER_CHECK(from.size() == bytes, "state of the size that was checked");
    if (bytes > 0) std::memcpy(to, from.data(), bytes);
  };
  for (std::size_t slot = 0; slot < session.slot_names().size(); ++slot) {
    state[slot].resize(session.layout().size());
    for (const model::TensorSlot& tensor : tensors)
      copy(session.slot_names()[slot] + "/" + tensor.name, state[slot].data() + tensor.offset,
           tensor.count * sizeof(float));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i)
    copy("updates/" + tensors[i].name, &updates[i], sizeof updates[i]);
  strategies::CommittedState next{parameters, {}, updates, buffers, committed.cursor};
  for (std::size_t slot = 0; slot < session.slot_names().size(); ++slot)
    next.state[slot] = state[slot];
  session.restore(next);

  std::vector<std::string> lines{fmt::format("optimizer's state of {} parameters from {}", tensors.size(), path)};
  for (const std::string& note : loaded.notes)
    lines.push_back("note: " + note);
  return lines;
}

}  // namespace muster::trainer
