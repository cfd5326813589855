// Manual placement: a text file says who holds what. One line a member, "NAME: NUMBERS"; numbers are single ones and
// ranges, separated by commas; what follows # is a comment; a name may have several lines:
//
//   # the hospital's own patients stay there
//   hospital: 0-31, 40
//   clinic:   32-39
//
// The same syntax gives columns to the parties of vertical federated training (vertical.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "muster/data/partition/placement.h"

namespace muster::data {

// Throws Error{kInvalidInput}, naming `where` and the line: no NAME: NUMBERS, an unknown member, a number that is not
// below `shards`, one that is placed twice or not at all.
Placement parse_manual_placement(std::string_view text, std::uint64_t shards, std::span<const Member> members,
                                 const std::string& where);

// The same of a file of at most 16 MB. Throws also what read_text throws.
Placement read_manual_placement(const std::filesystem::path& path, std::uint64_t shards,
                                std::span<const Member> members);

}  // namespace muster::data
