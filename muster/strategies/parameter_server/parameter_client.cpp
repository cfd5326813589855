// Cuts a call of the program into pieces by server, keeps all of them under way, and puts rows and answers together
// again. If starting one piece fails none counts: what is under way is abandoned before memory of the program goes.
#include "muster/strategies/parameter_server/parameter_client.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/draft_name.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/json.h"
#include "muster/strategies/parameter_server/book.h"
#include "muster/strategies/parameter_server/chunk_state.h"
#include "muster/strategies/parameter_server/client.h"
#include "muster/strategies/parameter_server/patience.h"
#include "muster/strategies/parameter_server/row_merger.h"
#include "muster/strategies/parameter_server/shard.h"
#include "muster/strategies/parameter_server/snapshots.h"
#include "muster/strategies/parameter_server/sparse_table.h"
#include "muster/strategies/parameter_server/table_shard.h"
#include "muster/strategies/parameter_server/transport.h"

namespace muster::strategies {
namespace {

constexpr const char* kWhere = "parameter client";
constexpr std::size_t kReportBytes = 4096;
// Calls with rows, through shared memory: some of them fit into the second cache of a core with the rows themselves.
// Measured: 1.4 times as fast as four times as much, which is better for gRPC.
constexpr std::size_t kCachedBody = 64 * 1024;
constexpr std::size_t kFewRepeats = 8;  // one key in so many

constexpr const char* kPlanFile = "plan.json";
constexpr std::uint64_t kMostPlanBytes = std::uint64_t{256} << 20;

// What the bytes of a saved state mean depends on this much of the plan: which parameters and tables there are, in
// which order, and what the optimizer keeps of them. How many serve them, and in which manner, may change.
Json form_of(const ServerPlan& plan) {
  Json form = Json::object();
  const Json whole = Json::parse(plan.to_text());
  for (const char* key : {"tensors", "tables", "buffers", "rules", "optimizer", "chunk_floats"})
    form[key] = whole.at(key);
  return form;
}

// Throws kDamaged, kMismatch that names what differs.
void require_form_of(const ServerPlan& plan, const std::filesystem::path& path) {
  std::error_code none;
  if (!std::filesystem::exists(path, none))
    throw Error(ErrorKind::kDamaged, "is missing", path.string(), "Take another checkpoint.");
  const Json saved = Json::parse(read_text(path, kMostPlanBytes), nullptr, false);
  if (!saved.is_object())
    throw Error(ErrorKind::kDamaged, "is no JSON object", path.string(), "Take another checkpoint.");
  const Json form = form_of(plan);
  for (const auto& [key, value] : form.items()) {
    if (!saved.contains(key) || saved[key] != value)
      throw Error(ErrorKind::kMismatch, fmt::format("was saved with other {} than this job's plan has", key),
                  path.string(), "Use the plan of its job.");
  }
}

// The sum stands where floats need not be aligned.
void add_row(const float* row, std::byte* sum, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) {
    float value = 0;
    std::memcpy(&value, sum + i * sizeof(float), sizeof(float));
    value += row[i];
    std::memcpy(sum + i * sizeof(float), &value, sizeof(float));
  }
}

}  // namespace

class ParameterClient::Core {
 public:
  // As ParameterClient has them.
  Core(ClientOptions options, std::chrono::nanoseconds timeout);
  const ServerPlan& plan() const { return plan_; }
  void fill(const Initial& initial);
  void save(const std::filesystem::path& folder);
  void load(const std::filesystem::path& folder);
  Ticket push(const std::string& name, std::span<const float> gradient, double rate);
  Ticket pull(const std::string& name, std::span<float> to);
  Ticket push_pull(const std::string& name, std::span<const float> gradient, double rate, std::span<float> to);
  Ticket push_rows(const std::string& table, std::span<const std::int64_t> keys, std::span<const float> gradients,
                   double rate, std::uint64_t step);
  Ticket pull_rows(const std::string& table, std::span<const std::int64_t> keys, std::span<float> rows);
  void wait(Ticket ticket);

 private:
  struct Piece {
    Client::Ticket call = 0;
    std::uint32_t chunk = 0;
    std::optional<std::uint64_t> update{};  // its id
  };
  // A call of the program's. Memory is used again for later ones.
  struct Batch {
    std::vector<Piece> pieces;
    std::vector<std::byte> bodies;      // keys, or keys and gradients, piece by piece
    std::vector<float> replies;         // rows, sorted by partition
    std::vector<std::uint32_t> places;  // by position in the program's batch: where in `replies` its row is
    std::span<float> to;                // where rows go then; empty: they are where they belong
    std::size_t width = 0;
  };
  // The client's updates of a chunk.
  struct Updates {
    std::uint64_t next = 0;
    std::set<std::uint64_t> open{};  // not acknowledged
  };
  struct Table {
    const ServerTable* plan;
    std::uint32_t first;  // chunk
  };
  struct Tensor {
    const model::TensorSlot* slot;
    std::vector<std::uint32_t> chunks;
  };

  // A position of the program's batch whose key came before.
  struct Repeat {
    std::uint32_t place;  // of the key's row
    std::uint32_t position;
  };

  Deadline deadline() const { return Deadline::after(timeout_); }
  const Tensor& tensor(const std::string& name, std::size_t floats) const;
  const Table& table(const std::string& name, std::size_t keys, std::size_t floats) const;
  std::unique_ptr<Batch> new_batch();
  class Beginning;
  void start_piece(Batch& batch, std::uint32_t chunk, const Verb& verb, std::span<const std::byte> body,
                   std::span<std::byte> reply);
  template <typename Push>
  void start_update(Batch& batch, std::uint32_t chunk, Push push, std::span<const std::byte> body);
  void abandon(const Batch& batch);
  Updates& updates_of(std::uint32_t chunk);
  std::vector<std::uint32_t> sort_keys(const Table& table);
  void find_repeats();

  // Constant after construction.
  const std::chrono::nanoseconds timeout_;
  const ServerPlan plan_;
  const std::vector<ServerChunk> chunks_;
  const std::size_t most_body_;
  const std::size_t rows_body_;  // of calls with rows; longer only if one row is
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, Table> tables_;
  // What moves.
  Client client_;
  std::unordered_map<std::uint32_t, Updates> updates_;
  std::map<Ticket, std::unique_ptr<Batch>> under_way_;
  std::vector<std::unique_ptr<Batch>> spare_;
  Ticket next_ = 1;
  RowMerger merger_;
  std::vector<std::uint32_t> order_;   // scratch: the merged keys, sorted by partition
  std::vector<std::uint32_t> places_;  // scratch: of a merged key among them
  std::vector<Repeat> repeats_;        // scratch
};

ParameterClient::Core::Core(ClientOptions options, std::chrono::nanoseconds timeout)
    : timeout_(timeout),
      plan_(Patience(Deadline::after(timeout), options.watched).until_over([&](const Deadline& until) {
        return get_plan(*options.store, until);
      })),
      chunks_(plan_.chunks()),
      most_body_(plan_.limits().most_body),
      rows_body_(options.connect ? most_body_ : std::min(most_body_, kCachedBody)),
      client_(std::move(options)) {
  if (!plan_.separate_tensors)
    throw Error(ErrorKind::kInvalidInput, "chunks of this job have parts of several tensors", kWhere,
                "Set separate_tensors in the plan.");
  for (const model::TensorSlot& slot : plan_.layout.tensors())
    tensors_[slot.name] = {&slot, {}};
  for (std::uint32_t chunk = 0; chunk < chunks_.size(); ++chunk)
    tensors_[plan_.layout.tensors()[chunks_[chunk].first_tensor].name].chunks.push_back(chunk);
  for (std::size_t index = 0; index < plan_.tables.size(); ++index)
    tables_[plan_.tables[index].options.name] = {&plan_.tables[index], plan_.first_partition(index)};
  client_.find_servers(deadline());
}

void ParameterClient::Core::fill(const Initial& initial) {
  const auto slots = static_cast<std::size_t>(compute::make_optimizer(plan_.optimizer)->slots());
  std::vector<float> parameters(plan_.layout.size());
  std::vector<float> zeros(slots > 0 ? plan_.layout.size() : 0);
  std::vector<std::uint64_t> updates(plan_.layout.tensors().size());
  for (const model::TensorSlot& slot : plan_.layout.tensors()) {
    if (initial) initial(slot.name, std::span(parameters).subspan(slot.offset, slot.count));
  }
  const FlatState state{parameters, {zeros, zeros}, updates};
  for (std::uint32_t chunk = 0; chunk < chunks_.size(); ++chunk)
    client_.write_chunk(chunk, Shard::first_state(pack_chunk(chunks_[chunk], ChunkHistory(), state, slots)), most_body_,
                        deadline());
  const std::vector<std::byte> buffers(plan_.buffers.bytes);
  client_.write_chunk(static_cast<std::uint32_t>(chunks_.size()), Book::first_state(plan_, 0, buffers), most_body_,
                      deadline());
  for (std::size_t index = 0; index < plan_.tables.size(); ++index) {
    for (std::uint32_t partition = 0; partition < plan_.tables[index].partitions; ++partition)
      client_.write_chunk(plan_.first_partition(index) + partition,
                          TableShard::first_state(plan_.tables[index].options), most_body_, deadline());
  }
  updates_.clear();
}

void ParameterClient::Core::save(const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder))
    throw Error(ErrorKind::kInvalidInput, "there is something already", folder.string(), "Name a new folder.");
  const std::filesystem::path named = folder.has_filename() ? folder : folder.parent_path();
  const std::filesystem::path draft = named.parent_path() / draft_name(named.filename().string());
  try {
    for (std::uint32_t chunk = 0; chunk < plan_.chunk_count(); ++chunk)
      write_snapshot(draft, 0, {chunk, client_.read_chunk(chunk, most_body_, deadline())});
    write_atomically(draft / kPlanFile, form_of(plan_).dump());
    std::error_code failure;
    std::filesystem::rename(draft, folder, failure);
    if (failure) throw Error(ErrorKind::kIo, fmt::format("cannot be named: {}", failure.message()), folder.string());
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove_all(draft, ignored);
    throw;
  }
  sync_folder(folder.has_parent_path() ? folder.parent_path() : ".");
}

void ParameterClient::Core::load(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder))
    throw Error(ErrorKind::kNotFound, "there is no such checkpoint", folder.string());
  require_form_of(plan_, folder / kPlanFile);
  std::map<std::uint32_t, Snapshot> found;
  for (Snapshot& snapshot : read_snapshots(folder, 0))
    found.emplace(snapshot.chunk, std::move(snapshot));
  for (std::uint32_t chunk = 0; chunk < plan_.chunk_count(); ++chunk) {
    if (!found.contains(chunk))
      throw Error(ErrorKind::kDamaged, fmt::format("chunk {} of {} is missing or damaged", chunk, plan_.chunk_count()),
                  folder.string(), "Take another checkpoint.");
  }
  if (found.size() > plan_.chunk_count())
    throw Error(ErrorKind::kMismatch, "it has more chunks than this job", folder.string(), "Use the plan of its job.");
  for (const auto& [chunk, snapshot] : found)
    client_.write_chunk(chunk, snapshot.state, most_body_, deadline());
  updates_.clear();
}

const ParameterClient::Core::Tensor& ParameterClient::Core::tensor(const std::string& name, std::size_t floats) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw Error(ErrorKind::kInvalidInput, fmt::format("there are no parameters \"{}\"", name), kWhere);
  if (floats != found->second.slot->count)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("{} floats for \"{}\", which has {}", floats, name, found->second.slot->count), kWhere);
  return found->second;
}

const ParameterClient::Core::Table& ParameterClient::Core::table(const std::string& name, std::size_t keys,
                                                                 std::size_t floats) const {
  const auto found = tables_.find(name);
  if (found == tables_.end())
    throw Error(ErrorKind::kInvalidInput, fmt::format("there is no table \"{}\"", name), kWhere);
  const std::uint32_t width = found->second.plan->options.width;
  if (floats != keys * width)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("{} floats for {} keys of \"{}\", whose rows have {}", floats, keys, name, width), kWhere);
  return found->second;
}

std::unique_ptr<ParameterClient::Core::Batch> ParameterClient::Core::new_batch() {
  if (spare_.empty()) return std::make_unique<Batch>();
  std::unique_ptr<Batch> batch = std::move(spare_.back());
  spare_.pop_back();
  batch->pieces.clear();
  batch->to = {};
  return batch;
}

// A call of the program's of which not all pieces are under way. If that fails, none is.
class ParameterClient::Core::Beginning {
 public:
  explicit Beginning(Core& client) : client_(client), batch_(client.new_batch()) {}
  Beginning(const Beginning&) = delete;
  Beginning& operator=(const Beginning&) = delete;
  ~Beginning() {
    if (batch_) client_.abandon(*batch_);
  }

  Batch& operator*() { return *batch_; }
  Batch* operator->() { return batch_.get(); }
  Ticket keep() {
    client_.under_way_.emplace(client_.next_, std::move(batch_));
    return client_.next_++;
  }

 private:
  Core& client_;
  std::unique_ptr<Batch> batch_;
};

// Of a call that failed. Answers must not be written to memory of the batch or of the program, which go now; and an
// update that nobody waits for any more must not be told of as open for ever, or servers would remember all that came
// after it.
void ParameterClient::Core::abandon(const Batch& batch) {
  for (const Piece& piece : batch.pieces) {
    client_.forget(piece.call);
    if (piece.update) updates_.at(piece.chunk).open.erase(*piece.update);
  }
}

// Another process may have had this client's number before: the servers know how far it came.
ParameterClient::Core::Updates& ParameterClient::Core::updates_of(std::uint32_t chunk) {
  if (const auto found = updates_.find(chunk); found != updates_.end()) return found->second;
  std::vector<std::byte> text(kReportBytes);
  const Reply report = client_.call(chunk, ReportRequest{}, {}, text, deadline());
  return updates_.emplace(chunk, Updates{details_of<ReportReply>(report).next_update}).first->second;
}

void ParameterClient::Core::start_piece(Batch& batch, std::uint32_t chunk, const Verb& verb,
                                        std::span<const std::byte> body, std::span<std::byte> reply) {
  batch.pieces.push_back({.chunk = chunk});
  batch.pieces.back().call = client_.start(chunk, verb, body, reply, deadline());
}

// A PushUpdateRequest or a PushRowsRequest, which gets its number here.
template <typename Push>
void ParameterClient::Core::start_update(Batch& batch, std::uint32_t chunk, Push push,
                                         std::span<const std::byte> body) {
  Updates& updates = updates_of(chunk);
  push.update = updates.next++;
  updates.open.insert(push.update);
  push.over_below = *updates.open.begin();
  batch.pieces.push_back({.chunk = chunk, .update = push.update});
  batch.pieces.back().call = client_.start(chunk, push, body, {}, deadline());
}

ParameterClient::Ticket ParameterClient::Core::push(const std::string& name, std::span<const float> gradient,
                                                    double rate) {
  const Tensor& place = tensor(name, gradient.size());
  Beginning batch(*this);
  for (const std::uint32_t chunk : place.chunks)
    start_update(*batch, chunk, PushUpdateRequest{.rate = rate},
                 std::as_bytes(gradient.subspan(chunks_[chunk].begin - place.slot->offset, chunks_[chunk].floats())));
  return batch.keep();
}

ParameterClient::Ticket ParameterClient::Core::pull(const std::string& name, std::span<float> to) {
  const Tensor& place = tensor(name, to.size());
  Beginning batch(*this);
  for (const std::uint32_t chunk : place.chunks)
    start_piece(*batch, chunk, PullRequest{}, {},
                std::as_writable_bytes(to.subspan(chunks_[chunk].begin - place.slot->offset, chunks_[chunk].floats())));
  return batch.keep();
}

ParameterClient::Ticket ParameterClient::Core::push_pull(const std::string& name, std::span<const float> gradient,
                                                         double rate, std::span<float> to) {
  const Tensor& place = tensor(name, gradient.size());
  tensor(name, to.size());
  Beginning batch(*this);
  for (const std::uint32_t chunk : place.chunks) {
    const std::size_t begin = chunks_[chunk].begin - place.slot->offset;
    start_update(*batch, chunk, PushUpdateRequest{.rate = rate},
                 std::as_bytes(gradient.subspan(begin, chunks_[chunk].floats())));
    start_piece(*batch, chunk, PullRequest{}, {}, std::as_writable_bytes(to.subspan(begin, chunks_[chunk].floats())));
  }
  return batch.keep();
}

// Merged keys by partition, in their order within it. Returns where each partition begins, and one past the last.
std::vector<std::uint32_t> ParameterClient::Core::sort_keys(const Table& table) {
  const std::span<const std::int64_t> keys = merger_.keys();
  const std::uint32_t partitions = table.plan->partitions;
  std::vector<std::uint32_t> begins(partitions + 1);
  order_.resize(keys.size());
  places_.resize(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    places_[i] = partition_of(keys[i], partitions);
    ++begins[places_[i] + 1];
  }
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  std::vector<std::uint32_t> next(begins.begin(), begins.end() - 1);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint32_t place = next[places_[i]]++;
    order_[place] = static_cast<std::uint32_t>(i);
    places_[i] = place;
  }
  return begins;
}

// Positions whose key came before, by the place of the key, and in their order for each: the bits depend on the batch
// alone.
void ParameterClient::Core::find_repeats() {
  repeats_.clear();
  for (std::size_t i = 0; i < merger_.slots().size(); ++i) {
    const std::uint32_t slot = merger_.slots()[i];
    if (merger_.first_positions()[slot] != i) repeats_.push_back({places_[slot], static_cast<std::uint32_t>(i)});
  }
  std::stable_sort(repeats_.begin(), repeats_.end(),
                   [](const Repeat& a, const Repeat& b) { return a.place < b.place; });
}

ParameterClient::Ticket ParameterClient::Core::push_rows(const std::string& name, std::span<const std::int64_t> keys,
                                                         std::span<const float> gradients, double rate,
                                                         std::uint64_t step) {
  const Table& place = table(name, keys.size(), gradients.size());
  const std::size_t width = place.plan->options.width;
  const std::size_t row_bytes = width * sizeof(float);
  const std::size_t most = std::max<std::size_t>(1, rows_body_ / (sizeof(std::int64_t) + row_bytes));
  merger_.merge_keys(keys);
  const std::vector<std::uint32_t> begins = sort_keys(place);
  find_repeats();
  auto repeat = repeats_.begin();
  Beginning batch(*this);
  batch->bodies.resize(std::max(batch->bodies.size(), order_.size() * (sizeof(std::int64_t) + row_bytes)));
  std::size_t used = 0;
  for (std::uint32_t partition = 0; partition < place.plan->partitions; ++partition) {
    for (std::size_t at = begins[partition]; at < begins[partition + 1]; at += most) {
      const std::span<const std::uint32_t> chosen =
          std::span(order_).subspan(at, std::min<std::size_t>(most, begins[partition + 1] - at));
      std::byte* const body = batch->bodies.data() + used;
      std::byte* const floats = body + chosen.size() * sizeof(std::int64_t);
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        std::memcpy(body + i * sizeof(std::int64_t), &merger_.keys()[chosen[i]], sizeof(std::int64_t));
        std::memcpy(floats + i * row_bytes, gradients.data() + merger_.first_positions()[chosen[i]] * width, row_bytes);
      }
      for (; repeat != repeats_.end() && repeat->place < at + chosen.size(); ++repeat)
        add_row(gradients.data() + repeat->position * width, floats + (repeat->place - at) * row_bytes, width);
      const std::size_t end = used + chosen.size() * (sizeof(std::int64_t) + row_bytes);
      start_update(*batch, place.first + partition, PushRowsRequest{.rate = rate, .step = step},
                   std::span(batch->bodies).subspan(used, end - used));
      used = end;
    }
  }
  return batch.keep();
}

ParameterClient::Ticket ParameterClient::Core::pull_rows(const std::string& name, std::span<const std::int64_t> keys,
                                                         std::span<float> rows) {
  const Table& place = table(name, keys.size(), rows.size());
  const std::size_t width = place.plan->options.width;
  const std::size_t most = std::max<std::size_t>(1, rows_body_ / std::max(sizeof(std::int64_t), width * sizeof(float)));
  merger_.merge_keys(keys);
  Beginning batch(*this);
  // In the program's own order rows need not be copied again, which is worth asking for a few keys twice.
  const bool as_they_come =
      place.plan->partitions == 1 && keys.size() - merger_.keys().size() <= keys.size() / kFewRepeats;
  const std::vector<std::uint32_t> begins =
      as_they_come ? std::vector<std::uint32_t>{0, static_cast<std::uint32_t>(keys.size())} : sort_keys(place);
  std::span<const std::byte> asked = std::as_bytes(keys);
  std::span<float> replies = rows;
  if (!as_they_come) {
    batch->bodies.resize(std::max(batch->bodies.size(), order_.size() * sizeof(std::int64_t)));
    for (std::size_t i = 0; i < order_.size(); ++i)
      std::memcpy(batch->bodies.data() + i * sizeof(std::int64_t), &merger_.keys()[order_[i]], sizeof(std::int64_t));
    batch->replies.resize(std::max(batch->replies.size(), order_.size() * width));
    batch->places.resize(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i)
      batch->places[i] = places_[merger_.slots()[i]];
    batch->to = rows;
    batch->width = width;
    asked = batch->bodies;
    replies = batch->replies;
  }
  for (std::uint32_t partition = 0; partition < place.plan->partitions; ++partition) {
    for (std::size_t at = begins[partition]; at < begins[partition + 1]; at += most) {
      const std::size_t end = std::min<std::size_t>(at + most, begins[partition + 1]);
      const auto body = asked.subspan(at * sizeof(std::int64_t), (end - at) * sizeof(std::int64_t));
      const auto reply = std::as_writable_bytes(replies.subspan(at * width, (end - at) * width));
      start_piece(*batch, place.first + partition, PullRowsRequest{}, body, reply);
    }
  }
  return batch.keep();
}

void ParameterClient::Core::wait(Ticket ticket) {
  const auto found = under_way_.find(ticket);
  if (found == under_way_.end())
    throw Error(ErrorKind::kInvalidInput, fmt::format("no call {} is under way", ticket), kWhere,
                "Wait for every call once, with the client that made it.");
  std::unique_ptr<Batch> batch = std::move(found->second);
  under_way_.erase(found);
  try {
    for (const Piece& piece : batch->pieces) {
      client_.finish(piece.call, deadline());
      if (piece.update) updates_.at(piece.chunk).open.erase(*piece.update);
    }
  } catch (...) {
    abandon(*batch);
    throw;
  }
  for (std::size_t i = 0; i < batch->to.size() / std::max<std::size_t>(1, batch->width); ++i)
    std::memcpy(batch->to.data() + i * batch->width,
                batch->replies.data() + std::size_t{batch->places[i]} * batch->width, batch->width * sizeof(float));
  spare_.push_back(std::move(batch));
}

ParameterClient::ParameterClient(ClientOptions options, std::chrono::nanoseconds timeout)
    : core_(std::make_unique<Core>(std::move(options), timeout)) {
}

ParameterClient::~ParameterClient() = default;

const ServerPlan& ParameterClient::plan() const {
  return core_->plan();
}

void ParameterClient::fill(const Initial& initial) {
  core_->fill(initial);
}

void ParameterClient::save(const std::filesystem::path& folder) {
  core_->save(folder);
}

void ParameterClient::load(const std::filesystem::path& folder) {
  core_->load(folder);
}

ParameterClient::Ticket ParameterClient::push(const std::string& name, std::span<const float> gradient, double rate) {
  return core_->push(name, gradient, rate);
}

ParameterClient::Ticket ParameterClient::pull(const std::string& name, std::span<float> to) {
  return core_->pull(name, to);
}

ParameterClient::Ticket ParameterClient::push_pull(const std::string& name, std::span<const float> gradient,
                                                   double rate, std::span<float> to) {
  return core_->push_pull(name, gradient, rate, to);
}

ParameterClient::Ticket ParameterClient::push_rows(const std::string& table, std::span<const std::int64_t> keys,
                                                   std::span<const float> gradients, double rate, std::uint64_t step) {
  return core_->push_rows(table, keys, gradients, rate, step);
}

ParameterClient::Ticket ParameterClient::pull_rows(const std::string& table, std::span<const std::int64_t> keys,
                                                   std::span<float> rows) {
  return core_->pull_rows(table, keys, rows);
}

void ParameterClient::wait(Ticket ticket) {
  core_->wait(ticket);
}

}  // namespace muster::strategies
