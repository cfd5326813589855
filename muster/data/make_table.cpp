// The rule that is to be learned and every row have streams of their own, named by the seed: the first rows of a longer
// table are those of a shorter one.
#include "muster/data/make_table.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/random.h"

namespace muster::data {
namespace {

// Which of the table's streams a key names, in its `step`. Part of the table's bytes: never renumber.
constexpr std::uint64_t kWeights = 2;
constexpr std::uint64_t kRows = 3;
constexpr std::array<std::string_view, 4> kColours{"red", "green", "blue", "grey"};

RandomStream stream(const MadeTable& options, std::uint64_t kind, std::uint64_t sample) {
  return RandomStream({.seed = options.seed, .purpose = Purpose::kSynthetic, .step = kind, .sample = sample});
}

// A linear score for each class (or the value) of the columns; the class is the one with the highest.
class Rule {
 public:
  explicit Rule(const MadeTable& options) : scores_(std::max<std::uint64_t>(1, options.classes)) {
    RandomStream random = stream(options, kWeights, 0);
    for (std::vector<double>& weights : scores_) {
      weights.resize(options.numeric + options.categorical * kColours.size());
      std::generate(weights.begin(), weights.end(), [&] { return random.normal(); });
    }
  }
  double score(std::size_t which, const std::vector<double>& numbers, const std::vector<std::size_t>& colours) const {
    const std::vector<double>& weights = scores_[which];
    double sum = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i)
      sum += weights[i] * numbers[i];
    for (std::size_t i = 0; i < colours.size(); ++i)
      sum += weights[numbers.size() + i * kColours.size() + colours[i]];
    return sum;
  }
  std::size_t best(const std::vector<double>& numbers, const std::vector<std::size_t>& colours) const {
    std::vector<double> all(scores_.size());
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = score(i, numbers, colours);
    return static_cast<std::size_t>(std::max_element(all.begin(), all.end()) - all.begin());
  }

 private:
  std::vector<std::vector<double>> scores_;
};

}  // namespace

void make_table(const std::filesystem::path& path, const MadeTable& options) {
  if (options.numeric + options.categorical == 0 || options.classes == 1)
    throw Error(ErrorKind::kInvalidInput, "a table needs columns, and two classes or a value", path.string());
  AtomicFile file(path);
  std::string text;
  for (std::uint64_t i = 0; i < options.numeric; ++i)
    text += fmt::format("x{},", i);
  for (std::uint64_t i = 0; i < options.categorical; ++i)
    text += fmt::format("c{},", i);
  text += options.classes > 0 ? "class\n" : "value\n";
  const Rule rule(options);
  std::vector<double> numbers(options.numeric);
  std::vector<std::size_t> colours(options.categorical);
  for (std::uint64_t row = 0; row < options.rows; ++row) {
    RandomStream random = stream(options, kRows, row);
    const auto out = std::back_inserter(text);
    for (double& number : numbers) {
      number = random.normal();
      if (random.uniform() >= options.missing) fmt::format_to(out, "{:.4f}", 50 + 10 * number);
      text += ',';
    }
    for (std::size_t& colour : colours) {
      colour = static_cast<std::size_t>(random.below(kColours.size()));
      if (random.uniform() >= options.missing) text += kColours[colour];
      text += ',';
    }
    if (options.classes > 0) {
      fmt::format_to(out, "class {}\n", rule.best(numbers, colours));
    } else {
      fmt::format_to(out, "{:.5f}\n", rule.score(0, numbers, colours) + 0.1 * random.normal());
    }
    if (text.size() >= (std::size_t{1} << 20)) {
      file.write(text);
      text.clear();
    }
  }
  file.write(text);
  file.commit();
}

}  // namespace muster::data
