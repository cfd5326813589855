// How kernels are compiled: one source, several machine codes, the same bits.
//
// A kernel is a plain loop over floats. MUSTER_KERNEL makes the compiler emit it for AVX2 and for baseline
// x86-64; the loader takes the one that the processor has. Both do the same IEEE operations in the same
// order: the build forbids contraction to fused multiply-add, no kernel is compiled with -ffast-math, and a
// sum has a fixed number of accumulators written out in the source. tests/unit/compute/kernel_bits_test.cpp
// holds both to the same bits. MUSTER_PLAIN_KERNELS leaves only the baseline: sanitizers cannot live with the
// loader's choice, which runs before them.
#pragma once

#if defined(__x86_64__) && !defined(MUSTER_PLAIN_KERNELS)
#define MUSTER_KERNEL __attribute__((target_clones("avx2", "default")))
#else
#define MUSTER_KERNEL
#endif

// A loop body that must become part of the kernel around it, so that it is compiled once for each processor.
#define MUSTER_KERNEL_BODY __attribute__((always_inline)) inline
