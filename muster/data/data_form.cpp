// To JSON and back, in the order of the members. What is read may be older than this program or written by hand:
// everything is checked, and what older cards lack has a default.
#include "muster/data/data_form.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/json.h"

namespace muster::data {
namespace {

constexpr std::array<std::string_view, 2> kInputs{"floats", "tokens"};
constexpr std::array<std::string_view, 3> kTargets{"class", "values", "tokens"};
constexpr std::array<std::string_view, 3> kKinds{"numeric", "categorical", "ignored"};

[[noreturn]] void damaged(const std::string& where, const char* what) {
  throw Error(ErrorKind::kDamaged, what, where);
}

// The place of a word in a list of words.
template <typename Value, std::size_t N>
Value value_of(const std::array<std::string_view, N>& words, const std::string& word, const std::string& where) {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) damaged(where, "the form of the data has a word that nobody knows");
  return static_cast<Value>(found - words.begin());
}

Json scale_json(double mean, double stddev) {
  return {{"mean", mean}, {"std", stddev}};
}

std::pair<double, double> read_scale(const Json& json, const std::string& where) {
  const auto mean = json_get<double>(json, "mean", where);
  const auto stddev = json_get<double>(json, "std", where);
  if (!std::isfinite(mean) || !std::isfinite(stddev) || stddev <= 0) damaged(where, "a scale of the data is none");
  return {mean, stddev};
}

const Json& list(const Json& json, const char* key, const std::string& where) {
  if (!json.is_object() || !json.contains(key) || !json.at(key).is_array())
    damaged(where, "a list of the form of the data is missing");
  return json.at(key);
}

Json spec_json(const SampleSpec& spec) {
  Json scales = Json::array();
  for (const ValueScale& scale : spec.target_scale)
    scales.push_back(scale_json(scale.mean, scale.stddev));
  return {{"shape", spec.shape},
          {"classes", spec.classes},
          {"input", kInputs[static_cast<std::size_t>(spec.input)]},
          {"target", kTargets[static_cast<std::size_t>(spec.target)]},
          {"target_shape", spec.target_shape},
          {"target_scale", scales},
          {"vocabulary", spec.vocabulary},
          {"class_names", spec.class_names},
          {"columns", spec.columns}};
}

SampleSpec read_spec(const Json& json, const std::string& where) {
  SampleSpec spec;
  spec.shape = json_get<std::vector<std::int64_t>>(json, "shape", where);
  spec.classes = json_get<std::int64_t>(json, "classes", where);
  spec.input = value_of<InputKind>(kInputs, json_get<std::string>(json, "input", where), where);
  spec.target = value_of<TargetKind>(kTargets, json_get<std::string>(json, "target", where), where);
  spec.target_shape = json_get<std::vector<std::int64_t>>(json, "target_shape", where);
  spec.vocabulary = json_get<std::int64_t>(json, "vocabulary", where);
  spec.class_names = json_get<std::vector<std::string>>(json, "class_names", where);
  spec.columns = json_get<std::vector<std::int64_t>>(json, "columns", where);
  for (const auto* extents : {&spec.shape, &spec.target_shape}) {
    std::uint64_t product = 1;
    for (const std::int64_t extent : *extents) {
      if (extent < 1 || __builtin_mul_overflow(product, static_cast<std::uint64_t>(extent), &product) ||
          product > std::uint64_t{1} << 40)
        damaged(where, "the samples have a shape that cannot be");
    }
  }
  for (const Json& entry : list(json, "target_scale", where)) {
    const auto [mean, stddev] = read_scale(entry, where);
    spec.target_scale.push_back({mean, stddev});
  }
  const bool scaled = !spec.target_scale.empty();
  if (spec.classes < 0 || spec.vocabulary < 0 || (scaled && spec.target_scale.size() != spec.target_elements()))
    damaged(where, "the form of the data contradicts itself");
  return spec;
}

}  // namespace

Json DataForm::to_json() const {
  Json json{{"samples", spec_json(spec)}, {"mean", normalization.mean}, {"std", normalization.stddev}};
  if (columns.columns.empty()) return json;
  Json list = Json::array();
  for (std::size_t c = 0; c < columns.columns.size(); ++c) {
    const Column& column = columns.columns[c];
    Json entry = scale_json(scales[c].mean, scales[c].stddev);
    entry["name"] = column.name;
    entry["kind"] = kKinds[static_cast<std::size_t>(column.kind)];
    entry["categories"] = column.categories;
    entry["missing"] = scales[c].missing;
    list.push_back(std::move(entry));
  }
  json["columns"] = std::move(list);
  // Cards have had one target, and most still do.
  if (!columns.targets.empty()) json["target"] = columns.targets.front();
  if (columns.targets.size() > 1) json["targets"] = columns.targets;
  return json;
}

DataForm DataForm::from_json(const Json& json, const std::string& where) {
  DataForm form;
  form.spec = read_spec(json_get<Json>(json, "samples", where), where);
  for (const double value : json_get<std::vector<double>>(json, "mean", where))
    form.normalization.mean.push_back(static_cast<float>(value));
  for (const double value : json_get<std::vector<double>>(json, "std", where))
    form.normalization.stddev.push_back(static_cast<float>(value));
  if (!form.normalization.mean.empty() || !form.normalization.stddev.empty())
    validate(form.normalization, static_cast<std::int64_t>(form.normalization.mean.size()));
  if (!json.contains("columns")) return form;
  std::uint64_t features = 0;
  // A party of vertical training has columns alone.
  const bool unlabelled = form.spec.target == TargetKind::kClass && form.spec.classes == 0 && !json.contains("target");
  if (!unlabelled) form.columns.targets = {json_get<std::uint64_t>(json, "target", where)};
  if (json.contains("targets")) form.columns.targets = json_get<std::vector<std::size_t>>(json, "targets", where);
  for (const Json& entry : list(json, "columns", where)) {
    Column column;
    column.name = json_get<std::string>(entry, "name", where);
    column.kind = value_of<ColumnKind>(kKinds, json_get<std::string>(entry, "kind", where), where);
    column.categories = json_get<std::vector<std::string>>(entry, "categories", where);
    const auto [mean, stddev] = read_scale(entry, where);
    form.scales.push_back({mean, stddev, json_get<double>(entry, "missing", where)});
    if (!form.columns.is_target(form.columns.columns.size()) && column.kind != ColumnKind::kIgnored)
      features += column.kind == ColumnKind::kNumeric ? 1 : column.categories.size();
    form.columns.columns.push_back(std::move(column));
  }
  std::set<std::size_t> targets;
  for (const std::size_t target : form.columns.targets) {
    // A target that is ignored would have no values, and one that is there twice no place of its own.
    if (target >= form.columns.columns.size() || !targets.insert(target).second ||
        form.columns.columns[target].kind == ColumnKind::kIgnored)
      damaged(where, "the targets of the table are none");
  }
  if (targets.empty() != unlabelled || features != form.spec.elements())
    damaged(where, "the columns do not make the samples");
  if (form.spec.target == TargetKind::kValues && targets.size() != form.spec.target_elements())
    damaged(where, "the targets of the table are not those of the samples");
  return form;
}

}  // namespace muster::data
