// The table as JSON and back.
// What does not belong to the net that it names is damaged.
#include "muster/model/zoo/latency_table.h"

#include <cmath>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"

namespace muster::zoo {
namespace {

double checked(double ms, const std::string& what, const std::string& where) {
  if (std::isfinite(ms) && ms >= 0) return ms;
  throw Error(ErrorKind::kDamaged, fmt::format("{} takes {} ms", what, ms), where);
}

}  // namespace

std::vector<std::vector<std::optional<BlockChoice>>> choices_of(const BlockNet& net) {
  std::vector<std::vector<std::optional<BlockChoice>>> all;
  for (const std::size_t i : open_places(net))
    all.push_back(choices_at(net.places[i], i == 0 ? net.stem : net.places[i - 1].channels));
  return all;
}

double LatencyTable::of(const std::vector<std::size_t>& chosen) const {
  MUSTER_CHECK(chosen.size() == choices_ms.size(), "a choice for each open place");
  double sum = rest_ms;
  for (std::size_t i = 0; i < chosen.size(); ++i)
    sum += choices_ms[i].at(chosen[i]);
  return sum;
}

Json LatencyTable::json() const {
  Json places = Json::array();
  const auto choices = choices_of(net);
  const std::vector<std::size_t> open = open_places(net);
  for (std::size_t i = 0; i < open.size(); ++i) {
    Json row = Json::object();
    for (std::size_t c = 0; c < choices[i].size(); ++c)
      row[to_string(choices[i][c])] = choices_ms.at(i).at(c);
    places.push_back({{"place", net.places[open[i]].number}, {"choices", std::move(row)}});
  }
  return {{"format", 1},        {"net", to_string(net)},      {"input", input}, {"batch", batch}, {"threads", threads},
          {"rest_ms", rest_ms}, {"places", std::move(places)}};
}

LatencyTable LatencyTable::from_json(const Json& json, const std::string& where) {
  const auto format = json_get<std::uint64_t>(json, "format", where);
  if (format != 1)
    throw Error(ErrorKind::kUnsupported, fmt::format("is a table of format {}, made by a newer Muster", format), where,
                "Measure it again: muster bench blocks JOB.");
  LatencyTable table;
  table.net = parse_block_net(json_get<std::string>(json, "net", where));
  table.input = json_get<std::vector<std::int64_t>>(json, "input", where);
  table.batch = json_get<std::int64_t>(json, "batch", where);
  table.threads = json_get<std::int64_t>(json, "threads", where);
  table.rest_ms = checked(json_get<double>(json, "rest_ms", where), "the rest", where);
  const auto choices = choices_of(table.net);
  const auto places = json_get<std::vector<Json>>(json, "places", where);
  if (places.size() != choices.size())
    throw Error(ErrorKind::kDamaged,
                fmt::format("has {} places, and {} of its net are open", places.size(), choices.size()), where);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Json row = json_get<Json>(places[i], "choices", where);
    std::vector<double>& times = table.choices_ms.emplace_back();
    for (const std::optional<BlockChoice>& choice : choices[i]) {
      const std::string name = to_string(choice);
      times.push_back(checked(json_get<double>(row, name, where), name, where));
    }
  }
  return table;
}

}  // namespace muster::zoo
