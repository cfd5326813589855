// muster new: a project of the user's own that builds and trains at once, as a place to begin. What it writes is small
// enough to be read whole, and is the user's from then on.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/cli/command.h"

namespace muster::cli {
namespace {

constexpr std::string_view kCMake = R"(cmake_minimum_required(VERSION 3.25)
project(@NAME@ LANGUAGES CXX)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_package(Muster REQUIRED)  # brings LibTorch with it
add_executable(@NAME@ main.cpp)
target_link_libraries(@NAME@ PRIVATE muster::muster)
)";

constexpr std::string_view kMain =
    R"(// A net that learns to tell points apart, trained by any number of workers with the same result.
@INCLUDE@ <cstdio>

@INCLUDE@ <muster/muster.h>

// Your samples: how many there are, what they look like, and how to read one; from any thread, always the same.
class Points final : public muster::Dataset {
 public:
  explicit Points(std::uint64_t first) : first_(first) {}
  std::uint64_t size() const override { return 2000; }
  const muster::SampleSpec& spec() const override { return spec_; }
  std::int64_t read(std::uint64_t id, std::span<float> point) const override {
    const std::uint64_t place = (first_ + id) * 2654435761U % 10000;
    point[0] = static_cast<float>(place % 100) / 50 - 1;
    point[1] = static_cast<float>(place / 100) / 50 - 1;
    return point[0] * point[0] + point[1] * point[1] < 0.5F ? 1 : 0;  // inside of a circle, or not
  }

 private:
  std::uint64_t first_;
  muster::SampleSpec spec_{.shape = {2}, .classes = 2};
};

// Your model: any LibTorch module.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", torch::nn::Linear(2, 32));
    second = register_module("second", torch::nn::Linear(32, 2));
  }
  torch::Tensor forward(const torch::Tensor& x) { return second->forward(torch::relu(first->forward(x))); }
  torch::nn::Linear first{nullptr}, second{nullptr};
};
TORCH_MODULE(Net);

int main(int argc, char** argv) try {
  auto worker = muster::join(argc, argv);
  torch::manual_seed(1);  // the first weights
  const auto train = std::make_shared<Points>(0);
  const auto test = std::make_shared<Points>(5000);
  Net net;
  auto session = muster::synchronize(worker, net, muster::Adam{.lr = 0.01}, {.batch = 100, .lanes = 2});
  session.resume("checkpoints");  // goes on where it was stopped

  session.meet(train);
  while (session.cursor().epoch < 10) {
    for (auto& lane : session.lanes(train)) {
      lane.backward(torch::nn::functional::cross_entropy(net->forward(lane.data), lane.target));
    }
    session.checkpoint("checkpoints");
    const auto result = session.evaluate([&](const torch::Tensor& x) { return net->forward(x); }, test);
    if (session.members().leads())
      std::printf("epoch %lu: test accuracy %.4f\n", session.cursor().epoch, result->metric("accuracy"));
  }
  session.save("@NAME@.safetensors");
} catch (const muster::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
)";

constexpr std::string_view kReadme = R"(# @NAME@

    cmake -B build && cmake --build build -j     # -DCMAKE_PREFIX_PATH=... if Muster is not where CMake looks
    build/@NAME@                                  # alone
    muster run -n 2 build/@NAME@                  # two workers: the same weights, bit by bit

A run that was stopped (Ctrl-C, `muster stop @NAME@`) goes on from `checkpoints/`; delete that folder to begin anew.
The trained weights are in `@NAME@.safetensors`.
)";

constexpr std::string_view kIgnored = "build/\ncheckpoints/\nruns/\n*.safetensors\n";

// A name of a program and of a CMake target.
void check_name(const std::string& name) {
  const bool begins = !name.empty() && std::isalpha(static_cast<unsigned char>(name.front())) != 0;
  const bool plain = std::ranges::all_of(
      name, [](unsigned char letter) { return std::isalnum(letter) != 0 || letter == '_' || letter == '-'; });
  if (begins && plain && name != "test" && name != "all" && name != "install") return;
  throw Error(ErrorKind::kInvalidInput, fmt::format("a program cannot be called \"{}\"", name), "muster new",
              "Use letters, digits, _ and -, and a letter first; the folder is made where you are.");
}

void put(std::string_view place, std::string_view value, std::string& text) {
  for (std::size_t at = text.find(place); at != std::string::npos; at = text.find(place, at + value.size()))
    text.replace(at, place.size(), value);
}

std::string filled(std::string_view form, const std::string& name) {
  std::string text(form);
  put("@NAME@", name, text);
  put("@INCLUDE@", "#include", text);  // spelled so that what looks for the includes of this file does not find them
  return text;
}

void make_project(const std::string& name) {
  check_name(name);
  const std::filesystem::path folder = name;
  if (std::filesystem::exists(folder) && (!std::filesystem::is_directory(folder) || !std::filesystem::is_empty(folder)))
    throw Error(ErrorKind::kInvalidInput, "is there already, and not empty", name, "Choose another name.");
  make_folder(folder);
  const std::vector<std::pair<const char*, std::string_view>> files{
      {"CMakeLists.txt", kCMake}, {"main.cpp", kMain}, {"README.md", kReadme}, {".gitignore", kIgnored}};
  for (const auto& [file, form] : files)
    write_atomically(folder / file, filled(form, name));
  fmt::print(
      "wrote {0}: CMakeLists.txt, main.cpp, README.md, .gitignore\n"
      "  cd {0} && cmake -B build && cmake --build build\n"
      "  muster run -n 2 build/{0}\n",
      name);
}

}  // namespace

void add_new(CLI::App& app) {
  CLI::App* command = app.add_subcommand("new", "Begin a C++ project: a program that builds and trains at once.");
  auto name = std::make_shared<std::string>();
  command->add_option("name", *name, "Of the program, and of its folder, which is made here")->required();
  command->footer(
      "The folder has a CMakeLists.txt with find_package(Muster), a main.cpp with a data set, a model and a loop, and "
      "a\n"
      "README with the commands. Muster has to be installed: ./musterw install PREFIX, in its source folder.\n"
      "\nExamples:\n"
      "  muster new my_project");
  command->callback([name] { make_project(*name); });
}

}  // namespace muster::cli
