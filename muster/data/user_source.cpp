// The source "library": a user's shared object opens the sets, and what it gives is looked at before anybody trusts it.
// What is held out of them is as for other sources.
#include <utility>

#include <fmt/format.h>

#include "muster/base/shared_object.h"
#include "muster/data/data_form.h"
#include "muster/data/source_parts.h"
#include "muster/data/user_sources.h"

namespace muster::data {
namespace {

const UserSource& find(const PartOfLibrary& part) {
  const auto& library = *static_cast<const UserSources*>(
      describe_library(part, kUserSourceSymbol, "data sources", "MUSTER_SOURCES({\"name\", \"help\", open})"));
  if (library.format != kUserSourceFormat || library.options_bytes != sizeof(OwnSourceOptions))
    throw built_for_another_muster(part.library);
  return find_part(std::span(library.sources, library.count), part, "data source");
}

}  // namespace

PartHelp user_source_help(const PartOfLibrary& part) {
  const UserSource& source = find(part);
  return {part.name, source.help, "data.options", source.keys};
}

Data open_user_source(const SourceOptions& options) {
  const PartOfLibrary& part = options.library;
  if (part.library.empty())
    throw Error(ErrorKind::kInvalidInput, "the data source \"library\" needs a library", "data.library",
                "Name the shared object, and with data.name the source in it.");
  const UserSource& source = find(part);
  const std::string what = fmt::format("data source {}", part.name);
  OwnSourceOptions told{options.path, options.test_path, options.validation_path, options.seed,
                        complete_options(source.keys, options.own, "data.options", what)};
  const auto sets = make_part(part, what, [&] { return std::make_shared<OwnSets>(source.open(told)); });
  if (!sets->train || sets->train->size() == 0)
    throw Error(ErrorKind::kInvalidInput, fmt::format("{} has no training samples", what), part.library);
  Data data;
  data.validation = sets->validation;
  if (sets->test) {
    data.train = sets->train;
    data.test = sets->test;
  } else {
    hold_out_test(data, sets->train, options);
  }
  for (const auto& other : {data.test, data.validation})
    if (other) check_same_samples(data.train->spec(), other->spec(), "another set", part.library);
  data.description = describe(data.train->size(), data.test->size(), data.train->spec(),
                              sets->description.empty() ? fmt::format("by {}", part.name) : sets->description);
  return data;
}

}  // namespace muster::data
