// The ResNets against torchvision itself, where Debian's python3-torchvision is installed.
#include <array>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "muster/model/make_model.h"

namespace muster::model {
namespace {

// What a command writes to its standard output; empty when it fails.
std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string text;
  std::array<char, 4096> bytes;
  for (std::size_t count = 0; pipe && (count = std::fread(bytes.data(), 1, bytes.size(), pipe.get())) > 0;)
    text.append(bytes.data(), count);
  return text;
}

// "name 64x3x7x7" for every tensor of the state, parameters and buffers, in no order.
std::string listing(const Net& net) {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& name, const torch::Tensor& value) {
    std::ostringstream line;
    line << name;
    for (const std::int64_t extent : value.sizes())
      line << " " << extent;
    lines.push_back(line.str());
  };
  for (const auto& item : net.named_parameters())
    add(item.key(), item.value());
  for (const auto& item : net.named_buffers())
    add(item.key(), item.value());
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& line : lines)
    text += line + "\n";
  return text;
}

TEST(Torchvision, HasTheSameStateDictionaries) {
  if (output_of("/usr/bin/python3 -c 'import torchvision; print(1)' 2>/dev/null").empty())
    GTEST_SKIP() << "python3-torchvision is not installed";
  std::string expected;
  // One of each kind; making the larger ones only takes longer.
  const std::vector<std::string> names{"resnet18", "resnet50", "wide_resnet50_2"};
  std::string all;
  for (const std::string& name : names) {
    all += " " + name;
    expected += name + "\n" + listing(*make_model(find_model(name).typical, 1));
  }
  EXPECT_EQ(output_of("/usr/bin/python3 -W ignore -c '\n"
                      "import sys, torchvision\n"
                      "for name in sys.argv[1:]:\n"
                      "    print(name)\n"
                      "    state = getattr(torchvision.models, name)().state_dict()\n"
                      "    for line in sorted(\" \".join([k] + [str(n) for n in v.shape]) for k, v in state.items()):\n"
                      "        print(line)\n"
                      "'" +
                      all),
            expected);
}

}  // namespace
}  // namespace muster::model
