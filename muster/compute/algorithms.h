// What the files of the single algorithms share: how they are made, and how a loop covers a block. Internal
// to this folder.
//
// An algorithm writes its formula once, as a struct with its constants and run(): a plain loop over
// restricted pointers. cover() runs it straight into the outputs, or line by line past the caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "muster/base/kernel.h"
#include "muster/compute/optimizer.h"

namespace muster::compute {

// Each checks its options as make_optimizer() promises.
std::unique_ptr<const Optimizer> make_sgd(const Sgd& options);
std::unique_ptr<const Optimizer> make_adam(const Adam& options);
std::unique_ptr<const Optimizer> make_adamw(const AdamW& options);
std::unique_ptr<const Optimizer> make_lars(const Lars& options);
std::unique_ptr<const Optimizer> make_lamb(const Lamb& options);
std::unique_ptr<const Optimizer> make_own(const OwnOptimizer& options);

// Throws Error{kInvalidInput} "ALGORITHM: OPTION = VALUE is not ALLOWED" unless `condition`.
void require_option(bool condition, const char* algorithm, const char* option, double value, const char* allowed);
void require_not_negative(const char* algorithm, const char* option, double value);
void require_below_one(const char* algorithm, const char* option, double value);

// Stops the process when lengths do not fit or the step is 0.
void check_block(const BlockInput& input, const TensorStep& step, int slots);
void check_block(const BlockInput& input, const TensorStep& step, int slots, const BlockOutput& output);

// 1 - beta1 ^ step and 1 - beta2 ^ step.
struct BiasCorrection {
  BiasCorrection(double beta1, double beta2, std::uint64_t step);
  double first;
  double second;
};

// Where a kernel reads and writes. Pointers to slots that the algorithm does not have are null or empty.
struct Inputs {
  const float* parameters;
  const float* gradient;
  const float* state[kMaxSlots];
};
struct Outputs {
  float* parameters;
  float* state[kMaxSlots];
};

inline Inputs inputs_of(const BlockInput& input) {
  return {input.parameters.data(), input.gradient.data(), {input.state[0].data(), input.state[1].data()}};
}
inline Outputs outputs_of(const BlockOutput& output) {
  return {output.parameters.data(), {output.state[0].data(), output.state[1].data()}};
}

template <std::size_t kSlots>
MUSTER_KERNEL_BODY Inputs advance(Inputs from, std::size_t floats) {
  from.parameters += floats;
  from.gradient += floats;
  for (std::size_t slot = 0; slot < kSlots; ++slot)
    from.state[slot] += floats;
  return from;
}

template <std::size_t kSlots>
MUSTER_KERNEL_BODY Outputs advance(Outputs to, std::size_t floats) {
  to.parameters += floats;
  for (std::size_t slot = 0; slot < kSlots; ++slot)
    to.state[slot] += floats;
  return to;
}

// Calls loop.run(w, g, s0, s1, count, w_out, s0_out, s1_out) on plain pointers.
template <class Loop>
MUSTER_KERNEL_BODY void run(const Loop& loop, const Inputs& from, std::size_t count, const Outputs& to) {
  loop.run(from.parameters, from.gradient, from.state[0], from.state[1], count, to.parameters, to.state[0],
           to.state[1]);
}

#ifdef __SSE2__
constexpr std::size_t kLineFloats = 16;  // a line of the cache

MUSTER_KERNEL_BODY bool on_line(const float* address) {
  return reinterpret_cast<std::uintptr_t>(address) % (kLineFloats * sizeof(float)) == 0;
}

MUSTER_KERNEL_BODY void stream_line(const float* line, float* to) {
  for (std::size_t i = 0; i < kLineFloats; i += 4)
    _mm_stream_ps(to + i, _mm_load_ps(line + i));
}

// Runs the loop line by line into local arrays, which the compiler keeps in registers, and streams them out.
// (Measured: larger pieces, staged in the first cache level, are slower than no streaming at all, and so is
// prefetching by hand.) Returns how many floats it covered; all outputs start on a line.
template <std::size_t kSlots, class Loop>
MUSTER_KERNEL_BODY std::size_t stream_lines(const Loop& loop, const Inputs& from, std::size_t count,
                                            const Outputs& to) {
  std::size_t done = 0;
  for (; done + kLineFloats <= count; done += kLineFloats) {
    alignas(64) float lines[1 + kMaxSlots][kLineFloats];
    run(loop, advance<kSlots>(from, done), kLineFloats, Outputs{lines[0], {lines[1], lines[2]}});
    const Outputs line_out = advance<kSlots>(to, done);
    stream_line(lines[0], line_out.parameters);
    for (std::size_t slot = 0; slot < kSlots; ++slot)
      stream_line(lines[1 + slot], line_out.state[slot]);
  }
  // Streamed stores are weakly ordered: without the fence a commit flag could be seen before them.
  _mm_sfence();
  return done;
}
#endif

// Covers a block with the loop, whose outputs are the parameters and kSlots arrays of state. Streaming is
// left out where outputs do not start on a line, and on processors that do not have it.
template <std::size_t kSlots, class Loop>
MUSTER_KERNEL_BODY void cover(const Loop& loop, const Inputs& from, std::size_t count, const Outputs& to,
                              Stores stores) {
  std::size_t done = 0;
#ifdef __SSE2__
  bool aligned = on_line(to.parameters);
  for (std::size_t slot = 0; slot < kSlots; ++slot)
    aligned = aligned && on_line(to.state[slot]);
  if (stores == Stores::kStreamed && aligned) done = stream_lines<kSlots>(loop, from, count, to);
#else
  static_cast<void>(stores);
#endif
  run(loop, advance<kSlots>(from, done), count - done, advance<kSlots>(to, done));
}

}  // namespace muster::compute
