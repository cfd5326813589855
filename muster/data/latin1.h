// Latin-1 as Windows writes it (code page 1252), turned into UTF-8 as it is read: what older spreadsheets save.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "muster/data/byte_reader.h"

namespace muster::data {

// The character of a byte. The five bytes that the code page leaves out become control characters of the same number.
char32_t latin1_character(unsigned char byte);

// Gives what `below` gives, as UTF-8: up to three bytes for each of its own. A byte-order mark or the like has no
// meaning.
std::unique_ptr<ByteReader> latin1_as_utf8(std::unique_ptr<ByteReader> below);

}  // namespace muster::data
