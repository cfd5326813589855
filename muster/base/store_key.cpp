// One rule for keys of all stores, because keys become names of files and rows of a table: what is allowed here is safe
// as either.
#include "muster/base/store_key.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster {
namespace {

constexpr std::size_t kMostKeyBytes = 200;

bool is_word_byte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '.' ||
         byte == '_' || byte == '-';
}

}  // namespace

void require_store_key(std::string_view key) {
  bool valid = !key.empty() && key.size() <= kMostKeyBytes && key.back() != '/';
  char before = '/';
  for (const char byte : key) {
    valid = valid && (is_word_byte(byte) || (byte == '/' && before != '/'));
    before = byte;
  }
  if (!valid)
    throw Error(
        ErrorKind::kInvalidInput, fmt::format("\"{}\" is no key of a store", excerpt(key, 60)), {},
        fmt::format("Use at most {} letters, digits, '.', '_' and '-', in words joined by '/'.", kMostKeyBytes));
}

void require_store_value(std::string_view key, std::string_view value, std::size_t most) {
  if (value.size() > most)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("the value of \"{}\" has {} bytes; a store takes at most {}", key, value.size(), most));
}

}  // namespace muster
