// Values are scaled back into the units of the training file; of classes the likeliest one is named. Texts are in
// quotes where a CSV file needs it.
#include "muster/cli/answer_rows.h"

#include <cstdint>

#include <fmt/format.h>

#include "muster/cli/confusion.h"
#include "muster/cli/csv_text.h"

namespace muster::cli {
namespace {

// Of a table with several targets the values have names.
std::string value_name(const data::DataForm& form, std::uint64_t i) {
  const std::vector<std::size_t>& targets = form.columns.targets;
  if (form.spec.target_elements() == 1) return "value";
  return i < targets.size() ? form.columns.columns[targets[i]].name : fmt::format("value{}", i);
}

std::string class_row(const std::string& sample, const float* scores, const data::SampleSpec& spec,
                      bool probabilities) {
  std::int64_t best = 0;
  for (std::int64_t c = 1; c < spec.classes; ++c) {
    if (scores[c] > scores[best]) best = c;
  }
  std::string row = fmt::format("{},{},{}", csv_field(sample), csv_field(class_name(spec, best)), scores[best]);
  for (std::int64_t c = 0; probabilities && c < spec.classes; ++c)
    row += fmt::format(",{}", scores[c]);
  return row + "\n";
}

std::string value_row(const std::string& sample, const float* values, const data::SampleSpec& spec) {
  std::string row = csv_field(sample);
  for (std::uint64_t i = 0; i < spec.target_elements(); ++i) {
    const data::ValueScale scale = i < spec.target_scale.size() ? spec.target_scale[i] : data::ValueScale{};
    row += fmt::format(",{}", static_cast<float>(static_cast<double>(values[i]) * scale.stddev + scale.mean));
  }
  return row + "\n";
}

}  // namespace

std::string answers_header(const data::DataForm& form, const std::string& sample, bool probabilities) {
  const data::SampleSpec& spec = form.spec;
  std::string text = csv_field(sample);
  if (spec.target == data::TargetKind::kValues) {
    for (std::uint64_t i = 0; i < spec.target_elements(); ++i)
      text += "," + csv_field(value_name(form, i));
    return text + "\n";
  }
  text += ",class,probability";
  for (std::int64_t c = 0; probabilities && c < spec.classes; ++c)
    text += "," + csv_field("p:" + class_name(spec, c));
  return text + "\n";
}

std::string answer_row(const std::string& sample, const float* answer, const data::SampleSpec& spec,
                       bool probabilities) {
  if (spec.target == data::TargetKind::kClass) return class_row(sample, answer, spec, probabilities);
  return value_row(sample, answer, spec);
}

}  // namespace muster::cli
