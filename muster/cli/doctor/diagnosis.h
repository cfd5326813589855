// What `muster doctor` says of one thing that it has looked at. No torch here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/json.h"

namespace muster::cli {

enum class Health { kOk, kWarning, kWrong };

struct Diagnosis {
  Health health = Health::kOk;
  std::string host;    // whose it is; empty: of all of them together
  std::string what;    // "memory"
  std::string words;   // what was found
  std::string remedy;  // what to do; empty where nothing has to be done
};

inline std::string_view to_string(Health health) {
  return health == Health::kOk ? "ok" : health == Health::kWarning ? "warning" : "wrong";
}

inline Json to_json(const Diagnosis& diagnosis) {
  return {{"health", to_string(diagnosis.health)},
          {"host", diagnosis.host},
          {"what", diagnosis.what},
          {"found", diagnosis.words},
          {"remedy", diagnosis.remedy}};
}

}  // namespace muster::cli
