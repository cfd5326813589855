// Field by field, in both directions side by side. Numbers that come from outside are brought into their range here,
// and texts are cut to what people can read.
#include "muster/control/cluster_wire.h"

#include <algorithm>
#include <cmath>

#include "muster/base/text.h"

namespace muster::control {
namespace {

constexpr std::size_t kMostNameBytes = 256;
constexpr std::size_t kMostReasonBytes = 2048;

}  // namespace

void to_wire(const HostCard& card, v1::JoinRequest& request) {
  request.set_version(excerpt(card.version, kMostNameBytes));
  request.set_name(excerpt(card.name, kMostNameBytes));
  request.set_most_workers(card.most_workers);
  request.set_cores(card.cores);
  request.set_begun(card.begun);
  request.set_cluster(excerpt(card.cluster, kMostNameBytes));
}

HostCard from_wire(const v1::JoinRequest& request) {
  return {excerpt(request.version(), kMostNameBytes),
          excerpt(request.name(), kMostNameBytes),
          request.most_workers(),
          request.cores(),
          request.begun(),
          excerpt(request.cluster(), kMostNameBytes)};
}

void to_wire(const Welcome& welcome, v1::JoinReply& reply) {
  reply.set_host(welcome.host);
  reply.set_job(welcome.job);
  reply.set_program(welcome.program);
  for (const std::string& argument : welcome.arguments)
    reply.add_arguments(argument);
  reply.set_run(excerpt(welcome.run, kMostNameBytes));
  reply.set_cluster(welcome.cluster);
  reply.set_term(welcome.term);
  reply.set_life(welcome.life);
  reply.set_interval_ms(static_cast<std::uint32_t>(welcome.interval.count()));
  reply.set_patience_ms(static_cast<std::uint32_t>(welcome.patience.count()));
}

Welcome from_wire(const v1::JoinReply& reply) {
  Welcome welcome;
  welcome.host = reply.host();
  welcome.job = reply.job();
  welcome.program = reply.program();
  welcome.arguments.assign(reply.arguments().begin(), reply.arguments().end());
  welcome.run = reply.run();
  welcome.cluster = reply.cluster();
  welcome.term = std::max<std::uint64_t>(reply.term(), 1);
  welcome.life = reply.life();
  welcome.interval = std::chrono::milliseconds(std::clamp<std::uint32_t>(reply.interval_ms(), 10, 60'000));
  welcome.patience = std::chrono::milliseconds(reply.patience_ms());
  return welcome;
}

void to_wire(const HostReport& report, v1::ReportRequest& request) {
  request.set_host(report.host);
  request.set_sequence(report.sequence);
  request.set_wanted(report.wanted);
  request.set_begun(report.begun);
  request.set_step(report.step);
  request.set_worker_speed(report.worker_speed);
  request.set_ends(excerpt(report.ends, kMostReasonBytes));
  request.set_fixed(report.fixed);
  request.set_data(excerpt(report.data, kMostNameBytes));
  request.set_calls(excerpt(report.calls, kMostNameBytes));
  for (const std::uint64_t number : report.links.heard)
    request.add_heard(number);
  for (const std::uint64_t number : report.links.unheard)
    request.add_unheard(number);
  request.set_data_whole(report.data_whole);
  request.set_data_held(excerpt(report.data_held, kMostNameBytes));
  request.set_place(excerpt(report.place, kMostNameBytes));
  if (report.saved) request.set_saved(*report.saved);
  request.set_alarm(excerpt(report.alarm, kMostReasonBytes));
}

HostReport from_wire(const v1::ReportRequest& request) {
  HostReport report;
  report.host = request.host();
  report.sequence = request.sequence();
  report.wanted = request.wanted();
  report.begun = request.begun();
  report.step = request.step();
  const double speed = request.worker_speed();
  report.worker_speed = std::isfinite(speed) && speed > 0 ? speed : 0;
  report.ends = excerpt(request.ends(), kMostReasonBytes);
  report.fixed = request.fixed();
  report.data = excerpt(request.data(), kMostNameBytes);
  report.calls = excerpt(request.calls(), kMostNameBytes);
  report.links.looks = !report.calls.empty();
  report.links.heard.assign(request.heard().begin(), request.heard().end());
  report.links.unheard.assign(request.unheard().begin(), request.unheard().end());
  report.data_whole = request.data_whole();
  report.data_held = excerpt(request.data_held(), kMostNameBytes);
  report.place = excerpt(request.place(), kMostNameBytes);
  if (request.has_saved()) report.saved = request.saved();
  report.alarm = excerpt(request.alarm(), kMostReasonBytes);
  return report;
}

void to_wire(const Orders& orders, v1::ReportReply& reply) {
  reply.set_revision(orders.revision);
  if (orders.generation) reply.set_generation(orders.generation->to_text());
  reply.set_workers(orders.workers);
  reply.set_stop(orders.stop);
  reply.set_at_once(orders.at_once);
  for (const DataHost& host : orders.data) {
    v1::DataHost& entry = *reply.add_data();
    entry.set_host(host.host);
    entry.set_name(excerpt(host.name, kMostNameBytes));
    entry.set_address(host.address);
    entry.set_whole(host.whole);
    entry.set_held(host.held);
  }
  for (const Peer& peer : orders.peers) {
    v1::Peer& entry = *reply.add_peers();
    entry.set_host(peer.host);
    entry.set_address(peer.address);
  }
  if (orders.over) reply.set_over(excerpt(*orders.over, kMostReasonBytes));
  for (const Change& change : orders.changes) {
    v1::JobChange& out = *reply.add_changes();
    out.set_number(change.number);
    out.set_assignment(change.assignment);
  }
}

Orders from_wire(const v1::ReportReply& reply) {
  Orders orders;
  orders.revision = reply.revision();
  if (!reply.generation().empty()) orders.generation = JobGeneration::from_text(reply.generation());
  orders.workers = reply.workers();
  orders.stop = reply.stop();
  orders.at_once = reply.at_once();
  for (const v1::DataHost& entry : reply.data())
    orders.data.push_back({entry.host(), excerpt(entry.name(), kMostNameBytes),
                           excerpt(entry.address(), kMostNameBytes), entry.whole(),
                           excerpt(entry.held(), kMostNameBytes)});
  for (const v1::Peer& entry : reply.peers())
    orders.peers.push_back({entry.host(), excerpt(entry.address(), kMostNameBytes)});
  if (reply.has_over()) orders.over = reply.over();
  for (const v1::JobChange& change : reply.changes())
    orders.changes.push_back({change.number(), change.assignment(), std::nullopt});
  return orders;
}

std::chrono::milliseconds bounded_wait(std::uint32_t asked) {
  return std::min(std::chrono::milliseconds(asked), kLongestWait);
}

}  // namespace muster::control
