// Typed configuration: a Schema binds the keys of a TOML file to the members of a struct, once, with type,
// limits, default and help. Reading, printing every resolved value, and the reference page of the
// documentation all come from that one description, so none of them can go stale.
//
//   Schema schema;
//   Section& job = schema.section("job", "What to train and for how long.");
//   job.field("epochs", &options.epochs, "Passes over the training data.").range(1, 1e6);
//   schema.load_file("job.toml");   // throws Error{kInvalidInput} naming file, line, key, found and allowed
//
// Thread safety: one thread at a time. The bound struct must outlive the schema.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/own_options.h"

namespace muster {

// A number, or from one to another: 4 or "1:4".
struct IntegerRange {
  std::int64_t least = 1;
  std::int64_t most = 1;
};
// Of "1:4".
std::optional<IntegerRange> parse_integer_range(std::string_view text);

// A number, or the word "auto": then the program chooses.
struct AutoInteger {
  bool automatic = false;
  std::int64_t value = 0;  // not with automatic
};

// OwnOptions is a table of whatever stands there, a [section.key] of its own; several of them add up, so that --set
// section.key.name=value changes one. Who knows which names there may be checks them (own_options.h).
//
// A table of integers by name: { data = 2, pipeline = 4 }. one_of() says which names there may be, range() is for each.
using NamedIntegers = std::map<std::string, std::int64_t>;

// Where a value is bound. An optional that stays empty has no default of its own; its help says what happens then.
using FieldTarget =
    std::variant<bool*, std::int64_t*, double*, IntegerRange*, std::string*, std::vector<std::int64_t>*,
                 std::vector<double>*, std::vector<std::string>*, std::optional<std::int64_t>*, std::optional<double>*,
                 std::optional<std::string>*, std::optional<std::vector<double>>*, std::optional<AutoInteger>*,
                 NamedIntegers*, OwnOptions*>;

class Field {
 public:
  Field(std::string key, FieldTarget target, std::string help);

  // Limits for numbers (every element, for arrays), both inclusive. A number with any limit, here or by above(), must
  // also be finite.
  Field& range(double least, double most = std::numeric_limits<double>::infinity());
  // Numbers must be greater than `limit`.
  Field& above(double limit);
  // Strings (every element, for arrays) must be one of these.
  Field& one_of(std::vector<std::string> values);
  Field& non_empty();

  const std::string& key() const { return key_; }
  const std::string& help() const { return help_; }
  // "integer", "array of strings", ...
  std::string type_name() const;
  // "integer, 1 or more", "one of \"sgd\", \"adam\"": what an error message says is allowed.
  std::string allowed() const;
  // The current value as TOML, or nothing for an empty optional.
  std::optional<std::string> to_toml() const;
  // Of OwnOptions: where each of them got its value, by name.
  const std::map<std::string, std::string>& inner_places() const { return inner_places_; }
  // Empty when the current value keeps the limits, else what is wrong with it ("0 is below 1").
  std::string violation() const;

 private:
  friend class Schema;

  std::string key_;
  FieldTarget target_;
  std::string help_;
  double least_ = -std::numeric_limits<double>::infinity();
  double most_ = std::numeric_limits<double>::infinity();
  bool least_is_open_ = false;
  bool non_empty_ = false;
  std::vector<std::string> choices_;
  std::optional<std::string> default_;  // as TOML
  std::string where_;                   // "job.toml:12" once a file or a flag has set it
  std::map<std::string, std::string> inner_places_;
};

class Section {
 public:
  Section(std::string name, std::string help) : name_(std::move(name)), help_(std::move(help)) {}

  Field& field(std::string key, FieldTarget target, std::string help);

  const std::string& name() const { return name_; }
  const std::string& help() const { return help_; }
  const std::deque<Field>& fields() const { return fields_; }

 private:
  friend class Schema;

  Field* find(std::string_view key);  // null: it has none of that name

  std::string name_;
  std::string help_;
  std::deque<Field> fields_;  // a deque: references that field() gave out stay valid
};

class Schema {
 public:
  Section& section(std::string name, std::string help);
  const std::deque<Section>& sections() const { return sections_; }

  // Reads TOML and assigns every key that stands in it, from the top down to the first error. Throws
  // Error{kInvalidInput} with "name:line" for syntax, unknown sections and keys (with the nearest name), wrong types,
  // values outside the limits, and what toml_text.h refuses; kDamaged over 64 KiB; load_file also as read_text.
  void load_file(const std::filesystem::path& path);
  void load_text(std::string_view text, const std::string& name);

  // One override as it stands after --set: "section.key=value". A value that is no TOML is taken as a string,
  // so that model.name=mlp needs no quotes. One of OwnOptions is section.key.name=value.
  void set(const std::string& assignment);

  // Where "section.key" got its value: "job.toml:12", "--set data.batch=64", or "" for a default.
  std::string where(std::string_view path) const;

  // Whether "section.key" has another value than its default. A resolved job names every key, so being named is not
  // enough to tell what somebody chose.
  bool changed(std::string_view path) const;

  // Whether somebody gave "section.key" a value, be it the default. Empty texts and arrays are none; in a resolved job,
  // which names every key, only what differs from the default counts, and so it does in --set.
  bool chosen(std::string_view path) const;

  // An Error{kInvalidInput} about one key, for conditions that involve several: names where it was set, or the file.
  Error invalid(std::string_view path, const std::string& message, const std::string& remedy = {}) const;

  // Every key with its current value, as TOML that load_text reads back to the same values.
  std::string to_toml() const;
  Json to_json() const;
  // The reference page: one table a section, with type, default (the current values) and help.
  std::string to_markdown() const;

 private:
  Section* find_section(std::string_view name);
  const Field& find_field(std::string_view path) const;

  std::deque<Section> sections_;
  std::string file_;
};

// What `parse` says of a key's value, as an error about that key.
template <typename Parse>
void check_value(const Schema& schema, std::string_view key, const Parse& parse) {
  try {
    parse();
  } catch (const Error& error) {
    const std::string where = error.where().empty() ? "" : error.where() + " ";
    throw schema.invalid(key, where + error.message(), error.remedy());
  }
}

}  // namespace muster
