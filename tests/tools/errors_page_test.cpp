// docs/errors.md promises for each kind of error whether it is retryable and which exit code it gives; the code
// decides.
//
// tools/check_docs sees to it that the page has a row for every kind; here each row is compared with the code.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "muster/base/error.h"

namespace muster {
namespace {

struct Row {
  std::string kind;
  std::string retryable;
  std::string exit_code;
};

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

// The rows "| `kind` | meaning | retryable | exit code |" of the page.
std::vector<Row> rows_of_page() {
  std::ifstream page(ERRORS_PAGE);
  std::vector<Row> rows;
  for (std::string line; std::getline(page, line);) {
    if (line.rfind("| `", 0) != 0) continue;
    std::vector<std::string> cells;
    for (std::size_t at = 1; at < line.size();) {
      const auto end = line.find('|', at);
      if (end == std::string::npos) break;
      cells.push_back(trimmed(line.substr(at, end - at)));
      at = end + 1;
    }
    if (cells.size() != 4) {
      ADD_FAILURE() << "a row needs 4 cells: " << line;
      continue;
    }
    rows.push_back({cells[0].substr(1, cells[0].size() - 2), cells[2], cells[3]});
  }
  return rows;
}

TEST(ErrorsPage, ListsTheKindsInOrderWithRetryableAndExitCodeOfTheCode) {
  const std::vector<Row> rows = rows_of_page();
  ASSERT_FALSE(rows.empty()) << ERRORS_PAGE;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    // The rows are the enumerators in order, so a row's number is the value of its kind.
    const Error error(static_cast<ErrorKind>(i), "x");
    EXPECT_EQ(rows[i].kind, to_string(error.kind()));
    EXPECT_EQ(rows[i].retryable, error.retryable() ? "yes" : "no") << rows[i].kind;
    EXPECT_EQ(rows[i].exit_code, std::to_string(error.exit_code())) << rows[i].kind;
  }
}

}  // namespace
}  // namespace muster
