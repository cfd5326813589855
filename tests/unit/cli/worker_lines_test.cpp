// Lines of logs that grow: whole ones at once, the rest at the end, each with its worker.
#include "muster/cli/worker_lines.h"

#include <cstdio>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "support/sandbox.h"

namespace muster::cli {
namespace {

class AWorkersLine : public ::testing::Test {
 protected:
  AWorkersLine() : out_(std::tmpfile()), lines_(folder_.path(), 2, out_) {}
  ~AWorkersLine() override { std::fclose(out_); }

  void append(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::app) << text;
  }
  std::string printed() {
    std::string text(static_cast<std::size_t>(std::ftell(out_)), ' ');
    std::rewind(out_);
    text.resize(std::fread(text.data(), 1, text.size(), out_));
    std::rewind(out_);
    return text;
  }

  const testing::TemporaryFolder folder_;
  std::FILE* const out_;
  WorkerLines lines_;
};

TEST_F(AWorkersLine, IsPrintedWhenItIsWhole) {
  lines_.print();
  EXPECT_EQ(printed(), "") << "nobody has come yet";
  append("log.txt", "one\ntw");
  append("log.1.txt", "\n");
  lines_.print();
  EXPECT_EQ(printed(), "[0] one\n[1] \n");
  append("log.txt", "o\nthree");
  lines_.print();
  EXPECT_EQ(printed(), "[0] two\n");
  lines_.print(true);
  EXPECT_EQ(printed(), "[0] three\n");
  lines_.print(true);
  EXPECT_EQ(printed(), "");
}

TEST_F(AWorkersLine, OfAnyLengthIsOneLine) {
  const std::string text((1 << 20) + 7, 'x');
  append("log.1.txt", text + "\nlast\n");
  lines_.print();
  EXPECT_EQ(printed(), "[1] " + text + "\n[1] last\n");
}

}  // namespace
}  // namespace muster::cli
