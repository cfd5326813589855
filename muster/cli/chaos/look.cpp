// A client is kept as long as it finds a coordinator: who takes over on the same host has a record of its own. Lines
// are written whole or, by a process that is killed, not to their end: the reader passes over those.
#include "muster/cli/chaos/look.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/cli/runs.h"
#include "muster/control/control_client.h"

namespace muster::cli {
namespace {

constexpr std::chrono::milliseconds kLookPause{100};
constexpr std::chrono::milliseconds kLookAnswerTime{500};

Look look_by(const control::ControlClient& client) {
  const control::JobStatus status = client.status(Deadline::after(kLookAnswerTime));
  Look look;
  look.live = status.live;
  look.state = status.state;
  look.step = status.step;
  look.total_steps = status.total_steps;
  look.generation = status.job_generation;
  look.samples_per_second = status.samples_per_second;
  if (const auto cluster = client.record().cluster()) look.term = cluster->term;
  for (const control::HostStatus& host : status.hosts)
    look.hosts.push_back({host.name, host.number, host.workers, host.checkpoint});
  return look;
}

}  // namespace

bool Look::all_train(int count) const {
  return live && static_cast<int>(hosts.size()) == count && step > 0 &&
         std::ranges::all_of(hosts, [](const HostLook& host) { return host.workers > 0; });
}

Json to_json(const Look& look) {
  Json hosts = Json::array();
  for (const HostLook& host : look.hosts)
    hosts.push_back({{"name", host.name},
                     {"number", host.number},
                     {"workers", host.workers},
                     {"checkpoint", host.checkpoint ? Json(*host.checkpoint) : Json()}});
  return {{"at", look.at},
          {"live", look.live},
          {"state", look.state},
          {"step", look.step},
          {"total_steps", look.total_steps},
          {"generation", look.generation},
          {"term", look.term},
          {"samples_per_second", look.samples_per_second},
          {"hosts", hosts}};
}

Look look_of(const Json& row) {
  Look look;
  look.at = row.at("at");
  look.live = row.at("live");
  look.state = row.at("state");
  look.step = row.at("step");
  look.total_steps = row.at("total_steps");
  look.generation = row.at("generation");
  look.term = row.at("term");
  look.samples_per_second = row.at("samples_per_second");
  for (const Json& host : row.at("hosts")) {
    HostLook& one = look.hosts.emplace_back(HostLook{host.at("name"), host.at("number"), host.at("workers")});
    if (!host.at("checkpoint").is_null()) one.checkpoint = host.at("checkpoint").get<std::uint64_t>();
  }
  return look;
}

double look_clock() {
  return std::chrono::duration<double>(system_clock().now().time_since_epoch()).count();
}

void keep_looking(const std::string& job, const std::filesystem::path& runs, const std::filesystem::path& file) {
  std::unique_ptr<control::ControlClient> client;
  std::ofstream out(file, std::ios::app);
  for (;;) {
    Look look;
    try {
      if (!client) client = std::make_unique<control::ControlClient>(find_newest_run(job, runs));
      look = look_by(*client);
    } catch (const Error&) {
      // There is no run yet, or its record is in the middle of a change of coordinators.
    }
    if (!look.live) client.reset();
    look.at = look_clock();
    out << to_json(look).dump() << std::endl;
    system_clock().sleep_for(kLookPause);
  }
}

std::vector<Look> LookReader::next() {
  std::vector<Look> looks;
  std::ifstream in(file_, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(offset_));
  for (std::string line; std::getline(in, line) && !in.eof();) {
    offset_ += line.size() + 1;
    const Json row = Json::parse(line, nullptr, false);
    if (row.is_object()) looks.push_back(look_of(row));
  }
  return looks;
}

}  // namespace muster::cli
