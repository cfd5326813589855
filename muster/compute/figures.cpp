// Names are looked for one by one, because there are eight of them at most; whoever adds another one is told so and not
// left without it.
#include "muster/compute/figures.h"

#include <algorithm>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::compute {

Figures::Entry& Figures::entry(std::string_view name) {
  const auto known = std::find_if(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(count_),
                                  [&](const Entry& entry) { return entry.name() == name; });
  if (known != entries_.begin() + static_cast<std::ptrdiff_t>(count_)) return *known;
  if (name.empty() || name.size() > kLongestName || name.find('\0') != std::string_view::npos)
    throw Error(ErrorKind::kInvalidInput, fmt::format("a figure cannot be called \"{}\"", name), {},
                fmt::format("Use 1 to {} letters.", kLongestName));
  if (count_ == kMost)
    throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is one figure too many", name), {},
                fmt::format("A step has at most {} of them.", kMost));
  Entry& made = entries_[count_++];
  std::ranges::copy(name, made.text.begin());
  return made;
}

void Figures::add(std::string_view name, double value, double samples) {
  Entry& to = entry(name);
  to.sum += value * samples;
  to.weight += samples;
}

void Figures::add(const Figures& others) {
  for (const Entry& other : others.entries()) {
    Entry& to = entry(other.name());
    to.sum += other.sum;
    to.weight += other.weight;
  }
}

std::optional<double> Figures::mean(std::string_view name) const {
  for (const Entry& entry : entries()) {
    if (entry.name() == name && entry.weight > 0) return entry.mean();
  }
  return std::nullopt;
}

}  // namespace muster::compute
