// What the models of the zoo ask of their options; a value that makes no network is the user's mistake and named as
// such. No torch here.
#pragma once

#include <cstdint>
#include <string_view>

namespace muster::zoo {

// Throws kInvalidInput, naming model and option, unless `value` >= `least`.
void require_at_least(std::string_view model, std::string_view option, std::int64_t value, std::int64_t least);
// Throws kInvalidInput unless 0 <= `dropout` < 1.
void require_dropout(std::string_view model, double dropout);

}  // namespace muster::zoo
