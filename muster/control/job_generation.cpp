// What a coordinator, an agent and a worker have to agree on is computed here once; the text is checked before anybody
// trains by it, because a gap between two hosts' lanes would train something else without a word.
#include "muster/control/job_generation.h"

#include <algorithm>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::control {
namespace {

constexpr std::size_t kMostLanesOfAJob = 4096;
constexpr const char* kJobGenerationPlace = "the text of a job generation";

[[noreturn]] void refuse_generation(const std::string& reason) {
  throw Error(ErrorKind::kDamaged, reason, kJobGenerationPlace,
              "Run the same version of Muster on all hosts of the job.");
}

void validate(const JobGeneration& generation) {
  if (generation.number == 0) refuse_generation("it has number 0; they count from 1");
  if (generation.lanes == 0 || generation.lanes > kMostLanesOfAJob)
    refuse_generation(fmt::format("{} lanes; 1 to {} are possible", generation.lanes, kMostLanesOfAJob));
  if (generation.hosts.empty()) refuse_generation("it has no hosts");
  std::size_t next = 0;
  for (std::size_t place = 0; place < generation.hosts.size(); ++place) {
    const JobHost& host = generation.hosts[place];
    if (host.number < kFirstHost) refuse_generation("a host without a number");
    if (host.members == 0) refuse_generation(fmt::format("host {} has no members", host.number));
    for (std::size_t other = 0; other < place; ++other) {
      if (generation.hosts[other].number == host.number) refuse_generation(fmt::format("host {} twice", host.number));
    }
    if (host.first_lane != next || host.last_lane < host.first_lane)
      refuse_generation(fmt::format("host {} has lanes {} to {} where lane {} comes next", host.number, host.first_lane,
                                    host.last_lane, next));
    next = host.last_lane;
  }
  if (next != generation.lanes) refuse_generation(fmt::format("the hosts have {} of {} lanes", next, generation.lanes));
}

}  // namespace

std::string JobGeneration::to_text() const {
  Json list = Json::array();
  for (const JobHost& host : hosts) {
    list.push_back({{"number", host.number},
                    {"name", host.name},
                    {"members", host.members},
                    {"first_lane", host.first_lane},
                    {"last_lane", host.last_lane}});
  }
  // A name that is not UTF-8 is shown as well as can be.
  return Json{{"number", number}, {"lanes", lanes}, {"hosts", list}}.dump(-1, ' ', false,
                                                                          Json::error_handler_t::replace);
}

JobGeneration JobGeneration::from_text(const std::string& text) {
  const std::string where = kJobGenerationPlace;
  const Json json = parse_json(text, where);
  JobGeneration generation;
  generation.number = json_get<std::uint64_t>(json, "number", where);
  generation.lanes = json_get<std::uint64_t>(json, "lanes", where);
  if (!json.contains("hosts") || !json["hosts"].is_array()) refuse_generation("its hosts are no list");
  for (const Json& entry : json["hosts"]) {
    JobHost& host = generation.hosts.emplace_back();
    host.number = json_get<std::uint64_t>(entry, "number", where);
    host.name = json_get<std::string>(entry, "name", where);
    host.members = json_get<std::uint64_t>(entry, "members", where);
    host.first_lane = json_get<std::uint64_t>(entry, "first_lane", where);
    host.last_lane = json_get<std::uint64_t>(entry, "last_lane", where);
  }
  validate(generation);
  return generation;
}

int JobGeneration::workers() const {
  return first_rank(hosts.size());
}

std::size_t JobGeneration::place_of(std::uint64_t wanted) const {
  const auto found =
      std::find_if(hosts.begin(), hosts.end(), [&](const JobHost& host) { return host.number == wanted; });
  if (found == hosts.end())
    throw Error(ErrorKind::kMismatch, fmt::format("host {} is not one of job generation {}", wanted, number));
  return static_cast<std::size_t>(found - hosts.begin());
}

int JobGeneration::first_rank(std::size_t place) const {
  MUSTER_CHECK(place <= hosts.size(), "a host of this generation");
  int rank = 0;
  for (std::size_t before = 0; before < place; ++before)
    rank += hosts[before].workers();
  return rank;
}

int JobGeneration::rank_of(std::size_t place, int seat) const {
  const std::uint64_t members = hosts.at(place).members;
  MUSTER_CHECK(seat >= 0 && seat < 64 && (members >> seat & 1) != 0, "a member of that host");
  return first_rank(place) + std::popcount(members & ((std::uint64_t{1} << seat) - 1));
}

std::size_t JobGeneration::host_of(int rank) const {
  MUSTER_CHECK(rank >= 0 && rank < workers(), "a rank of this generation");
  std::size_t place = 0;
  while (rank >= first_rank(place + 1))
    ++place;
  return place;
}

LaneRange JobGeneration::lanes_of(std::size_t place, std::size_t count) const {
  const JobHost& host = hosts.at(place);
  return {host.first_lane * count / lanes, host.last_lane * count / lanes};
}

std::string hosts_key(std::uint64_t arena_generation) {
  return fmt::format("hosts/{}", arena_generation);
}

std::string own_host_key(std::uint64_t arena_generation) {
  return fmt::format("own_host/{}", arena_generation);
}

std::string refusal_text(const Error& error) {
  return Json({{"message", error.message()}, {"where", error.where()}, {"remedy", error.remedy()}})
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Error refusal_of(const std::string& text) {
  const std::string where = "what a worker said of its data";
  try {
    const Json json = parse_json(text, where);
    return Error(ErrorKind::kMismatch, json_get<std::string>(json, "message", where),
                 json_get<std::string>(json, "where", where), json_get<std::string>(json, "remedy", where));
  } catch (const Error&) {
    return Error(ErrorKind::kMismatch, excerpt(text, 200));
  }
}

std::string other_kernels_key(std::uint64_t host) {
  return fmt::format("{}{}", kOtherKernels, host);
}

std::string broken_key(std::uint64_t number) {
  return fmt::format("broken/{}", number);
}

}  // namespace muster::control
