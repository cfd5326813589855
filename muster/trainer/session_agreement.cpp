// A digest is compared first, because it nearly always agrees; only where it does not everybody tells the whole, and
// the message names what differs.
#include "muster/trainer/session_agreement.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/base/hash.h"
#include "muster/base/json.h"
#include "muster/base/version.h"
#include "muster/compute/optimizer_json.h"
#include "muster/launch/environment.h"

namespace muster::trainer {
namespace {

constexpr std::uint64_t kSamplesRead = 16;
constexpr std::size_t kMostText = 48 * 1024;  // fits into a value of a store
constexpr std::size_t kMostNamed = 3;         // differences, in a message
// For a value that is there: only a coordinator that is away makes anybody wait.
constexpr std::chrono::seconds kReadTime{10};
constexpr std::string_view kParameter = "parameter ";
constexpr std::string_view kBuffer = "buffer ";

class Writer {
 public:
  template <typename Value>
  void add(std::string name, const Value& value) {
    entries_.emplace_back(std::move(name), fmt::format("{}", value));
  }
  template <typename Value>
  void add(std::string name, const std::optional<Value>& value) {
    if (value)
      add(std::move(name), *value);
    else
      add(std::move(name), "none");
  }
  Agreement take() { return std::move(entries_); }

 private:
  Agreement entries_;
};

std::vector<std::string> texts_of(const std::vector<NumberedPattern>& patterns) {
  std::vector<std::string> texts;
  for (const NumberedPattern& pattern : patterns)
    texts.push_back(fmt::format("{}={}", pattern.pattern, pattern.number));
  return texts;
}

// A function cannot be compared, but what it gives here and there.
std::vector<double> samples_of(const compute::Schedule& schedule) {
  std::vector<double> values;
  for (std::uint64_t step = 0; schedule.factor && step <= 1'000'000; step = step == 0 ? 1 : step * 10)
    values.push_back(schedule.factor(step));
  return values;
}

void add_schedule(const std::string& prefix, const compute::Schedule& schedule, Writer& to) {
  to.add(prefix + "schedule", to_string(schedule.kind));
  to.add(prefix + "schedule.warmup_steps", schedule.warmup_steps);
  to.add(prefix + "schedule.warmup_start", schedule.warmup_start);
  to.add(prefix + "schedule.total_steps", schedule.total_steps);
  to.add(prefix + "schedule.milestones", schedule.milestones);
  to.add(prefix + "schedule.gamma", schedule.gamma);
  to.add(prefix + "schedule.power", schedule.power);
  to.add(prefix + "schedule.final_fraction", schedule.final_fraction);
  if (schedule.factor) to.add(prefix + "schedule.factor at steps 0, 1, 10, ...", samples_of(schedule));
}

void add_part(const PartOptions& part, Writer& to) {
  const std::string prefix = part.name.empty() ? "" : part.name + "'s ";
  if (part.optimizer) {
    const Json optimizer_json = compute::to_json(*part.optimizer);
    for (const auto& [name, value] : optimizer_json.items())
      to.add(prefix + "optimizer." + name, value.dump());
  } else {
    to.add(prefix + "optimizer", "none");
  }
  if (part.schedule) add_schedule(prefix, *part.schedule, to);
}

std::string to_text(const Agreement& agreement) {
  Json entries = Json::array();
  for (const auto& [name, value] : agreement)
    entries.push_back({name, value});
  // What is not UTF-8 is the user's own name of a tensor; it is compared all the same.
  return entries.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string digest_of(const std::string& text) {
  return sha256(std::as_bytes(std::span(text)));
}

Agreement from_text(const std::string& text) {
  const std::string where = "what another worker said of its session";
  Agreement agreement;
  for (const Json& entry : parse_json(text, where)) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_string())
      throw Error(ErrorKind::kDamaged, "an entry is not a name and a value", where);
    agreement.emplace_back(entry[0].get<std::string>(), entry[1].get<std::string>());
  }
  return agreement;
}

// With the tensors of a model that has many as one entry.
Agreement shortened(const Agreement& agreement) {
  if (to_text(agreement).size() <= kMostText) return agreement;
  Agreement made;
  Agreement tensors;
  for (const auto& entry : agreement) {
    const bool tensor = entry.first.starts_with(kParameter) || entry.first.starts_with(kBuffer);
    (tensor ? tensors : made).push_back(entry);
  }
  made.emplace_back("the model", fmt::format("{} tensors, SHA-256 of names and shapes {}", tensors.size(),
                                             digest_of(to_text(tensors)).substr(0, 16)));
  return made;
}

// Nothing if they are the same.
std::optional<Error> difference(const std::string& first, const Agreement& one, const std::string& second,
                                const Agreement& other) {
  if (one == other) return std::nullopt;
  const std::map<std::string, std::string> values(one.begin(), one.end());
  const std::map<std::string, std::string> others(other.begin(), other.end());
  const auto value_of = [](const std::map<std::string, std::string>& in, const std::string& name) {
    const auto found = in.find(name);
    return found == in.end() ? std::string("missing") : found->second;
  };
  std::vector<std::string> names;
  for (const Agreement* side : {&one, &other}) {
    for (const auto& entry : *side) {
      const bool known = std::find(names.begin(), names.end(), entry.first) != names.end();
      if (!known && value_of(values, entry.first) != value_of(others, entry.first)) names.push_back(entry.first);
    }
  }
  if (names.empty()) names.emplace_back("the order of the tensors");
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMostNamed); ++i) {
    text += fmt::format("{}{} is {} at worker {} and {} at worker {}", i == 0 ? "" : "; ", names[i],
                        value_of(others, names[i]), second, value_of(values, names[i]), first);
  }
  if (names.size() > kMostNamed) text += fmt::format("; and {} more", names.size() - kMostNamed);
  return Error(ErrorKind::kMismatch, fmt::format("the workers would not train the same: {}", text), {},
               "Start every worker with the same program, arguments, options and data.");
}

}  // namespace

Agreement describe_session(const SessionOptions& options, std::size_t lanes, std::span<const PartOptions> parts,
                           const model::FlatLayout& layout, const compute::BufferLayout& buffers) {
  Writer to;
  to.add("Muster", version());
  to.add("batch", options.batch);
  to.add("lanes", lanes);
  to.add("threads", options.threads);
  to.add("seed", options.seed);
  for (const PartOptions& part : parts)
    add_part(part, to);
  to.add("clip_norm", options.clip_norm);
  to.add("exempt", to_string(options.exempt));
  to.add("after_commit", options.after_commit ? "one" : "none");
  add_schedule("", options.schedule, to);
  to.add("tuning.freeze", options.tuning.freeze);
  to.add("tuning.unfreeze", texts_of(options.tuning.unfreeze));
  to.add("tuning.lr_factors", texts_of(options.tuning.lr_factors));
  to.add("tuning.decay_factors", texts_of(options.tuning.decay_factors));
  to.add("mixup_alpha", options.mixup_alpha);
  to.add("most_skipped", options.most_skipped);
  for (const auto& [name, value] : options.strategy.describe())
    to.add(name, value);
  for (const model::TensorSlot& slot : layout.tensors())
    to.add(std::string(kParameter) + slot.name, fmt::format("{}{}", slot.shape, slot.trainable ? "" : ", frozen"));
  for (const compute::BufferSlot& slot : buffers.slots)
    to.add(std::string(kBuffer) + slot.name, fmt::format("{} {}", model::to_string(slot.dtype), slot.shape));
  return to.take();
}

Agreement describe_data(const data::Dataset& dataset, const data::LaneOrder& order) {
  const data::SampleSpec& spec = dataset.spec();
  Writer to;
  to.add("samples of the data set", dataset.size());
  to.add("shape of a sample", spec.shape);
  to.add("classes", spec.classes);
  to.add("kind of input", static_cast<int>(spec.input));
  to.add("kind of target", static_cast<int>(spec.target));
  to.add("shape of a target", spec.target_shape);
  to.add("steps of an epoch", order.steps_per_epoch());
  // Which samples a lane has follows from more than can be named here; the first lane shows whether it is the same.
  const std::vector<std::uint64_t> ids = order.ids(order.plan({}), 0);
  to.add("the first samples", sha256(std::as_bytes(std::span(ids))).substr(0, 16));
  return to.take();
}

std::pair<std::string, std::string> describe_contents(const data::Dataset& dataset) {
  const data::SampleSpec& spec = dataset.spec();
  const bool floats = spec.input == data::InputKind::kFloats;
  std::vector<float> features(floats ? spec.elements() : 0);
  std::vector<std::int64_t> tokens(floats ? 0 : spec.elements());
  const bool values_wanted = spec.target == data::TargetKind::kValues;
  std::vector<std::int64_t> labels(values_wanted ? 0 : spec.target_elements());
  std::vector<float> values(values_wanted ? spec.target_elements() : 0);
  const std::uint64_t count = std::min<std::uint64_t>(kSamplesRead, dataset.size());
  Sha256 hash;
  for (std::uint64_t i = 0; i < count; ++i) {
    try {
      dataset.read_sample(i * dataset.size() / count, {features, tokens, labels, values});
      hash.update(std::as_bytes(std::span(features)));
      hash.update(std::as_bytes(std::span(tokens)));
      hash.update(std::as_bytes(std::span(labels)));
      hash.update(std::as_bytes(std::span(values)));
    } catch (const std::exception&) {
      // Whether it is to be skipped is for training to say.
      hash.update(std::as_bytes(std::span("unreadable")));
    }
  }
  return {fmt::format("what is in {} of the samples, SHA-256", count), hash.finish().substr(0, 16)};
}

void agree(comm::Group group, const Agreement& mine, const Deadline& deadline) {
  if (group.size() == 1) return;
  const auto workers = static_cast<std::size_t>(group.size());
  const auto bytes_of = [](const std::string& text) {
    return std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  };
  std::string text = to_text(mine);
  const std::string digest = digest_of(text);
  std::vector<std::uint8_t> digests(digest.size() * workers);
  group.all_gather(bytes_of(digest), std::span(digests), deadline);
  const auto first = digests.begin() + static_cast<std::ptrdiff_t>(digest.size());
  if (std::equal(first, digests.end(), digests.begin())) return;
  // All have seen it: now everybody tells everybody the whole.
  std::int64_t longest = static_cast<std::int64_t>(text.size());
  group.all_reduce(std::span(&longest, 1), comm::Reduction::kMax, deadline);
  text.resize(static_cast<std::size_t>(longest), ' ');
  std::vector<std::uint8_t> all(text.size() * workers);
  group.all_gather(bytes_of(text), std::span(all), deadline);
  const auto said = [&](std::size_t worker) {
    return from_text(std::string(reinterpret_cast<const char*>(all.data()) + worker * text.size(), text.size()));
  };
  const Agreement wanted = said(0);
  for (std::size_t worker = 1; worker < workers; ++worker) {
    if (const std::optional<Error> error = difference("0", wanted, std::to_string(worker), said(worker))) throw *error;
  }
}

void agree(comm::Store& store, const std::string& key, const std::string& worker, const Agreement& mine,
           const std::function<void()>& refused) {
  const Agreement own = shortened(mine);
  const std::string text = Json({{"worker", worker}, {"said", to_text(own)}}).dump();
  const std::optional<std::string> found = set_or_find(store, key, text);
  if (!found) return;
  const std::string where = fmt::format("\"{}\" in the job's store", key);
  const Json json = parse_json(*found, where);
  const std::optional<Error> error = difference(json_get<std::string>(json, "worker", where),
                                                from_text(json_get<std::string>(json, "said", where)), worker, own);
  if (!error) return;
  refused();
  throw *error;
}

std::optional<std::string> set_or_find(comm::Store& store, const std::string& key, const std::string& value) {
  for (;;) {
    try {
      store.set(key, value);
      return std::nullopt;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kMismatch) throw;
    }
    try {
      return store.get(key, Deadline::after(kReadTime));
    } catch (const Error& error) {
      // From the beginning: whoever has the coordinator's place by now may not have the value.
      if (error.kind() != ErrorKind::kTimeout) throw;
    }
  }
}

void leave_refusal(comm::Store& store, int seat) {
  try {
    store.set(launch::kRefusedKey, fmt::format("{}", seat));
  } catch (const Error& earlier) {
    if (earlier.kind() != ErrorKind::kMismatch) throw;  // others were refused before
  }
}

}  // namespace muster::trainer
