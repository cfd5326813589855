// Fields of CSV files that we write.
#pragma once

#include <string>
#include <string_view>

namespace muster::cli {

// In quotes where it has to be (RFC 4180).
inline std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace muster::cli
