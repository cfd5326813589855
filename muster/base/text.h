// Words for people: the nearest name to a typo, sizes and durations.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace muster {

// The candidate that `word` was probably meant to be, or nothing when none is near. An edit or two swapped letters
// count one, capitals nothing.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

// ` (did you mean "lr"?)`, or an empty text when nothing is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

// "a, b and c".
std::string join_words(std::span<const std::string> words);

// "1,234,567".
std::string grouped(std::uint64_t value);

// "47.2 MB" (decimal units).
std::string human_bytes(std::uint64_t bytes);

// "850 ms", "12.3 s", "3:07", "2:05:09".
std::string human_duration(std::chrono::nanoseconds duration);

// How many bytes at the start of `text` are whole, valid UTF-8 characters.
std::size_t valid_utf8_prefix(std::string_view text);

// `text` as it may stand in a message: cut between two characters to at most `most_bytes` (then "..." follows), with a
// question mark for every byte that is a control character or no UTF-8.
std::string excerpt(std::string_view text, std::size_t most_bytes = 80);

}  // namespace muster
