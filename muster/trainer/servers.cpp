// The plan goes through the job's store: the first worker leaves it, the others compare. Who has been where at a
// barrier is in the store as well, so that it outlives whoever said it.
#include "muster/trainer/servers.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/comm/supervisor_sign.h"
#include "muster/control/server_map.h"
#include "muster/trainer/session_agreement.h"
#include "muster/trainer/worker_place.h"

namespace muster::trainer {
namespace {

constexpr const char* kFilledKey = "served/filled";
constexpr std::chrono::milliseconds kLook{100};

// What the first worker's plan says otherwise, in words.
std::string difference(const std::string& first, const std::string& own) {
  const Json one = Json::parse(first);
  const Json other = Json::parse(own);
  std::vector<std::string> keys;
  for (const auto& [key, value] : one.items())
    if (!other.contains(key) || other[key] != value) keys.push_back(key);
  return join_words(keys);
}

bool is_filled(comm::Store& store) {
  try {
    return !store.get(kFilledKey, Deadline::after(std::chrono::nanoseconds(0))).empty();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kTimeout) throw;
    return false;
  }
}

// Of a worker that another worker's end has to end as well: what is waited for comes as long as workers are replaced.
std::string get_supervised(comm::Store& store, const std::string& folder, const std::string& key) {
  for (;;) {
    try {
      return store.get(key, Deadline::after(kLook));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout) throw;
      if (!comm::supervisor_lives(folder))
        throw Error(ErrorKind::kPeerLost, "muster run is gone, and with it whoever replaces workers", {},
                    "Start the job again.");
    }
  }
}

}  // namespace

Servers::Servers(const Worker& worker, strategies::ServerPlan plan, const strategies::ParameterClient::Initial& initial)
    : place_(worker.shared_place()), exceptions_(std::uncaught_exceptions()) {
  const launch::World& world = place_->world();
  if (plan.rules.empty()) plan.rules.resize(plan.layout.tensors().size());
  plan.separate_tensors = true;
  if (world.servers == 0 || !place_->supervised()) {
    if (world.size > 1)
      throw Error(ErrorKind::kInvalidInput, fmt::format("{} workers and no parameter servers", world.size), {},
                  "Start the program by muster run -n 4 --servers 2 ./my_program.");
    plan.workers = 1;
    plan.servers = std::max(plan.servers, plan.copies);
    local_ = std::make_unique<strategies::LocalServers>(
        plan, strategies::LocalServersOptions{.update = place_->server_update(), .initial = initial});
    client_ = std::make_unique<strategies::ParameterClient>(
        strategies::ClientOptions{.number = 0, .store = local_->store()}, place_->timeout());
    return;
  }
  plan.workers = static_cast<std::uint32_t>(world.size);
  plan.servers = static_cast<std::uint32_t>(control::most_servers(world.servers));
  plan.copies = static_cast<std::uint32_t>(world.copies);
  store_ = place_->supervised()->store;
  const bool first = world.rank == 0;
  // One that takes the place of the first has the same plan.
  if (first && !is_filled(*store_)) strategies::put_plan(*store_, plan);
  get_supervised(*store_, world.store, "plan/count");
  const std::string agreed = strategies::get_plan(*store_, place_->deadline()).to_text();
  if (agreed != plan.to_text()) {
    leave_refusal(*store_, world.rank);
    throw Error(ErrorKind::kMismatch,
                fmt::format("the plan of worker {} has other {} than that of worker 0", world.rank,
                            difference(agreed, plan.to_text())),
                "muster::ServerPlan", "Start every worker with the same program, arguments and data.");
  }
  // Whoever keeps the servers ends and replaces those that do not get on: what is waited for comes.
  client_ = std::make_unique<strategies::ParameterClient>(
      strategies::ClientOptions{.number = static_cast<std::uint32_t>(world.rank),
                                .store = store_,
                                .watched = [folder = world.store] { return comm::supervisor_lives(folder); }},
      place_->timeout());
  // What others push before all is filled would be lost if the first were, and filled again.
  if (!first) get_supervised(*store_, world.store, kFilledKey);
  if (!first || is_filled(*store_)) return;
  client_->fill(initial);
  MUSTER_FAILPOINT("servers.filled");
  store_->set(kFilledKey, "1");
}

Servers::~Servers() {
  if (!client_ || std::uncaught_exceptions() > exceptions_) return;
  try {
    barrier();
  } catch (const Error&) {
    // Whoever starts workers is gone: there is nobody to wait for.
  }
}

void Servers::barrier() {
  if (!store_) return;
  const launch::World& world = place_->world();
  const auto key = [&](int rank) { return fmt::format("served/{}/{}", barriers_, rank); };
  store_->set(key(world.rank), "1");
  for (int rank = 0; rank < world.size; ++rank)
    get_supervised(*store_, world.store, key(rank));
  ++barriers_;
}

}  // namespace muster::trainer
