// Data sources of your own in a shared object, which `muster train` loads: [data] source = "library",
// library = "libmine.so", name = "mine".
//
// A source file with a data set (dataset.h) and one line at its end:
//
//   muster::data::OwnSets open_mine(const muster::data::OwnSourceOptions& options) { ... }
//   MUSTER_SOURCES({"mine", "points of my own", open_mine, {{"noise", 0.1, "Width of the noise.", 0}}})
//
// Several sources are several braces; the keys at the end are those of [data.options]. open is called in every process
// that trains, and gives the same samples in each. It may throw std::exception (muster::Error keeps its kind).
// examples/own_task.cpp has a whole one. Such a file is code: load only files that you would also run. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/own_options.h"
#include "muster/data/dataset.h"

namespace muster::data {

// What a job says.
struct OwnSourceOptions {
  std::filesystem::path path;             // data.path; empty where it says none
  std::filesystem::path test_path;        // data.test_path
  std::filesystem::path validation_path;  // data.validation_path
  std::uint64_t seed = 0;                 // job.seed
  OwnOptions own;                         // own.get<double>("noise")
};

struct OwnSets {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test{};        // empty: data.test_fraction of the others is held out
  std::shared_ptr<const Dataset> validation{};  // empty: as data.validation says
  std::string description{};                    // where they come from, for people
};

struct UserSource {
  const char* name;
  const char* help;
  OwnSets (*open)(const OwnSourceOptions& options);
  std::vector<OwnKey> keys = {};
};

// What a library tells about itself. The program looks at the first members before it trusts the rest.
struct UserSources {
  int format;                 // kUserSourceFormat of the headers it was built with
  std::size_t options_bytes;  // sizeof(OwnSourceOptions)
  const UserSource* sources;
  std::size_t count;
};

constexpr int kUserSourceFormat = 1;
constexpr const char* kUserSourceSymbol = "muster_user_sources";

}  // namespace muster::data

// A library has this once.
#define MUSTER_SOURCES(...)                                                                                        \
  extern "C" __attribute__((visibility("default"))) const ::muster::data::UserSources* muster_user_sources() {     \
    static const ::muster::data::UserSource sources[] = {__VA_ARGS__};                                             \
    static const ::muster::data::UserSources library{                                                              \
        ::muster::data::kUserSourceFormat, sizeof(::muster::data::OwnSourceOptions), sources, std::size(sources)}; \
    return &library;                                                                                               \
  }
