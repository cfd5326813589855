// muster bench search: what searchers find on functions whose minimum is known, and what a question costs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::cli {

struct SearchBench {
  std::vector<std::string> searchers{"tpe", "cma_es"};
  std::vector<std::string> functions;    // empty: all
  std::vector<std::string> assignments;  // options of the searchers, key=value
  std::int64_t trials = 100;
  std::int64_t seeds = 20;
  std::int64_t history = 0;  // times questions after so many finished trials, instead
  bool json = false;
};
void bench_search(const SearchBench& options);

}  // namespace muster::cli
