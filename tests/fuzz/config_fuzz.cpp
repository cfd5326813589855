// Fuzzes the reading of job files: Schema::load_text and Schema::set over a schema with every type of field.
//
// Any input is accepted or refused with a muster::Error whose text is fit for --json output. What is accepted prints as
// TOML that reads back to the same values.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>

#include "muster/base/config.h"

namespace {

struct Values {
  bool flag = false;
  std::int64_t count = 1;
  double rate = 0.5;
  std::string name = "x";
  std::vector<std::int64_t> sizes;
  std::vector<double> weights;
  std::vector<std::string> words;
  std::optional<std::int64_t> maybe_count;
  std::optional<double> maybe_rate;
  std::optional<std::string> maybe_name;
  std::optional<std::vector<double>> maybe_weights;
  std::int64_t epochs = 1;
  std::string optimizer = "sgd";
};

// Made once and set back to the defaults for each input: making one takes as long as reading a short input.
struct Job {
  Values values;
  muster::Schema schema;

  Job() {
    muster::Section& any = schema.section("a", "Every type.");
    any.field("flag", &values.flag, "");
    any.field("count", &values.count, "");
    any.field("rate", &values.rate, "");
    any.field("name", &values.name, "");
    any.field("sizes", &values.sizes, "");
    any.field("weights", &values.weights, "");
    any.field("words", &values.words, "");
    any.field("maybe_count", &values.maybe_count, "");
    any.field("maybe_rate", &values.maybe_rate, "");
    any.field("maybe_name", &values.maybe_name, "");
    any.field("maybe_weights", &values.maybe_weights, "");
    muster::Section& job = schema.section("job", "With limits.");
    job.field("epochs", &values.epochs, "").range(1, 1000);
    job.field("optimizer", &values.optimizer, "").one_of({"sgd", "adam"}).non_empty();
  }
};

void expect(bool condition) {
  if (!condition) std::abort();
}

// Whether `body` was accepted; everything but a muster::Error is a finding.
template <typename Body>
bool accepted(const Body& body) {
  try {
    body();
    return true;
  } catch (const muster::Error& error) {
    expect(!muster::Json(error.what()).dump().empty());
    return false;
  }
}

// Whether these values were read back before, as far as is remembered: most inputs that are accepted set nothing, or
// what another has set. (Nothing is allocated, which would look like a leak.)
bool was_checked(const std::string& text) {
  static std::array<std::size_t, 4096> checked{};
  const std::size_t hash = std::hash<std::string>()(text);
  return std::exchange(checked[hash % checked.size()], hash) == hash;
}

void expect_reads_back(const Job& job) {
  const std::string text = job.schema.to_toml();
  if (was_checked(text)) return;
  static Job copy;
  copy.values = {};
  copy.schema.load_text(text, "resolved.toml");
  expect(copy.schema.to_toml() == text);
  expect(!job.schema.to_json().dump().empty());
  expect(!job.schema.to_markdown().empty());
}

}  // namespace

// The first byte says what the others are: a job file, or a flag (whole, or the value of a string or a list).
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  static Job job;
  job.values = {};
  const bool taken = accepted([&] {
    switch (data[0] % 4) {
      case 0:
        return job.schema.load_text(text, "job.toml");
      case 1:
        return job.schema.set("a.name=" + text);
      case 2:
        return job.schema.set("a.weights=" + text);
      default:
        return job.schema.set(text);
    }
  });
  if (taken) expect_reads_back(job);
  return 0;
}
