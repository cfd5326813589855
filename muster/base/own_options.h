// Options of the parts that users bring in shared objects (models, data sources, tasks): the keys of [model.options],
// [data.options] and [loss.options] in a job file. A part lists its keys, each with its default, whose type is the
// key's; what a job says is checked against that list when the object is loaded, never before: reading a job runs no
// code of it.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace muster {

using OwnValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>,
                              std::vector<std::string>>;
using OwnValues = std::map<std::string, OwnValue, std::less<>>;

struct OwnKey {
  std::string name;
  OwnValue standard;  // 2 is an integer, 2.0 a number (which takes integers too)
  std::string help;
  double least = -std::numeric_limits<double>::infinity();  // of numbers, and of each in an array; both inclusive
  double most = std::numeric_limits<double>::infinity();
  std::vector<std::string> one_of = {};  // of texts; empty: any
};

// What a part is given: a value for each of its keys. In a job that nobody has checked yet: what stands in the file.
class OwnOptions {
 public:
  OwnOptions() = default;
  explicit OwnOptions(OwnValues values) : values_(std::move(values)) {}

  const OwnValues& values() const { return values_; }

  // The value of a key that the part lists, by the type of its default: get<std::int64_t>("depth"). Throws
  // std::invalid_argument for any other.
  template <typename T>
  const T& get(std::string_view key) const {
    const auto found = values_.find(key);
    const T* const value = found == values_.end() ? nullptr : std::get_if<T>(&found->second);
    if (value == nullptr)
      throw std::invalid_argument("the option " + std::string(key) +
                                  " is asked for with a type that it is not listed with");
    return *value;
  }

 private:
  OwnValues values_;
};

// `given` and the defaults of what it lacks. `section` is that of the job ("model.options"), `owner` says whose keys
// they are ("the model highway"). Throws Error{kInvalidInput} whose place is the key: one that the part does not list
// (says the nearest and all), another type, a value outside of the limits.
OwnOptions complete_options(std::span<const OwnKey> keys, const OwnOptions& given, const std::string& section,
                            const std::string& owner);

// "depth: integer, 1 or more; 2 if not set. Layers.", for people who write a job.
std::string describe(const OwnKey& key);

}  // namespace muster
