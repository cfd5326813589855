// What a job says about a table. Apart from the table's own header, since everything that opens data includes it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace muster::data {

struct TableOptions {
  char delimiter = ',';
  bool header = true;       // the first record names the columns; else they are "0", "1", ...
  std::string target = {};  // name of the column to predict; empty: the last one
  bool regression = false;  // the target is a number; else its values are classes
  std::vector<std::string> numeric = {};
  std::vector<std::string> categorical = {};
  std::vector<std::string> ignore = {};     // neither read nor checked
  std::optional<float> missing_value = {};  // of numeric columns; empty: the mean of the training rows
  std::vector<std::string> targets = {};    // of regression, instead of `target`: several columns to predict
  char decimal = '.';                       // before the fraction of a number: a point or a comma
  bool latin1 = false;                      // the file is Latin-1; else UTF-8
  std::string id = {};                      // name of a column that is no feature: its texts become Table::ids
  bool unlabelled = false;                  // no column is to be predicted, and `target` counts for nothing
};

}  // namespace muster::data
