// What a table is: its delimiter, its numbers, its header, what is to be predicted and what is of no use. For
// inspect.h.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/inspect.h"
#include "muster/data/table_options.h"

namespace muster::data {

// How the columns are cut and numbers are written; none if no row has two columns. Spaces are between the words of any
// text, so they count only in a file that is called a table. `latin1` is for the file as it is.
std::optional<TableOptions> find_columns(const std::filesystem::path& path, bool latin1, bool called_table);

// REQUIRES: `table` is what find_columns said of the file. Throws kInvalidInput as inspect().
Finding inspect_table(const std::filesystem::path& path, const TableOptions& table, const InspectOptions& wishes);

// The column that is usually the target by its name, else the last; of those for which `may_be` holds, if any does.
std::size_t find_target(const std::vector<std::string>& names, const std::vector<bool>& may_be);

std::string lower_case(std::string text);

}  // namespace muster::data
