// Decimal numbers out of text, as fast as tables need them.
#pragma once

#include <optional>
#include <string_view>

namespace muster::data {

// `text`, spaces around it aside, as a finite float: sign, digits, point, exponent. Nothing for anything else, for
// "nan" and "inf", and for numbers beyond what a float holds; those below its smallest become 0. Every value is the
// nearest double, rounded to float.
std::optional<float> parse_float(std::string_view text);

}  // namespace muster::data
