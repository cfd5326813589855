// Keys of stores, here and at the coordinator: what is allowed, and what is said when one is not.
#pragma once

#include <cstddef>
#include <string_view>

namespace muster {

// Words of letters, digits, '.', '_' and '-' joined by '/', at most 200 bytes: a key can be a file's name, which may
// have 255. Throws kInvalidInput.
void require_store_key(std::string_view key);

// Throws kInvalidInput when the value has more than `most` bytes.
void require_store_value(std::string_view key, std::string_view value, std::size_t most);

}  // namespace muster
