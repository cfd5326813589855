// Words for people: the nearest name to a typo, sizes and durations.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace muster {

// The candidate that `word` was probably meant to be, or nothing when none is near (edits, swapped letters
// count one).
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

// ` (did you mean "lr"?)`, or an empty text when nothing is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

// "a, b and c".
std::string join_words(std::span<const std::string> words);

// "47.2 MB" (decimal units).
std::string human_bytes(std::uint64_t bytes);

// "850 ms", "12.3 s", "3:07", "2:05:09".
std::string human_duration(std::chrono::nanoseconds duration);

}  // namespace muster
