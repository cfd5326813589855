// muster bench ps: see ps.cpp. No torch here.
#pragma once

#include <cstdint>
#include <string>

namespace muster::cli {

struct PsBench {
  std::int64_t servers = 1;
  std::int64_t workers = 1;
  double mb = 46;  // of parameters, in millions of bytes
  std::int64_t chunk_kb = 256;
  std::string transport = "shm";
  bool sparse = false;
  std::int64_t rows = 1000000;
  std::int64_t width = 64;
  std::int64_t batch = 10000;  // keys
  std::int64_t rounds = 100;
  bool json = false;
  // Of the processes it starts itself.
  std::string rank_folder;
  std::int64_t rank = 0;
};
// Throws kPeerLost when one of its processes ends badly.
void bench_ps(const PsBench& options);

}  // namespace muster::cli
