// Samples are read ahead by the loader and written in order. A shard is there when it is whole; an existing set is
// never written over.
#include "muster/data/pack.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/data/loader.h"

namespace muster::data {
namespace {

constexpr std::uint64_t kMostShards = 512;  // each is an open file of every worker
constexpr std::uint64_t kSamplesTried = 256;
constexpr std::chrono::minutes kReadTimeout{10};

// Room for one sample, owned.
struct OwnedSample {
  explicit OwnedSample(const SampleSpec& spec)
      : features(spec.input == InputKind::kFloats ? spec.elements() : 0),
        tokens(spec.input == InputKind::kTokens ? spec.elements() : 0),
        labels(spec.target != TargetKind::kValues ? spec.target_elements() : 0),
        values(spec.target == TargetKind::kValues ? spec.target_elements() : 0) {}
  SampleRoom room() { return {.features = features, .tokens = tokens, .labels = labels, .values = values}; }

  std::vector<float> features;
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> labels;
  std::vector<float> values;
};

PackedElement token_element(std::int64_t vocabulary) {
  if (vocabulary <= 1 << 8) return PackedElement::kU8;
  return vocabulary <= 1 << 16 ? PackedElement::kU16 : PackedElement::kU32;
}

// Bytes with the scale that the source has, as ImageDataset computes it.
PackedLayout byte_layout(const SampleSpec& spec, const Normalization& normalization) {
  PackedLayout layout{.spec = spec, .element = PackedElement::kU8};
  for (std::size_t c = 0; c < normalization.mean.size(); ++c) {
    const double stddev = normalization.stddev[c];
    layout.scale.push_back(static_cast<float>(1.0 / (255.0 * stddev)));
    layout.shift.push_back(static_cast<float>(-normalization.mean[c] / stddev));
  }
  return layout;
}

PackedLayout choose_layout(const Dataset& dataset, const Normalization& normalization, const PackOptions& options) {
  const SampleSpec& spec = dataset.spec();
  if (spec.input == InputKind::kTokens)
    return {.spec = spec, .element = token_element(std::max(spec.vocabulary, spec.classes))};
  const PackedLayout floats{.spec = spec, .element = PackedElement::kF32};
  const bool wanted = options.element == PackedElement::kU8;
  const bool possible =
      !normalization.mean.empty() && spec.elements() % normalization.mean.size() == 0 && spec.shape.size() > 1;
  if (options.element == PackedElement::kF32 || (!possible && !wanted)) return floats;
  if (!possible) {
    throw Error(ErrorKind::kMismatch, "these samples are not pictures of bytes", {}, "Leave the element type out.");
  }
  PackedLayout bytes = byte_layout(spec, normalization);
  OwnedSample sample(spec);
  std::vector<std::byte> record(bytes.record_bytes());
  const std::uint64_t tried = std::min(dataset.size(), kSamplesTried);
  for (std::uint64_t i = 0; i < tried; ++i) {
    dataset.read_sample(dataset.size() / tried * i, sample.room());
    if (!encode_record(bytes, sample.room(), record) && !wanted) return floats;
  }
  return bytes;
}

// The samples of a data set in order, read ahead.
class InOrder {
 public:
  InOrder(const std::shared_ptr<const Dataset>& dataset, int threads)
      : samples_(dataset->size()), loader_(dataset, {.threads = threads}) {}

  Batch next() {
    while (tickets_.size() < kAhead && submitted_ < samples_) {
      std::vector<std::uint64_t> ids(std::min(kBatch, samples_ - submitted_));
      std::iota(ids.begin(), ids.end(), submitted_);
      submitted_ += ids.size();
      tickets_.push_back(loader_.submit(std::move(ids)));
    }
    Batch batch = loader_.take(tickets_.front(), Deadline::after(kReadTimeout));
    tickets_.pop_front();
    return batch;
  }
  void recycle(Batch batch) { loader_.recycle(std::move(batch)); }

 private:
  static constexpr std::uint64_t kBatch = 64;
  static constexpr std::size_t kAhead = 8;

  const std::uint64_t samples_;
  Loader loader_;
  std::deque<Loader::Ticket> tickets_;
  std::uint64_t submitted_ = 0;
};

template <typename T>
std::span<T> part(std::span<T> all, std::size_t index, std::uint64_t elements) {
  return all.empty() ? all : all.subspan(index * elements, elements);
}

SampleRoom sample_of(Batch& batch, std::size_t index, const SampleSpec& spec) {
  return {.features = part(batch.features.span(), index, spec.elements()),
          .tokens = part(std::span(batch.tokens), index, spec.elements()),
          .labels = part(std::span(batch.labels), index, spec.target_elements()),
          .values = part(std::span(batch.values), index, spec.target_elements())};
}

void require_free(const std::filesystem::path& folder, const std::string& set) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(set + "-") && name.ends_with(".pack")) {
      throw Error(ErrorKind::kInvalidInput, "is there already", entry.path().string(),
                  "Remove the old shards, or pack into another folder.");
    }
  }
}

}  // namespace

PackResult pack(const std::shared_ptr<const Dataset>& dataset, const Normalization& normalization,
                const std::filesystem::path& folder, const std::string& set, const PackOptions& options) {
  if (dataset->size() == 0) throw Error(ErrorKind::kInvalidInput, fmt::format("the set {} has no samples", set));
  make_folder(folder);
  require_free(folder, set);
  PackedHeader header;
  header.layout = choose_layout(*dataset, normalization, options);
  const std::uint64_t record_bytes = header.layout.record_bytes();
  const std::uint64_t by_size = dataset->size() / std::max<std::uint64_t>(1, options.shard_bytes / record_bytes) + 1;
  header.samples = dataset->size();
  header.shards = std::min(options.shards > 0 ? options.shards : std::min(by_size, kMostShards), header.samples);
  if (header.shards > kMostShards) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("{} shards are more than {}", header.shards, kMostShards));
  }
  PackResult result{.samples = header.samples, .shards = header.shards, .element = header.layout.element};
  InOrder samples(dataset, options.threads);
  Batch batch;
  std::size_t used = 0;
  std::vector<std::byte> buffer;
  for (header.shard = 0; header.shard < header.shards; ++header.shard) {
    const auto begin_of = [&](std::uint64_t shard) {
      return shard * (header.samples / header.shards) + std::min(shard, header.samples % header.shards);
    };
    header.first = begin_of(header.shard);
    header.count = begin_of(header.shard + 1) - header.first;
    AtomicFile file(folder / shard_name(set, header.shard, header.shards));
    file.write(packed_front(header));
    for (std::uint64_t i = 0; i < header.count; ++i, ++used) {
      if (used == batch.size()) {
        samples.recycle(std::move(batch));
        batch = samples.next();
        used = 0;
        if (options.progress) options.progress(header.first + i);
      }
      buffer.resize(buffer.size() + record_bytes);
      const bool exact = encode_record(header.layout, sample_of(batch, used, header.layout.spec),
                                       std::span(buffer).last(record_bytes), options.round);
      if (!exact) {
        throw Error(ErrorKind::kMismatch,
                    fmt::format("sample {} of the set {} is not made of bytes", header.first + i, set), {},
                    "Pack it as floats (--element f32), or let pictures be rounded to 256 levels (--round).");
      }
      if (buffer.size() >= (std::size_t{1} << 20) || i + 1 == header.count) {
        file.write(std::span<const std::byte>(buffer));
        buffer.clear();
      }
    }
    file.commit();
    result.bytes += header.data_offset + header.count * record_bytes;
  }
  return result;
}

}  // namespace muster::data
