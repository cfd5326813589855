// A TOML document as plain values, each with its line: what the configuration knows of the library that reads it.
//
// toml11's releases 3 and 4 have different types and different errors. Each has a source of its own
// (toml_parser_3.cpp, toml_parser_4.cpp), of which CMake takes the one that fits; nothing else includes toml11.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace muster {

struct TomlEntry;

struct TomlMoment {};  // a date or time, which no key of ours takes

struct TomlValue {
  using Array = std::vector<TomlValue>;
  using Table = std::vector<TomlEntry>;  // in the order of the file

  std::variant<TomlMoment, bool, std::int64_t, double, std::string, Array, Table> data;
  std::uint64_t line = 0;  // 0: not known

  template <typename T>
  const T* get() const {
    return std::get_if<T>(&data);
  }
};

struct TomlEntry {
  std::string key;
  TomlValue value;
};

// The document in `text`, a table. Throws Error{kInvalidInput} with "name:line" and the reason when it is not valid
// TOML, and what checked_toml (toml_text.h) throws.
TomlValue parse_toml(std::string_view text, const std::string& name);

}  // namespace muster
