// Everything goes into one hash, in a fixed order, each part with its length before it: what differs cannot move from
// one part to the next.
#include "muster/data/fingerprint.h"

#include <algorithm>
#include <span>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/hash.h"

namespace muster::data {
namespace {

constexpr std::size_t kDigits = 16;

template <typename T>
void add(Sha256& hash, std::span<const T> values) {
  const std::uint64_t count = values.size();
  hash.update(std::as_bytes(std::span(&count, 1)));
  hash.update(std::as_bytes(values));
}

void add_number(Sha256& hash, std::int64_t number) {
  add(hash, std::span<const std::int64_t>(&number, 1));
}

void add_spec(Sha256& hash, const SampleSpec& spec) {
  for (const auto* extents : {&spec.shape, &spec.target_shape, &spec.columns})
    add(hash, std::span<const std::int64_t>(*extents));
  for (const std::int64_t number :
       {spec.classes, spec.vocabulary, static_cast<std::int64_t>(spec.input), static_cast<std::int64_t>(spec.target)})
    add_number(hash, number);
  for (const std::string& name : spec.class_names)
    add(hash, std::span<const char>(name));
}

void add_labels(Sha256& hash, const Dataset& dataset) {
  if (dataset.spec().target != TargetKind::kClass || !dataset.knows_labels()) return;
  std::vector<std::int64_t> labels(dataset.size());
  for (std::uint64_t id = 0; id < dataset.size(); ++id)
    labels[id] = dataset.label(id);
  add(hash, std::span<const std::int64_t>(labels));
}

void add_samples(Sha256& hash, const Dataset& dataset) {
  const SampleSpec& spec = dataset.spec();
  const bool tokens = spec.input == InputKind::kTokens;
  const bool values = spec.target == TargetKind::kValues;
  std::vector<float> features(tokens ? 0 : spec.elements());
  std::vector<std::int64_t> words(tokens ? spec.elements() : 0);
  std::vector<std::int64_t> labels(values ? 0 : spec.target_elements());
  std::vector<float> numbers(values ? spec.target_elements() : 0);
  const std::uint64_t size = dataset.size();
  const std::uint64_t count = std::min(kPrintedSamples, size);
  for (std::uint64_t i = 0; i < count; ++i) {
    // The first and the last are among them.
    const std::uint64_t id = count == 1 ? 0 : (size - 1) / (count - 1) * i + (size - 1) % (count - 1) * i / (count - 1);
    try {
      dataset.read_sample(id, {features, words, labels, numbers});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kDamaged) throw;
      add_number(hash, -1);
      continue;
    }
    add(hash, std::span<const float>(features));
    add(hash, std::span<const std::int64_t>(words));
    add(hash, std::span<const std::int64_t>(labels));
    add(hash, std::span<const float>(numbers));
  }
}

}  // namespace

std::string fingerprint(const Dataset& dataset) {
  Sha256 hash;
  add_number(hash, static_cast<std::int64_t>(dataset.size()));
  add_spec(hash, dataset.spec());
  add_labels(hash, dataset);
  add_samples(hash, dataset);
  return hash.finish().substr(0, kDigits);
}

}  // namespace muster::data
