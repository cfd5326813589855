// muster generate: lets a trained language model write. Every token goes through the whole net again with the last
// tokens of the context: simple, and fast enough for the models of the zoo.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/base/text.h"
#include "muster/cli/checkpoint_flags.h"
#include "muster/cli/command.h"
#include "muster/cli/model_words.h"
#include "muster/cli/runs.h"
#include "muster/data/text.h"
#include "muster/trainer/trained_model.h"

namespace muster::cli {
namespace {

struct GenerateFlags {
  std::string model;
  trainer::TrainedModelOptions options;
  std::string prompt = "\n";
  std::uint64_t length = 500;
  double temperature = 0.8;
  std::size_t top = 0;
  std::uint64_t seed = 1;
};

// Between text and tokens, by the names that the training data gave them.
class Vocabulary {
 public:
  Vocabulary(const data::SampleSpec& spec, bool bytes) : names_(spec.class_names), bytes_(bytes) {}

  std::vector<std::int64_t> tokens(const std::string& text) const {
    std::vector<std::int64_t> tokens;
    if (bytes_) {
      for (const char c : text)
        tokens.push_back(static_cast<unsigned char>(c));
      return tokens;
    }
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = at + 1;
      while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U)
        ++end;
      const std::string character = text.substr(at, end - at);
      const auto found = std::find(names_.begin(), names_.end(), character);
      if (found == names_.end())
        throw Error(ErrorKind::kInvalidInput,
                    fmt::format("the model does not know the character \"{}\" of the prompt", character), {},
                    fmt::format("It knows these: {}", excerpt(all(), 400)));
      tokens.push_back(found - names_.begin());
      at = end;
    }
    return tokens;
  }

  std::string text(std::int64_t token) const {
    if (bytes_) return std::string(1, static_cast<char>(token));
    return names_[static_cast<std::size_t>(token)];
  }

 private:
  std::string all() const {
    std::string text;
    for (const std::string& name : names_)
      text += name;
    return text;
  }

  const std::vector<std::string>& names_;
  bool bytes_;
};

// A token by its probability at the temperature, among the `top` likeliest (0: all). At temperature 0 the likeliest.
std::int64_t draw(const torch::Tensor& scores, const GenerateFlags& flags, RandomStream& random) {
  if (flags.temperature == 0) return scores.argmax().item<std::int64_t>();
  const torch::Tensor wide = scores.to(torch::kFloat64).contiguous();
  std::vector<std::pair<double, std::int64_t>> ranked;
  for (std::int64_t i = 0; i < wide.numel(); ++i)
    ranked.emplace_back(wide.data_ptr<double>()[i] / flags.temperature, i);
  std::sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  if (flags.top > 0 && flags.top < ranked.size()) ranked.resize(flags.top);
  double sum = 0;
  const double highest = ranked.front().first;
  for (auto& [score, token] : ranked) {
    score = std::exp(score - highest);
    sum += score;
  }
  double place = random.uniform() * sum;
  for (const auto& [weight, token] : ranked) {
    place -= weight;
    if (place < 0) return token;
  }
  return ranked.back().second;
}

void run_generate(const GenerateFlags& flags) {
  const FoundModel found = find_model(flags.model);
  const trainer::TrainedModel trained = trainer::open_trained(found.path, flags.options);
  const data::SampleSpec& spec = trained.card.form.spec;
  if (spec.target != data::TargetKind::kTokens)
    throw Error(ErrorKind::kInvalidInput, "is no language model", flags.model,
                "muster predict writes what other models say.");
  const Vocabulary vocabulary(spec, trained.resolved.job.data.tokens == "bytes");
  std::vector<std::int64_t> tokens = vocabulary.tokens(flags.prompt);
  if (tokens.empty())
    throw Error(ErrorKind::kInvalidInput, "the prompt is empty", "--prompt",
                "Give the model a character to begin with.");
  const torch::NoGradGuard no_grad;
  RandomStream random({.seed = flags.seed, .purpose = Purpose::kGenerate});
  fmt::print(stderr, "{}\n", describe_weights(found, trained));
  fmt::print("{}", flags.prompt);
  const auto window = static_cast<std::size_t>(spec.shape.front());
  for (std::uint64_t i = 0; i < flags.length; ++i) {
    const std::size_t seen = std::min(window, tokens.size());
    const torch::Tensor input =
        torch::from_blob(tokens.data() + (tokens.size() - seen), {1, static_cast<std::int64_t>(seen)}, torch::kInt64);
    const torch::Tensor scores = trained.net->forward(input)[0][static_cast<std::int64_t>(seen) - 1];
    tokens.push_back(draw(scores, flags, random));
    fmt::print("{}", vocabulary.text(tokens.back()));
    std::fflush(stdout);
  }
  fmt::print("\n");
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Let a trained language model write.");
  auto flags = std::make_shared<GenerateFlags>();
  command
      ->add_option("model", flags->model,
                   "A job's name (its newest run in runs/ with a checkpoint), the folder of a run, a checkpoint in it, "
                   "or a file of weights")
      ->required();
  command->add_option("--run", flags->options.run, "With a file of weights: the run that says which model it is");
  add_checkpoint_flags(*command, flags->options.checkpoint);
  command->add_option("--prompt", flags->prompt, "What the text begins with; default: a new line");
  command->add_option("--length", flags->length, "Tokens to write")->capture_default_str();
  command->add_option("--temperature", flags->temperature, "0: always the likeliest token; 1: as the model learned")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--top", flags->top, "Draw among so many likeliest tokens; 0: all")->capture_default_str();
  command->add_option("--seed", flags->seed, "Same seed, same text")->capture_default_str();
  command->footer(
      "Example:\n"
      "  muster generate shakespeare --prompt \"ROMEO:\" --length 300");
  command->callback([flags] { run_generate(*flags); });
}

}  // namespace muster::cli
