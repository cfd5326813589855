// The card is written whole each time, as JSON and as Markdown from the same values. What is read may be from an
// earlier release: members that it lacks have defaults.
#include "muster/trainer/model_card.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/text.h"

namespace muster::trainer {
namespace {

constexpr std::uint64_t kFormat = 1;
constexpr const char* kFile = "card.json";
constexpr std::uint64_t kMostCardBytes = std::uint64_t{64} << 20;

std::string table_row(const std::string& key, const std::string& value) {
  return fmt::format("| {} | {} |\n", key, value);
}

// A line break or a bar would end the row.
std::string in_a_table(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::replace(text.begin(), text.end(), '|', '/');
  return text;
}

std::string samples_in_words(const data::SampleSpec& spec) {
  const std::string shape = fmt::format("{}", fmt::join(spec.shape, " x "));
  switch (spec.target) {
    case data::TargetKind::kClass:
      return fmt::format("{} numbers, one of {} classes", shape, spec.classes);
    case data::TargetKind::kValues:
      return fmt::format("{} numbers, {} to predict", shape, spec.target_elements());
    case data::TargetKind::kTokens:
      return fmt::format("{} tokens of a vocabulary of {}", shape, spec.vocabulary);
  }
  return shape;
}

}  // namespace

Json ModelCard::to_json() const {
  Json json{{"format", kFormat},
            {"name", name},
            {"muster_version", muster_version},
            {"task", task},
            {"model", {{"name", model}, {"parameters", parameters}}},
            {"data", {{"description", data}, {"train_samples", train_samples}, {"form", form.to_json()}}},
            {"job", job}};
  if (!failure.empty()) json["failure"] = failure;
  if (!result) return json;
  json["result"] = {{"steps", result->steps},
                    {"epochs", result->epochs},
                    {"seconds", result->seconds},
                    {"test", result->test.to_json()},
                    {"best_step", result->best_step},
                    {"best_loss", result->best_loss},
                    {"weights_sha256", result->weights_hash}};
  if (result->rounds > 0) json["result"]["rounds"] = result->rounds;
  return json;
}

ModelCard ModelCard::from_json(const Json& json, const std::string& where) {
  if (const auto format = json_get<std::uint64_t>(json, "format", where); format != kFormat)
    throw Error(ErrorKind::kUnsupported, fmt::format("is a card of format {}; this Muster reads {}", format, kFormat),
                where, "Use the release that wrote it.");
  ModelCard card;
  card.name = json_get<std::string>(json, "name", where);
  card.muster_version = json_get<std::string>(json, "muster_version", where);
  card.task = json_get<std::string>(json, "task", where);
  card.job = json_get<std::string>(json, "job", where);
  const Json model = json_get<Json>(json, "model", where);
  card.model = json_get<std::string>(model, "name", where);
  card.parameters = json_get<std::uint64_t>(model, "parameters", where);
  const Json data = json_get<Json>(json, "data", where);
  card.data = json_get<std::string>(data, "description", where);
  card.train_samples = json_get<std::uint64_t>(data, "train_samples", where);
  card.form = data::DataForm::from_json(json_get<Json>(data, "form", where), where);
  if (json.contains("failure")) card.failure = json_get<std::string>(json, "failure", where);
  if (!json.contains("result")) return card;
  const Json& result = json.at("result");
  card.result.emplace();
  card.result->steps = json_get<std::uint64_t>(result, "steps", where);
  card.result->epochs = json_get<std::uint64_t>(result, "epochs", where);
  card.result->seconds = json_get<double>(result, "seconds", where);
  card.result->test = Evaluation::from_json(json_get<Json>(result, "test", where), where);
  card.result->best_step = json_get<std::uint64_t>(result, "best_step", where);
  card.result->best_loss = json_get<double>(result, "best_loss", where);
  if (result.contains("rounds")) card.result->rounds = json_get<std::uint64_t>(result, "rounds", where);
  card.result->weights_hash = json_get<std::string>(result, "weights_sha256", where);
  return card;
}

std::string ModelCard::to_markdown() const {
  std::string text = fmt::format("# {}\n\n| | |\n| --- | --- |\n", name);
  text += table_row("model",
                    fmt::format("{}, {} parameters ({})", model, grouped(parameters), human_bytes(4 * parameters)));
  text += table_row("task", task);
  text += table_row("data", data);
  text += table_row("a sample", samples_in_words(form.spec));
  text += table_row("trained on", fmt::format("{} samples", grouped(train_samples)));
  if (result && result->rounds > 0) {
    text += table_row("training", fmt::format("{} rounds of clients that keep their data", grouped(result->rounds)));
    text += table_row("test (after the last round)", describe(result->test));
    text += table_row("weights (`model.safetensors`; SHA-256)", fmt::format("`{}`", result->weights_hash));
  } else if (result) {
    text += table_row("training", fmt::format("{} steps, {} epochs, {:.0f} s", grouped(result->steps), result->epochs,
                                              result->seconds));
    const bool same = result->best_step == result->steps;
    const std::string last =
        fmt::format("step {}, {}", grouped(result->steps), same ? "the last and best" : "the last");
    text += table_row(fmt::format("test ({})", last), describe(result->test));
    text += table_row(fmt::format("weights ({}; SHA-256)", last), fmt::format("`{}`", result->weights_hash));
    text += table_row("best checkpoint",
                      fmt::format("step {}, validation loss {:.4f}; what `muster evaluate`, `predict` and `model "
                                  "convert` take, unless told `--last` or `--step`",
                                  grouped(result->best_step), result->best_loss));
  } else {
    text += table_row("training", failure.empty() ? "not at its end yet" : in_a_table(failure));
  }
  text += table_row("made by", fmt::format("Muster {}", muster_version));
  text += fmt::format(
      "\nEvaluate with `muster evaluate RUN`, predict with `muster predict RUN --data FILES`.\n\n"
      "## The job\n\n```toml\n{}```\n",
      job);
  return text;
}

void ModelCard::write(const std::filesystem::path& folder) const {
  write_atomically(folder / kFile, to_json().dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  write_atomically(folder / "card.md", to_markdown());
}

ModelCard ModelCard::read(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kFile;
  const OpenFile file = open_for_reading(path);
  if (file.size > kMostCardBytes) throw Error(ErrorKind::kDamaged, "is too large for a card", path.string());
  std::string text(file.size, '\0');
  read_exactly(file, 0, std::as_writable_bytes(std::span(text)), path);
  return from_json(parse_json(text, path.string()), path.string());
}

}  // namespace muster::trainer
