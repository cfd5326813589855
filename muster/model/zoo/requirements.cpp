// Comparisons are written so that a NaN fails them too. Every refusal is an Error with the model's name, since options
// come straight from job files.
#include "muster/model/zoo/requirements.h"

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::zoo {

void require_at_least(std::string_view model, std::string_view option, std::int64_t value, std::int64_t least) {
  if (value < least) {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("model {}: {} is {}; it must be at least {}", model, option, value, least));
  }
}

void require_dropout(std::string_view model, double dropout) {
  // Written so that a NaN is refused too.
  if (!(dropout >= 0 && dropout < 1)) {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("model {}: dropout is {}; it must be at least 0 and below 1", model, dropout));
  }
}

}  // namespace muster::zoo
