// The plan as text and back: it goes through the store, so it is checked as input from outside. How the layout is cut
// into chunks follows from the plan alone, in every process.
#include "muster/strategies/parameter_server/server_plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/compute/optimizer_json.h"
#include "muster/control/server_map.h"
#include "muster/strategies/parameter_server/transport.h"

namespace muster::strategies {
namespace {

constexpr const char* kWhere = "the plan of the parameter server";
constexpr std::size_t kRowsBody = 256 * 1024;  // of calls with rows, at least
constexpr std::size_t kPiece = 48 * 1024;      // of the text, in one value of the store

Json table_json(const ServerTable& table) {
  const TableOptions& o = table.options;
  return {{"name", o.name},
          {"partitions", table.partitions},
          {"width", o.width},
          {"optimizer", static_cast<std::uint32_t>(o.optimizer)},
          {"eps", o.eps},
          {"beta1", o.beta1},
          {"beta2", o.beta2},
          {"initial_accumulator", o.initial_accumulator},
          {"seed", o.seed},
          {"init_scale", o.init_scale},
          {"admit_after", o.admit_after},
          {"evict_after", o.evict_after}};
}

ServerTable table_from(const Json& json) {
  ServerTable table;
  TableOptions& o = table.options;
  o.name = json.at("name");
  table.partitions = json.at("partitions");
  o.width = json.at("width");
  const std::uint32_t optimizer = json.at("optimizer");
  if (optimizer > static_cast<std::uint32_t>(SparseOptimizer::kAdam) || table.partitions == 0)
    throw Error(ErrorKind::kDamaged, fmt::format("table \"{}\" is none", o.name), kWhere);
  o.optimizer = static_cast<SparseOptimizer>(optimizer);
  o.eps = json.at("eps");
  o.beta1 = json.at("beta1");
  o.beta2 = json.at("beta2");
  o.initial_accumulator = json.at("initial_accumulator");
  o.seed = json.at("seed");
  o.init_scale = json.at("init_scale");
  o.admit_after = json.at("admit_after");
  o.evict_after = json.at("evict_after");
  return table;
}

}  // namespace

std::vector<ServerChunk> ServerPlan::chunks() const {
  const std::vector<model::Block>& blocks = layout.blocks();
  const bool whole_tensors = compute::make_optimizer(optimizer)->needs_norms();
  std::vector<ServerChunk> chunks;
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    const model::Block& block = blocks[index];
    const bool goes_on = whole_tensors && index > 0 && blocks[index - 1].tensor == block.tensor;
    const bool fits = !chunks.empty() && block.end - chunks.back().begin <= chunk_floats &&
                      !(separate_tensors && blocks[index - 1].tensor != block.tensor);
    if (!goes_on && !fits) chunks.push_back({{index, index}, block.begin, block.begin, block.tensor, block.tensor});
    ServerChunk& chunk = chunks.back();
    chunk.blocks.last = index + 1;
    chunk.end = block.end;
    chunk.last_tensor = block.tensor + 1;
  }
  return chunks;
}

std::uint32_t ServerPlan::first_partition(std::size_t table) const {
  auto chunk = static_cast<std::uint32_t>(chunks().size()) + 1;
  for (std::size_t before = 0; before < table; ++before)
    chunk += tables[before].partitions;
  return chunk;
}

std::uint32_t ServerPlan::chunk_count() const {
  return first_partition(tables.size());
}

const TableOptions* ServerPlan::table_of(std::uint32_t chunk) const {
  std::uint32_t first = first_partition(0);
  for (const ServerTable& table : tables) {
    if (chunk >= first && chunk - first < table.partitions) return &table.options;
    first += table.partitions;
  }
  return nullptr;
}

Consistency ServerPlan::consistency_at(std::uint64_t step) const {
  Consistency found = phases.front().consistency;
  for (const Phase& phase : phases) {
    if (phase.step <= step) found = phase.consistency;
  }
  return found;
}

TransportLimits ServerPlan::limits() const {
  std::size_t floats = 0;
  for (const ServerChunk& chunk : chunks())
    floats = std::max(floats, chunk.floats());
  TransportLimits limits;
  // Longer states are sent in pieces.
  limits.most_body = std::max(floats * sizeof(float) + layout.tensors().size(), buffers.bytes) + 4096;
  for (const ServerTable& table : tables)
    limits.most_body =
        std::max({limits.most_body, kRowsBody, sizeof(std::int64_t) + table.options.width * sizeof(float)});
  limits.clients = static_cast<int>(workers + servers);
  return limits;
}

std::string ServerPlan::to_text() const {
  Json tensors = Json::array();
  // In the order of registration, which is how a layout is made.
  for (auto tensor = layout.tensors().rbegin(); tensor != layout.tensors().rend(); ++tensor)
    tensors.push_back({tensor->name, tensor->shape, tensor->trainable});
  Json slots = Json::array();
  for (const compute::BufferSlot& slot : buffers.slots)
    slots.push_back({slot.name, static_cast<int>(slot.dtype), slot.shape, slot.bytes});
  Json tensor_rules = Json::array();
  for (const compute::TensorRule& rule : rules)
    tensor_rules.push_back({rule.weight_decay, rule.adapt, rule.trainable, rule.lr_factor});
  Json phase_list = Json::array();
  for (const Phase& phase : phases)
    phase_list.push_back({phase.step, to_string(phase.consistency)});
  Json table_list = Json::array();
  for (const ServerTable& table : tables)
    table_list.push_back(table_json(table));
  const Json json{{"tensors", tensors},
                  {"separate_tensors", separate_tensors},
                  {"tables", table_list},
                  {"buffers", slots},
                  {"rules", tensor_rules},
                  {"optimizer", compute::to_json(optimizer)},
                  {"chunk_floats", chunk_floats},
                  {"lanes", lanes},
                  {"phases", phase_list},
                  {"bound", bound},
                  {"backups", backups},
                  {"staleness_rate", staleness_rate},
                  {"workers", workers},
                  {"servers", servers},
                  {"copies", copies},
                  {"grpc", grpc},
                  {"hosts", hosts},
                  {"snapshot_seconds", snapshot_seconds},
                  {"folder", folder},
                  {"event_log", event_log}};
  return json.dump();
}

ServerPlan ServerPlan::from_text(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    ServerPlan plan;
    std::vector<model::TensorInfo> tensors;
    for (const Json& tensor : json.at("tensors"))
      tensors.push_back({tensor.at(0), tensor.at(1), tensor.at(2)});
    plan.layout = model::FlatLayout(tensors);
    for (const Json& slot : json.at("buffers"))
      plan.buffers.add(slot.at(0), static_cast<model::Dtype>(slot.at(1).get<int>()), slot.at(2), slot.at(3));
    for (const Json& rule : json.at("rules"))
      plan.rules.push_back({rule.at(0), rule.at(1), rule.at(2), rule.at(3)});
    plan.phases.clear();
    for (const Json& phase : json.at("phases"))
      plan.phases.push_back({phase.at(0), parse_consistency(phase.at(1).get<std::string>())});
    plan.optimizer = compute::optimizer_from_json(json.at("optimizer"), kWhere);
    plan.chunk_floats = json.at("chunk_floats");
    plan.separate_tensors = json.at("separate_tensors");
    for (const Json& table : json.at("tables"))
      plan.tables.push_back(table_from(table));
    plan.lanes = json.at("lanes");
    plan.bound = json.at("bound");
    plan.backups = json.at("backups");
    plan.staleness_rate = json.at("staleness_rate");
    plan.workers = json.at("workers");
    plan.servers = json.at("servers");
    plan.copies = json.at("copies");
    plan.grpc = json.at("grpc");
    plan.hosts = json.at("hosts");
    plan.snapshot_seconds = json.at("snapshot_seconds");
    plan.folder = json.at("folder");
    plan.event_log = json.at("event_log");
    if (plan.phases.empty() || plan.rules.size() != plan.layout.tensors().size())
      throw Error(ErrorKind::kDamaged, "phases or rules are missing", kWhere);
    return plan;
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kDamaged, error.what(), kWhere);
  }
}

bool any_synchronous(const std::vector<Phase>& phases) {
  return std::any_of(phases.begin(), phases.end(),
                     [](const Phase& phase) { return is_synchronous(phase.consistency); });
}

void put_plan(comm::Store& store, const ServerPlan& plan) {
  const std::string text = plan.to_text();
  std::size_t pieces = 0;
  for (std::size_t at = 0; at < text.size(); at += kPiece)
    store.set(fmt::format("plan/{}", pieces++), text.substr(at, kPiece));
  store.set(control::kChunksKey, std::to_string(plan.chunk_count()));
  store.set(control::kCopiesKey, std::to_string(plan.copies));
  store.set("plan/count", std::to_string(pieces));
}

ServerPlan get_plan(comm::Store& store, const Deadline& deadline) {
  const std::string count = store.get("plan/count", deadline);
  std::string text;
  for (int piece = 0; piece < std::atoi(count.c_str()); ++piece)
    text += store.get(fmt::format("plan/{}", piece), deadline);
  return ServerPlan::from_text(text);
}

void put_first_map(comm::Store& store, const ServerPlan& plan, const Deadline& deadline) {
  std::vector<control::ServerSeat> seats;
  for (std::uint32_t server = 0; server < plan.servers; ++server)
    seats.push_back({store.get(control::server_key(server, 0), deadline), 0});
  const control::ServerMap map = control::first_map(plan.chunk_count(), plan.copies, std::move(seats));
  store.set(control::map_key(map.generation), map.to_text());
}

}  // namespace muster::strategies
