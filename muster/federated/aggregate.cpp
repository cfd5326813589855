// Coordinates, and pairs of updates, are dealt out to threads in ranges; each is computed by one of them alone, so that
// the bits are the same for any number.
#include "muster/federated/aggregate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <thread>
#include <utility>

namespace muster::federated {
namespace {

void in_ranges(std::size_t count, int threads, const std::function<void(std::size_t, std::size_t)>& work) {
  const auto parts = std::min<std::size_t>(static_cast<std::size_t>(threads), std::max<std::size_t>(count, 1));
  std::vector<std::jthread> others;
  for (std::size_t part = 1; part < parts; ++part)
    others.emplace_back([&, part] { work(count * part / parts, count * (part + 1) / parts); });
  work(0, count / parts);
}

// Calls `reduce` with the values of all updates at each place: a column at a time, gathered by blocks so that each
// update's memory is read in order.
void by_coordinate(Updates updates, std::span<float> out, int threads,
                   const std::function<float(std::span<float>)>& reduce) {
  constexpr std::size_t kBlock = 256;
  in_ranges(out.size(), threads, [&](std::size_t first, std::size_t last) {
    std::vector<float> columns(kBlock * updates.size());
    for (std::size_t begin = first; begin < last; begin += kBlock) {
      const std::size_t width = std::min(kBlock, last - begin);
      for (std::size_t u = 0; u < updates.size(); ++u) {
        for (std::size_t i = 0; i < width; ++i)
          columns[i * updates.size() + u] = updates[u][begin + i];
      }
      for (std::size_t i = 0; i < width; ++i)
        out[begin + i] = reduce(std::span(columns).subspan(i * updates.size(), updates.size()));
    }
  });
}

double squared_distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return sum;
}

}  // namespace

void coordinate_median(Updates updates, std::span<float> out, int threads) {
  by_coordinate(updates, out, threads, [](std::span<float> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    if (values.size() % 2 == 1) return *middle;
    return std::midpoint(*std::max_element(values.begin(), middle), *middle);
  });
}

std::size_t trimmed_at_an_end(double trim, std::size_t n) {
  constexpr double kRounding = 1e-9;  // 0.29 * 100 is a little less than 29
  return static_cast<std::size_t>(std::floor(trim * static_cast<double>(n) + kRounding));
}

void trimmed_mean(Updates updates, double trim, std::span<float> out, int threads) {
  const std::size_t cut = trimmed_at_an_end(trim, updates.size());
  by_coordinate(updates, out, threads, [cut](std::span<float> values) {
    std::ranges::sort(values);
    double sum = 0;
    for (const float value : values.subspan(cut, values.size() - 2 * cut))
      sum += value;
    return static_cast<float>(sum / static_cast<double>(values.size() - 2 * cut));
  });
}

std::vector<std::size_t> choose_by_krum(Updates updates, std::size_t false_ones, std::size_t keep, int threads) {
  const std::size_t n = updates.size();
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = a + 1; b < n; ++b)
      pairs.emplace_back(a, b);
  }
  std::vector<double> distances(n * n);
  in_ranges(pairs.size(), threads, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      const auto [a, b] = pairs[i];
      distances[a * n + b] = distances[b * n + a] = squared_distance(updates[a], updates[b]);
    }
  });
  const std::size_t nearest = n - false_ones - 2;
  std::vector<double> scores(n);
  for (std::size_t a = 0; a < n; ++a) {
    std::vector<double> others;
    for (std::size_t b = 0; b < n; ++b) {
      if (b != a) others.push_back(distances[a * n + b]);
    }
    std::ranges::sort(others);
    scores[a] = std::accumulate(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(nearest), 0.0);
  }
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t a) { return scores[a]; });
  order.resize(keep);
  return order;
}

void mean_of(Updates updates, std::span<const std::size_t> chosen, std::span<float> out) {
  const auto count = static_cast<double>(chosen.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    double sum = 0;
    for (const std::size_t u : chosen)
      sum += updates[u][i];
    out[i] = static_cast<float>(sum / count);
  }
}

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

double norm(std::span<const float> update) {
  double squares = 0;
  for (const float value : update)
    squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

double clip_to(std::span<float> update, double most) {
  const double length = norm(update);
  if (!(length > most)) return 1;
  const double factor = most / length;
  for (float& value : update)
    value = static_cast<float>(static_cast<double>(value) * factor);
  return factor;
}

}  // namespace muster::federated
