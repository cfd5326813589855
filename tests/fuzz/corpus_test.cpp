// The fuzz targets without a fuzzer: each runs on the inputs that fuzzing has found to reach its parser's branches
// (corpus/TARGET.txt, one a line as hexadecimal digits), in every build and under every sanitizer. What a target checks
// it checks by abort(): getting to the end is the result.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#define MUSTER_FUZZ_TARGET(name) extern "C" int name(const std::uint8_t* data, std::size_t size);
#include "fuzz_targets.inc"
#undef MUSTER_FUZZ_TARGET

namespace muster {
namespace {

struct Target {
  const char* name;
  int (*run)(const std::uint8_t* data, std::size_t size);
};

const Target kTargets[] = {
#define MUSTER_FUZZ_TARGET(name) {#name, name},
#include "fuzz_targets.inc"
#undef MUSTER_FUZZ_TARGET
};

int digit(char c) {
  return c <= '9' ? c - '0' : c - 'a' + 10;
}

std::vector<std::vector<std::uint8_t>> inputs_of(const std::string& name) {
  std::ifstream file(std::filesystem::path(MUSTER_CORPUS) / (name + ".txt"));
  std::vector<std::vector<std::uint8_t>> inputs;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    EXPECT_EQ(line.size() % 2, 0U) << name;
    std::vector<std::uint8_t> input;
    for (std::size_t i = 0; i + 1 < line.size(); i += 2)
      input.push_back(static_cast<std::uint8_t>(digit(line[i]) * 16 + digit(line[i + 1])));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

class FuzzCorpus : public ::testing::TestWithParam<Target> {};

TEST_P(FuzzCorpus, EveryInputIsTakenOrRefused) {
  const std::vector<std::vector<std::uint8_t>> inputs = inputs_of(GetParam().name);
  ASSERT_FALSE(inputs.empty()) << "no corpus of " << GetParam().name;
  for (const std::vector<std::uint8_t>& input : inputs)
    EXPECT_EQ(GetParam().run(input.data(), input.size()), 0);
  // And every beginning of the longest one: cut files are what happens most.
  const std::vector<std::uint8_t>& longest = inputs.back();
  for (std::size_t size = 0; size < longest.size(); ++size)
    EXPECT_EQ(
        GetParam().run(std::vector(longest.begin(), longest.begin() + static_cast<std::ptrdiff_t>(size)).data(), size),
        0);
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzCorpus, ::testing::ValuesIn(kTargets),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace muster
