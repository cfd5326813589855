// A few named numbers that a step's lanes report beside their losses: the KL term of a VAE, a discriminator's score.
//
// A figure is a mean over samples, kept as a sum and a weight, so that those of lanes of different sizes add up. It is
// of a fixed size and trivially copyable, because it lies in shared memory and travels as bytes. No torch here.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace muster::compute {

class Figures {
 public:
  static constexpr std::size_t kMost = 8;
  static constexpr std::size_t kLongestName = 23;

  struct Entry {
    std::array<char, kLongestName + 1> text{};  // ends with a zero
    double sum = 0;
    double weight = 0;

    std::string_view name() const { return text.data(); }
    double mean() const { return sum / weight; }
    bool operator==(const Entry&) const = default;
  };

  // Adds `value`, a mean over `samples` of them; the same name may come again. Throws Error{kInvalidInput} when the
  // name is empty or too long, or there are too many names.
  void add(std::string_view name, double value, double samples);
  // Adds all that `others` has, in its order.
  void add(const Figures& others);

  // In the order in which names came first.
  std::span<const Entry> entries() const { return {entries_.data(), count_}; }
  // Nothing if nobody has reported it.
  std::optional<double> mean(std::string_view name) const;
  bool operator==(const Figures&) const = default;

 private:
  Entry& entry(std::string_view name);

  std::array<Entry, kMost> entries_{};
  std::size_t count_ = 0;
};

}  // namespace muster::compute
