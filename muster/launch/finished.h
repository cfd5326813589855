// How a program that was run to its end has ended, and what it printed.
#pragma once

#include <string>

namespace muster::launch {

struct Finished {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;
  std::string out;
  std::string err;
};

}  // namespace muster::launch
