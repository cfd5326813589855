// The answers for a program of a user's own: it has no keys that could be changed and no files of ours; of its lanes is
// known what its leader tells.
#include "muster/coordinator/training.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"

namespace muster::coordinator {

std::string Training::describe_lane(std::uint64_t step, int lane, const control::LeaderNote& leader) const {
  if (!leader.lanes) return {};
  return fmt::format("samples {}", fmt::join(leader.samples_of(step, static_cast<std::size_t>(lane)), ", "));
}

void Training::check_change(const std::vector<std::string>&, const std::string&) const {
  throw Error(ErrorKind::kUnsupported, "the workers are a program of its own, which has no keys of a job");
}

void Training::ask_for(const std::filesystem::path&, const std::vector<control::Change>&) const {
}

std::vector<control::Change> Training::asked(const std::filesystem::path&) const {
  return {};
}

std::vector<control::Change> Training::applied(const std::filesystem::path&) const {
  return {};
}

// It has no files of ours.
void Training::write_failure(const std::filesystem::path&, std::uint64_t, const std::string&) const {
}

}  // namespace muster::coordinator
