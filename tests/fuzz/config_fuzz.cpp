// Fuzzes the reading of job files: Schema::load_text and Schema::set over a schema with every type of field.
//
// Any input is accepted or refused with a muster::Error whose text is fit for --json output. What is accepted prints as
// TOML that reads back to the same values.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "muster/base/config.h"

namespace {

struct Job {
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
  muster::Schema schema;

  Job() {
    muster::Section& any = schema.section("a", "Every type.");
    any.field("flag", &flag, "");
    any.field("count", &count, "");
    any.field("rate", &rate, "");
    any.field("name", &name, "");
    any.field("sizes", &sizes, "");
    any.field("weights", &weights, "");
    any.field("words", &words, "");
    any.field("maybe_count", &maybe_count, "");
    any.field("maybe_rate", &maybe_rate, "");
    any.field("maybe_name", &maybe_name, "");
    any.field("maybe_weights", &maybe_weights, "");
    muster::Section& job = schema.section("job", "With limits.");
    job.field("epochs", &epochs, "").range(1, 1000);
    job.field("optimizer", &optimizer, "").one_of({"sgd", "adam"}).non_empty();
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

void expect_reads_back(const Job& job) {
  const std::string text = job.schema.to_toml();
  Job copy;
  copy.schema.load_text(text, "resolved.toml");
  expect(copy.schema.to_toml() == text);
  expect(!job.schema.to_json().dump().empty());
  expect(!job.schema.to_markdown().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Job loaded;
  if (accepted([&] { loaded.schema.load_text(text, "job.toml"); })) expect_reads_back(loaded);
  // Flags are short; leaving long inputs to load_text doubles the rate.
  constexpr std::size_t kLongestFlag = 100;
  if (size > kLongestFlag) return 0;
  Job set;
  if (accepted([&] { set.schema.set("a.name=" + std::string(text)); })) expect_reads_back(set);
  if (accepted([&] { set.schema.set("a.weights=" + std::string(text)); })) expect_reads_back(set);
  accepted([&] { set.schema.set(std::string(text)); });
  return 0;
}
