// Shared out by the shards that partitioning has (data/partition); drawn by streams that are keyed by the client, with
// a mix of labels that its first numbers decide.
#include "muster/federated/client_split.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/random.h"
#include "muster/data/gamma_draw.h"
#include "muster/data/partition/label_shards.h"
#include "muster/data/permutation.h"

namespace muster::federated {
namespace {

constexpr std::uint64_t kHeldOutLane = 1000;  // apart from other draws of this purpose

constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 32;

data::Shards random_shards(std::uint64_t samples, std::uint64_t clients, std::uint64_t seed) {
  const data::Permutation order(samples, StreamKey{.seed = seed, .purpose = Purpose::kClientSamples});
  const data::Shards places = data::Shards::consecutive(samples, clients);
  std::vector<std::uint32_t> client_of(samples);
  for (std::uint64_t client = 0; client < clients; ++client) {
    for (std::uint64_t i = 0; i < places.size(client); ++i)
      client_of[order(places.sample(client, i))] = static_cast<std::uint32_t>(client);
  }
  return data::Shards::listed(client_of, clients);
}

data::Shards read_shards(const std::filesystem::path& path, std::uint64_t samples, std::uint64_t clients) {
  const std::string text = read_text(path, kLargestFile);
  std::vector<std::uint32_t> client_of;
  client_of.reserve(samples);
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    std::uint32_t client = 0;
    const auto [next, error] = std::from_chars(at, end, client);
    const std::string where = fmt::format("{}:{}", path.string(), client_of.size() + 1);
    if (error != std::errc() || (next != end && *next != '\n'))
      throw Error(ErrorKind::kInvalidInput, "a line is the number of a client, and nothing else", where,
                  "Line i is the client of sample i, counted from 0.");
    if (client >= clients)
      throw Error(ErrorKind::kInvalidInput, fmt::format("client {} of {}", client, clients), where,
                  "Set federated.clients to one more than the largest number.");
    client_of.push_back(client);
    at = next == end ? end : next + 1;
  }
  if (client_of.size() != samples)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("has {} lines for the {} samples of the training set", client_of.size(), samples),
                path.string(), "It needs a line for each sample, in their order.");
  return data::Shards::listed(client_of, clients);
}

data::Shards share_out(const SplitOptions& options, std::uint64_t samples,
                       const std::function<std::vector<std::int64_t>()>& labels) {
  if (options.drawn > 0) return data::Shards::consecutive(samples, 1);
  if (options.clients > samples && options.split.kind != Split::Kind::kFile)
    throw Error(ErrorKind::kInvalidInput, fmt::format("{} clients share {} samples", options.clients, samples),
                "federated.clients", "Let every client draw its samples instead: federated.client_samples.");
  switch (options.split.kind) {
    case Split::Kind::kIid:
      return random_shards(samples, options.clients, options.seed);
    case Split::Kind::kDirichlet:
      return data::dirichlet_shards(labels(), options.clients, options.split.alpha, options.seed);
    case Split::Kind::kFile:
      return read_shards(options.split.file, samples, options.clients);
  }
  return data::Shards::consecutive(samples, options.clients);
}

}  // namespace

Split parse_split(std::string_view word) {
  const auto refuse = [&](const std::string& why) {
    return Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" {}", word, why), {},
                 "Splits are iid, dirichlet:ALPHA and file:PATH.");
  };
  if (word == "iid") return {};
  constexpr std::string_view kDirichlet = "dirichlet:";
  constexpr std::string_view kFile = "file:";
  if (word.starts_with(kDirichlet)) {
    const std::string_view number = word.substr(kDirichlet.size());
    double alpha = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), alpha);
    if (error != std::errc() || end != number.data() + number.size() || !std::isfinite(alpha) || alpha <= 0)
      throw refuse("needs a number above 0");
    return {.kind = Split::Kind::kDirichlet, .alpha = alpha};
  }
  if (word.starts_with(kFile)) {
    if (word.size() == kFile.size()) throw refuse("names no file");
    return {.kind = Split::Kind::kFile, .file = std::filesystem::path(word.substr(kFile.size()))};
  }
  throw refuse("is no split");
}

ClientSplit::ClientSplit(const SplitOptions& options, std::uint64_t samples,
                         const std::function<std::vector<std::int64_t>()>& labels)
    : options_(options), samples_(samples), shards_(share_out(options, samples, labels)) {
  if (options_.drawn == 0) return;
  if (options_.split.kind == Split::Kind::kFile)
    throw Error(ErrorKind::kInvalidInput, "a file says whose samples are whose, and clients draw them",
                "federated.split", "Remove federated.client_samples, or use another split.");
  if (options_.split.kind == Split::Kind::kIid) return;
  const std::vector<std::int64_t> all = labels();
  for (std::uint64_t sample = 0; sample < all.size(); ++sample) {
    const auto label = static_cast<std::size_t>(all[sample]);
    if (label >= by_label_.size()) by_label_.resize(label + 1);
    by_label_[label].push_back(sample);
  }
  std::erase_if(by_label_, [](const auto& of_label) { return of_label.empty(); });
}

std::uint64_t ClientSplit::size(std::uint64_t client) const {
  return options_.drawn > 0 ? options_.drawn : shards_.size(client);
}

std::vector<std::uint64_t> ClientSplit::samples(std::uint64_t client) const {
  if (options_.drawn > 0) return draw(client);
  std::vector<std::uint64_t> ids(shards_.size(client));
  for (std::uint64_t i = 0; i < ids.size(); ++i)
    ids[i] = shards_.sample(client, i);
  return ids;
}

std::vector<std::uint64_t> ClientSplit::draw(std::uint64_t client) const {
  RandomStream draws({.seed = options_.seed, .purpose = Purpose::kClientSamples, .step = 1, .sample = client});
  std::vector<std::uint64_t> ids(options_.drawn);
  if (by_label_.empty()) {
    for (std::uint64_t& id : ids)
      id = draws.below(samples_);
    return ids;
  }
  // The client's part of each label, as running sums: exp(log gamma - largest) is in proportion to the gammas.
  std::vector<double> bounds(by_label_.size());
  for (double& bound : bounds)
    bound = data::draw_log_gamma(options_.split.alpha, draws);
  const double largest = *std::ranges::max_element(bounds);
  double sum = 0;
  for (double& bound : bounds)
    bound = sum += std::exp(bound - largest);
  for (std::uint64_t& id : ids) {
    const auto found = std::ranges::upper_bound(bounds, draws.uniform() * sum);
    const auto label = std::min(static_cast<std::size_t>(found - bounds.begin()), by_label_.size() - 1);
    id = by_label_[label][draws.below(by_label_[label].size())];
  }
  return ids;
}

ClientSamples hold_out(std::vector<std::uint64_t> samples, std::uint64_t held_out, std::uint64_t seed,
                       std::uint64_t client) {
  if (held_out == 0) return {.train = std::move(samples)};
  const data::Permutation order(
      samples.size(), {.seed = seed, .purpose = Purpose::kClientSamples, .lane = kHeldOutLane, .sample = client + 1});
  std::vector<std::uint8_t> tests(samples.size());
  for (std::uint64_t i = 0; i < held_out; ++i)
    tests[order(i)] = 1;
  ClientSamples parts;
  for (std::size_t i = 0; i < samples.size(); ++i)
    (tests[i] != 0 ? parts.test : parts.train).push_back(samples[i]);
  return parts;
}

}  // namespace muster::federated
