// Builds the tree from the library's events instead of taking its own: limits hold while it grows, a repeated name is
// an error, and an object of many members takes linear time.
#include "muster/base/json.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster {
namespace {

constexpr std::size_t kDeepest = 32;
constexpr std::size_t kMostValues = 500'000;  // a tree of these takes less than 64 MiB

// Which JSON value a C++ type accepts. Integers are not taken from floating-point numbers, nor negative ones as
// unsigned.
bool fits(const Json& value, const std::string*) {
  return value.is_string();
}
bool fits(const Json& value, const bool*) {
  return value.is_boolean();
}
bool fits(const Json& value, const double*) {
  return value.is_number();
}
bool fits(const Json& value, const std::uint64_t*) {
  return value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0);
}
bool fits(const Json& value, const std::int64_t*) {
  return value.is_number_integer() && !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX);
}
bool fits(const Json& value, const Json*) {
  return value.is_object();
}
template <typename T>
bool fits(const Json& value, const std::vector<T>*) {
  if (!value.is_array()) return false;
  for (const Json& element : value) {
    if (!fits(element, static_cast<const T*>(nullptr))) return false;
  }
  return true;
}

// Builds the tree from the parser's events. The library's own builder searches an object for every member it adds, and
// of two members with one name keeps the last.
// NOLINTNEXTLINE(bugprone-exception-escape): of what the library's destructor asserts
class TreeBuilder final : public nlohmann::json_sax<Json> {
 public:
  Json take() { return std::move(root_); }
  // Why building stopped.
  const std::string& failure() const { return failure_; }

  bool null() override { return add(nullptr) != nullptr; }
  bool boolean(bool value) override { return add(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override { return add(value) != nullptr; }
  bool string(string_t& value) override { return add(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return fail("not valid JSON (binary)"); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool key(string_t& name) override {
    name_ = std::move(name);
    return true;
  }
  bool end_object() override {
    std::vector<std::string_view> names;
    for (const auto& member : open_.back()->get_ref<const Json::object_t&>())
      names.push_back(member.first);
    std::sort(names.begin(), names.end());
    if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
      return fail(fmt::format("has the member \"{}\" twice", excerpt(*twice, 60)));
    open_.pop_back();
    return true;
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    std::string_view text = error.what();
    if (const std::size_t mark = text.find("] "); text.starts_with('[') && mark != std::string_view::npos)
      text.remove_prefix(mark + 2);
    return fail(fmt::format("not valid JSON ({})", excerpt(text, 200)));
  }

 private:
  bool fail(std::string message) {
    failure_ = std::move(message);
    return false;
  }

  // The new value in its place, or nothing if there are too many.
  template <typename Value>
  Json* add(Value&& value) {
    if (++values_ > kMostValues) {
      fail(fmt::format("has more than {} values", kMostValues));
      return nullptr;
    }
    if (open_.empty()) {
      root_ = Json(std::forward<Value>(value));
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) return &parent.get_ref<Json::array_t&>().emplace_back(std::forward<Value>(value));
    // The members of an ordered object are a vector of pairs.
    std::vector<Json::object_t::value_type>& members = parent.get_ref<Json::object_t&>();
    return &members.emplace_back(std::move(name_), Json(std::forward<Value>(value))).second;
  }
  bool open(Json container) {
    if (open_.size() == kDeepest) return fail(fmt::format("JSON nested deeper than {}", kDeepest));
    Json* const place = add(std::move(container));
    if (place == nullptr) return false;
    open_.push_back(place);  // stays valid: nothing is added to the parent before this is closed
    return true;
  }

  Json root_;
  std::vector<Json*> open_;
  std::string name_;  // of the member whose value comes next
  std::size_t values_ = 0;
  std::string failure_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& where) {
  TreeBuilder builder;
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) throw Error(ErrorKind::kDamaged, builder.failure(), where);
  return builder.take();
}

template <typename T>
T json_get(const Json& object, const std::string& key, const std::string& where) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end()) throw Error(ErrorKind::kDamaged, fmt::format("member \"{}\" is missing", key), where);
  if (!fits(*found, static_cast<const T*>(nullptr))) {
    throw Error(ErrorKind::kDamaged, fmt::format("member \"{}\" has the wrong type ({})", key, found->type_name()),
                where);
  }
  return found->get<T>();
}

template std::string json_get(const Json&, const std::string&, const std::string&);
template bool json_get(const Json&, const std::string&, const std::string&);
template double json_get(const Json&, const std::string&, const std::string&);
template std::uint64_t json_get(const Json&, const std::string&, const std::string&);
template std::int64_t json_get(const Json&, const std::string&, const std::string&);
template Json json_get(const Json&, const std::string&, const std::string&);
template std::vector<std::int64_t> json_get(const Json&, const std::string&, const std::string&);
template std::vector<std::uint64_t> json_get(const Json&, const std::string&, const std::string&);
template std::vector<double> json_get(const Json&, const std::string&, const std::string&);
template std::vector<std::string> json_get(const Json&, const std::string&, const std::string&);
template std::vector<Json> json_get(const Json&, const std::string&, const std::string&);

}  // namespace muster
