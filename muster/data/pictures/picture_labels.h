// Pictures whose classes a CSV file tells: a row for each, with the name of its file and its class.
//
// Names are relative to a folder, may have folders in them, and may lack the ending of the file. Classes are in the
// order of a table's categories.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "muster/data/bad_samples.h"
#include "muster/data/pictures/picture_folder.h"
#include "muster/data/sources.h"

namespace muster::data {

// Reads `file`, by the options' file_column, table.target, table.delimiter and table.latin1. Rows that cannot be used
// (another number of fields, no name, no class, a picture that is not there, a class that is not in `classes`) go to
// `bad`, with file and line. `classes` is empty for the file that says which there are. Throws what CsvReader and
// BadSamples::report throw; kInvalidInput for columns that are not there; kDamaged for a file without rows or with less
// than 2 classes.
PictureList read_picture_labels(const std::filesystem::path& file, const std::filesystem::path& folder,
                                const SourceOptions& options, BadSamples& bad,
                                const std::vector<std::string>& classes = {});

}  // namespace muster::data
