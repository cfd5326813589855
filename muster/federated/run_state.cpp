// safetensors: "model", "momentum", "squares", "control" and "past" as far as they are there, and the numbers as
// metadata: looked at by any tool that reads the format.
#include "muster/federated/run_state.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/federated/is_there.h"
#include "muster/model/safetensors.h"

namespace muster::federated {
namespace {

constexpr std::uint64_t kMostRounds = 1'000'000'000;  // as many as a job may ask for

template <typename Number>
Number number_in(const model::Metadata& metadata, const char* key, const std::string& where) {
  const auto found = metadata.find(key);
  Number number{};
  if (found != metadata.end()) {
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size()) return number;
  }
  throw Error(ErrorKind::kDamaged, fmt::format("says no {}", key), where, "Begin a new run.");
}

std::map<std::uint64_t, std::uint64_t> counted_in(const model::Metadata& metadata, const std::string& where) {
  std::map<std::uint64_t, std::uint64_t> counted;
  const auto found = metadata.find("counted");
  if (found == metadata.end()) return counted;
  const Json json = parse_json(found->second, where);
  for (const auto& [client, rounds] : json.items())
    counted[number_in<std::uint64_t>({{client, client}}, client.c_str(), where)] = rounds.get<std::uint64_t>();
  return counted;
}

}  // namespace

void StateFile::write(const State& state) const {
  std::vector<model::TensorView> tensors;
  const auto add = [&](const char* name, const std::vector<float>& values) {
    if (!values.empty())
      tensors.push_back(
          {name, model::Dtype::kF32, {static_cast<std::int64_t>(values.size())}, std::as_bytes(std::span(values))});
  };
  add("model", state.model);
  add("momentum", state.momentum);
  add("squares", state.squares);
  add("control", state.control);
  add("past", state.past);
  model::Metadata metadata{{"rounds", std::to_string(state.rounds)},
                           {"virtual_seconds", fmt::format("{}", state.virtual_seconds)}};
  if (!state.row.empty()) metadata["row"] = state.row;
  if (!state.counted.empty()) {
    Json counted = Json::object();
    for (const auto& [client, rounds] : state.counted)
      counted[std::to_string(client)] = rounds;
    metadata["counted"] = counted.dump();
  }
  model::write_safetensors(path_, tensors, metadata);
}

std::optional<State> StateFile::read() const {
  if (!is_there(path_)) return std::nullopt;
  const model::SafetensorsFile file(path_);
  const auto values_of = [&](const char* name) {
    const model::TensorEntry* const entry = file.header().find(name);
    if (entry == nullptr) return std::vector<float>();
    std::vector<float> values(entry->bytes() / sizeof(float));
    const auto refuse = [&](const char* why) {
      return Error(ErrorKind::kDamaged, fmt::format("tensor {} {}", name, why), path_.string(), "Begin a new run.");
    };
    if (entry->dtype != model::Dtype::kF32) throw refuse("is not of 32-bit floats");
    file.read(name, std::as_writable_bytes(std::span(values)));
    if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) throw refuse("is not finite");
    return values;
  };
  const model::Metadata& metadata = file.header().metadata;
  const auto rounds = number_in<std::uint64_t>(metadata, "rounds", path_.string());
  if (rounds > kMostRounds)
    throw Error(ErrorKind::kDamaged, fmt::format("says {} rounds", rounds), path_.string(), "Begin a new run.");
  const auto row = metadata.find("row");
  return State{.rounds = rounds,
               .virtual_seconds = number_in<double>(metadata, "virtual_seconds", path_.string()),
               .model = values_of("model"),
               .momentum = values_of("momentum"),
               .squares = values_of("squares"),
               .control = values_of("control"),
               .past = values_of("past"),
               .counted = counted_in(metadata, path_.string()),
               .row = row == metadata.end() ? "" : row->second};
}

}  // namespace muster::federated
