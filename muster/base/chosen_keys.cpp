// What somebody chose in a file that may name every key. A key that does nothing is refused only where it was meant, so
// a file that a program has printed must be told from one that people wrote.
#include <fmt/format.h>

#include "muster/base/config.h"

namespace muster {
namespace {

// Nobody names most keys by hand: such a file is a resolved job, of a run or as muster check prints it.
bool is_printed(const Schema& schema) {
  std::size_t keys = 0;
  std::size_t named = 0;
  for (const Section& section : schema.sections()) {
    for (const Field& field : section.fields()) {
      const std::string where = schema.where(fmt::format("{}.{}", section.name(), field.key()));
      named += !where.empty() && !where.starts_with("--set ");
      ++keys;
    }
  }
  return 2 * named > keys;
}

}  // namespace

bool Schema::chosen(std::string_view path) const {
  if (changed(path)) return true;
  const std::string place = where(path);
  // Without a line in the file the default is nobody's choice; given by --set it takes back what the file says.
  if (place.empty() || place.starts_with("--set ")) return false;
  const std::string value = find_field(path).to_toml().value_or("");
  return value != "\"\"" && value != "[]" && value != "{}" && !is_printed(*this);
}

}  // namespace muster
