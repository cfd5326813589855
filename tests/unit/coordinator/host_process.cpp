// A host of a job as a process of its own, whose workers have no model:
//   host_process agent ADDRESS NAME FILE   an agent; every report it makes goes into FILE: "HOST BEGUN STEP"
//   host_process coordinator FILE          a coordinator that is no host; its address goes into FILE
// Ends as coordinator::Agent does, with 9 where that throws.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/version.h"
#include "muster/control/cluster_client.h"
#include "muster/control/cluster_server.h"
#include "muster/coordinator/agent.h"
#include "muster/coordinator/cluster.h"

namespace muster::coordinator {
namespace {

int asked = 0;

// Of our own: they end together.
class OurHosts final : public Training {
 public:
  bool ours() const override { return true; }
};

// Tells a file of every report, heard or not.
class Overheard final : public control::ClusterCalls {
 public:
  Overheard(control::ClusterCalls& calls, std::string file) : calls_(calls), file_(std::move(file)) {}
  control::Welcome join(const control::HostCard& card) override { return calls_.join(card); }
  control::Orders report(const control::HostReport& report, std::uint64_t known,
                         std::chrono::milliseconds wait) override {
    if (wait.count() == 0) write_atomically(file_, fmt::format("{} {} {}\n", report.host, report.begun, report.step));
    return calls_.report(report, known, wait);
  }
  void store_set(std::uint64_t host, std::string_view key, std::string_view value) override {
    calls_.store_set(host, key, value);
  }
  std::optional<std::string> store_get(std::uint64_t host, std::string_view key,
                                       std::chrono::milliseconds wait) override {
    return calls_.store_get(host, key, wait);
  }
  void leave(std::uint64_t host, int code, const std::string& reason) override { calls_.leave(host, code, reason); }

 private:
  control::ClusterCalls& calls_;
  const std::string file_;
};

int run_agent(const std::string& address, const std::string& name, const std::string& file) {
  ::signal(SIGTERM, [](int signal) { asked = signal; });
  control::ClusterClient client({.address = address});
  Overheard calls(client, file);
  AgentOptions options;
  options.card = {.version = version(), .name = name};
  options.patience = std::chrono::seconds(20);
  options.tell = [&](const std::string& line) { fmt::print(stderr, "{}: {}\n", name, line); };
  options.job = [](const control::Welcome& welcome, std::string&) {
    CoordinatedJob job;
    job.name = welcome.run;
    job.command = {SUPERVISED_WORKER, {"train"}, {}};
    job.grace = std::chrono::seconds(2);
    job.orphan = std::chrono::seconds(4);
    job.training = std::make_shared<const OurHosts>();
    return job;
  };
  Audience audience;
  audience.requested_signal = [] { return asked; };
  return Agent(calls, std::move(options)).run(audience);
}

int run_coordinator(const std::string& file) {
  ClusterOptions options;
  options.least = options.most = 2;
  options.lanes = 4;
  options.welcome.interval = std::chrono::milliseconds(50);
  Cluster cluster(std::move(options));
  const control::ClusterServer server(cluster, {.address = "127.0.0.1:0"});
  write_atomically(file, server.address());
  for (;;)
    ::pause();
}

}  // namespace
}  // namespace muster::coordinator

int main(int argc, char** argv) {
  using namespace muster::coordinator;
  const std::string mode = argc > 1 ? argv[1] : "";
  try {
    if (mode == "agent" && argc == 5) return run_agent(argv[2], argv[3], argv[4]);
    if (mode == "coordinator" && argc == 3) return run_coordinator(argv[2]);
  } catch (const muster::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 9;
  }
  return 64;
}
