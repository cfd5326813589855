// Which data a command is about: what `muster data`, `muster init` and `muster bench data` have in common.
#pragma once

#include <string>
#include <vector>

#include "muster/cli/command.h"
#include "muster/data/sources.h"

namespace muster::cli {

// `what` is the name of a source, a job file (.toml), or a file or folder of data, which is looked at. `path` goes with
// the name of a source; assignments are section.key=value as for --set. Throws kInvalidInput, kNotFound and what
// data::inspect throws.
data::SourceOptions chosen_data(const std::string& what, const std::string& path,
                                const std::vector<std::string>& assignments);

// The [data] and [loss] sections of a job that has these options, as TOML text.
std::string data_section(const data::SourceOptions& options);

// muster data partition and muster data check, in files of their own.
void add_data_partition(CLI::App& data);
void add_data_check(CLI::App& data);

}  // namespace muster::cli
