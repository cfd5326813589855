// Sums in double precision and in a fixed order: figures are part of what runs are compared by. Moments are gathered so
// that large means lose no digits.
#include "muster/trainer/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/json.h"

namespace muster::trainer {
namespace {

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

// JSON has no number that is none.
double read_number(const Json& json, const std::string& where) {
  if (json.is_null()) return kNoValue;
  if (!json.is_number()) throw Error(ErrorKind::kDamaged, "a figure is not a number", where);
  return json.get<double>();
}

}  // namespace

double Evaluation::metric(std::string_view name) const {
  std::string known;
  for (const Metric& metric : metrics) {
    if (metric.name == name) return metric.value;
    known += (known.empty() ? "" : ", ") + metric.name;
  }
  throw Error(ErrorKind::kNotFound, fmt::format("there is no metric {}; this task has {}", name, known));
}

Json Evaluation::to_json() const {
  Json figures = Json::array();
  for (const Metric& metric : metrics)
    figures.push_back({metric.name, metric.value});
  return {{"loss", loss}, {"samples", samples}, {"metrics", figures}};
}

Evaluation Evaluation::from_json(const Json& json, const std::string& where) {
  Evaluation evaluation;
  evaluation.samples = json_get<std::uint64_t>(json, "samples", where);
  evaluation.loss = read_number(json.value("loss", Json()), where);
  const Json figures = json.value("metrics", Json());
  if (!figures.is_array()) throw Error(ErrorKind::kDamaged, "there is no list of metrics", where);
  for (const Json& figure : figures) {
    if (!figure.is_array() || figure.size() != 2 || !figure[0].is_string())
      throw Error(ErrorKind::kDamaged, "a metric is not a name and a figure", where);
    evaluation.metrics.push_back({figure[0].get<std::string>(), read_number(figure[1], where)});
  }
  return evaluation;
}

std::string describe(const Evaluation& evaluation) {
  std::string text = fmt::format("loss {:.4f}", evaluation.loss);
  for (const Metric& metric : evaluation.metrics)
    text += fmt::format(", {} {:.4f}", metric.name, metric.value);
  return text;
}

double area_under_curve(std::vector<Scored> scored) {
  for (const Scored& one : scored)
    if (std::isnan(one.score)) return kNoValue;
  std::sort(scored.begin(), scored.end(), [](const Scored& a, const Scored& b) { return a.score < b.score; });
  double pairs = 0;  // won by the positive
  double negatives = 0;
  double positives = 0;
  for (auto group = scored.begin(); group != scored.end();) {
    const auto end = std::find_if(group, scored.end(), [&](const Scored& one) { return one.score != group->score; });
    const auto equal_positives =
        static_cast<double>(std::count_if(group, end, [](const Scored& one) { return one.positive; }));
    const double equal_negatives = static_cast<double>(end - group) - equal_positives;
    pairs += equal_positives * (negatives + equal_negatives / 2);
    positives += equal_positives;
    negatives += equal_negatives;
    group = end;
  }
  return positives > 0 && negatives > 0 ? pairs / (positives * negatives) : kNoValue;
}

void Moments::add(const Moments& part) {
  if (part.count == 0) return;
  const double all = count + part.count;
  const double difference = part.mean - mean;
  squares += part.squares + difference * difference * (count * part.count / all);
  mean += difference * (part.count / all);
  count = all;
}

double r_squared(double squared_error, double squares) {
  if (squares > 0) return 1 - squared_error / squares;
  return squared_error == 0 ? 1 : 0;
}

}  // namespace muster::trainer
