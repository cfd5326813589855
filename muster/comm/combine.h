// Combining the elements of several ranks, in the one order that every backend uses.
//
// Ranks are combined by a fixed balanced binary tree over rank numbers, the tree that lanes are summed by:
// tree(lo, hi) = combine(tree(lo, mid), tree(mid, hi)) with mid = lo + the largest power of two below hi - lo. A host
// whose ranks are an aligned subtree therefore sends one partial result, and several hosts give the bits of one.
// Pure functions, safe from any thread.
#pragma once

#include <cstddef>
#include <span>

#include "muster/comm/element.h"

namespace muster::comm {

constexpr std::size_t kMaxRanks = 64;  // of one combine; groups between hosts combine at most this many at a time

// output[i] = combination of inputs[0][i], inputs[1][i], ... `output` may be one of the inputs, but must not overlap
// one otherwise. REQUIRES: 1 to kMaxRanks inputs; every pointer aligned for its type.
void combine(ElementType type, Reduction reduction, std::span<const void* const> inputs, void* output,
             std::size_t count);

// Half and bfloat16 partial results travel as float, and integers that are to be averaged as wider integers, so that
// combining in two stages (hierarchical.h) rounds once, as combining in one does. The element type of partial results:
ElementType partial_type(ElementType type, Reduction reduction);
// Widens elements to their partial type; a copy where the two are the same.
void widen(ElementType type, Reduction reduction, const void* input, void* partial, std::size_t count);
// The last step of a reduction whose partial results over `ranks` ranks were combined: divides averages and rounds.
void finish(ElementType type, Reduction reduction, const void* partial, void* output, std::size_t count,
            std::size_t ranks);
// The reduction that combines partial results: sum for averages, else the same.
Reduction partial_reduction(Reduction reduction);

float to_float(Half value);
float to_float(Bfloat16 value);
// Round to nearest, ties to even.
Half to_half(float value);
Bfloat16 to_bfloat16(float value);

}  // namespace muster::comm
