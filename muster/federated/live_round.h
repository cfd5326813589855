// A round of real clients as the server sees it, and when it is over: pure, with a reason in words. No torch here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/federated/options.h"

namespace muster::federated {

// One that was asked.
struct AskedClient {
  enum class Reply { kNone, kAccepted, kRefused };
  std::uint64_t client = 0;
  Reply reply = Reply::kNone;
  bool silent = false;  // not heard of for federated.silence_seconds
};

struct RoundVerdict {
  bool over = false;
  bool changes = false;  // enough have answered
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;
  std::uint64_t dropped = 0;  // silent, or without an answer at the deadline
  std::uint64_t late = 0;     // without an answer when enough others had given theirs
  std::string reason{};
};

// It is over when per_round updates are there (with noise, where chance decides how many are asked: all of them), when
// nobody is left who could send one, or at the deadline. `seconds`: since it began.
RoundVerdict judge_round(const Options& options, std::span<const AskedClient> asked, double seconds);

}  // namespace muster::federated
