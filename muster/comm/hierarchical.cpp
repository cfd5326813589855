// The calls, messages and failures of the two parts brought together. Each part numbers ranks in its own way:
// everything that leaves here, words of errors too, is told in ranks of the whole group.
#include "muster/comm/hierarchical.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/comm/combine.h"
#include "muster/comm/hierarchical_parts.h"
#include "muster/comm/pause.h"
#include "muster/comm/self_backend.h"

namespace muster::comm {
namespace {

// In front of a failure that was told in the ranks of the whole group.
constexpr std::string_view kTold = "of the whole group: ";

}  // namespace

HostLayout::HostLayout(const std::vector<int>& host_of_rank) {
  std::map<int, int> numbers;
  for (std::size_t rank = 0; rank < host_of_rank.size(); ++rank) {
    const auto found = numbers.try_emplace(host_of_rank[rank], static_cast<int>(hosts.size()));
    if (found.second) hosts.emplace_back();
    std::vector<int>& members = hosts[static_cast<std::size_t>(found.first->second)];
    host_of.push_back(found.first->second);
    index_of.push_back(static_cast<int>(members.size()));
    members.push_back(static_cast<int>(rank));
  }
  owners = hosts.empty() ? 0 : hosts.front().size();
  for (const std::vector<int>& members : hosts) {
    even = even && members.size() == hosts.front().size();
    owners = std::min(owners, members.size());
  }
}

std::string with_global_ranks(std::string_view text, const std::vector<int>& members) {
  constexpr std::string_view kRank = "rank ";
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t found = text.find(kRank, at);
    const std::size_t number = found == std::string_view::npos ? text.size() : found + kRank.size();
    result += text.substr(at, number - at);
    std::size_t rank = 0;
    const auto parsed = std::from_chars(text.data() + number, text.data() + text.size(), rank);
    at = static_cast<std::size_t>(parsed.ptr - text.data());
    if (at == number) continue;
    const bool known = parsed.ec == std::errc() && rank < members.size();
    result += known ? fmt::format("{}", members[rank]) : std::string(text.substr(number, at - number));
  }
  return result;
}

HierarchicalBackend::Message::Message(HierarchicalBackend& backend, bool near, std::unique_ptr<Transfer> transfer)
    : backend_(backend), near_(near), transfer_(std::move(transfer)) {
  backend_.under_way_.push_back(this);
}

HierarchicalBackend::Message::~Message() {
  std::erase(backend_.under_way_, this);
}

bool HierarchicalBackend::Message::test() {
  if (error_) throw *error_;
  if (!done_) done_ = near_ ? backend_.translated([&] { return transfer_->test(); }) : transfer_->test();
  return done_;
}

void HierarchicalBackend::Message::wait(const Deadline& deadline) {
  Pause pause;
  while (!test()) {
    // Each part moves its own messages while it waits, and not those of the other part.
    if (deadline.passed() || !backend_.move_messages(!near_)) {
      if (near_)
        backend_.translated([&] { transfer_->wait(deadline); });
      else
        transfer_->wait(deadline);
      done_ = true;
      return;
    }
    pause();
  }
}

bool HierarchicalBackend::move_messages(bool near) {
  bool unfinished = false;
  for (Message* message : under_way_) {
    if (message->near_ != near || message->done_ || message->error_) continue;
    try {
      unfinished |= !message->test();
    } catch (const Error& error) {
      message->error_ = error;  // for whoever waits for it
    }
  }
  return unfinished;
}

HierarchicalBackend::HierarchicalBackend(std::unique_ptr<Backend> local, std::unique_ptr<Backend> network,
                                         const std::vector<int>& host_of_rank)
    : layout_(host_of_rank),
      rank_(network->rank()),
      host_(static_cast<std::size_t>(layout_.host_of.at(static_cast<std::size_t>(rank_)))),
      index_(static_cast<std::size_t>(layout_.index_of[static_cast<std::size_t>(rank_)])),
      local_(std::move(local)),
      network_(std::move(network)) {
  MUSTER_CHECK(static_cast<std::size_t>(network_->size()) == host_of_rank.size(), "a host for every rank");
  MUSTER_CHECK(static_cast<std::size_t>(local_->size()) == local_ranks(), "the local part is this host's ranks");
  MUSTER_CHECK(static_cast<std::size_t>(local_->rank()) == index_, "ranks of a host are in order");
}

Error HierarchicalBackend::in_global_ranks(const Error& error) const {
  const std::string where = fmt::format("rank {}", rank_);
  if (error.message().starts_with(kTold))
    return {error.kind(), error.message().substr(kTold.size()), where, error.remedy()};
  return {error.kind(), with_global_ranks(error.message(), layout_.hosts[host_]), where, error.remedy()};
}

void HierarchicalBackend::tell_failure(const Error& error) {
  // The rank that the text names first is the one everyone should hear of.
  int cause = rank_;
  const std::size_t named = error.message().find("rank ");
  if (named != std::string::npos) {
    const char* const number = error.message().data() + named + 5;
    std::from_chars(number, error.message().data() + error.message().size(), cause);
    if (cause < 0 || cause >= size()) cause = rank_;
  }
  abort(cause, error.message());
}

void HierarchicalBackend::abort(int rank, const std::string& reason) {
  const std::string text = reason.find(fmt::format("rank {}", rank)) != std::string::npos
                               ? reason
                               : fmt::format("rank {} is lost: {}", rank, reason);
  local_->abort(static_cast<int>(index_), std::string(kTold) + text);
  network_->abort(rank, reason);
}

Call HierarchicalBackend::host_call(Operation operation, ElementType type, std::size_t count, int root) {
  Call call;
  call.sequence = ++host_calls_;
  call.operation = operation;
  call.type = type;
  call.count = count;
  call.root = root;
  return call;
}

// By messages rather than by the local part's collectives: until everybody has come, somebody may still be waiting for
// a message of this rank, which moves on while this rank waits for a message.
void HierarchicalBackend::compare(const Call& call, Times& times) {
  const std::size_t ranks = layout_.host_of.size();
  std::vector<Call> calls(ranks);  // by rank
  const auto bytes_of = [](std::vector<Call>& some) { return reinterpret_cast<std::byte*>(some.data()); };
  calls[static_cast<std::size_t>(rank_)] = call;
  Clock::Instant first = times.host.instant();  // that somebody on this host gives up
  auto* const first_bytes = reinterpret_cast<std::byte*>(&first);
  if (index_ > 0) {
    const Clock::Instant own = first;
    Exchange exchange(*this);
    exchange.receive(layout_.hosts[host_][0], kCallTag, bytes_of(calls), ranks * sizeof(Call));
    exchange.receive(layout_.hosts[host_][0], kTimeTag, first_bytes, sizeof(first));
    exchange.send(layout_.hosts[host_][0], kCallTag, reinterpret_cast<const std::byte*>(&call), sizeof(Call));
    exchange.send(layout_.hosts[host_][0], kTimeTag, reinterpret_cast<const std::byte*>(&own), sizeof(own));
    exchange.wait(times.host, [&] {
      return fmt::format("passed on the calls of all ranks: it, or one that it waits for, has not come to {}",
                         to_string(call));
    });
    times.end_network_before(first);
  } else {
    collect_calls(call, calls, times);
    first = times.network.instant() + times.step;
    Exchange exchange(*this);
    for (std::size_t index = 1; index < local_ranks(); ++index) {
      exchange.send(layout_.hosts[host_][index], kCallTag, bytes_of(calls), ranks * sizeof(Call));
      exchange.send(layout_.hosts[host_][index], kTimeTag, first_bytes, sizeof(first));
    }
    exchange.wait(times.host);
  }
  if (std::all_of(calls.begin(), calls.end(), [&](const Call& other) { return other == call; })) return;
  throw Error(ErrorKind::kMismatch, "the ranks made different calls: " + describe_mismatch(calls),
              fmt::format("rank {}", rank_));
}

// A leader's part: the calls of its own host, then those of the others.
void HierarchicalBackend::collect_calls(const Call& call, std::vector<Call>& calls, Times& times) {
  const auto not_come = [&] { return "come to " + to_string(call); };
  std::vector<Clock::Instant> ends(local_ranks(), times.host.instant());
  Exchange own(*this);
  for (std::size_t index = 1; index < local_ranks(); ++index) {
    const int peer = layout_.hosts[host_][index];
    own.receive(peer, kCallTag, reinterpret_cast<std::byte*>(&calls[static_cast<std::size_t>(peer)]), sizeof(Call));
    own.receive(peer, kTimeTag, reinterpret_cast<std::byte*>(&ends[index]), sizeof(Clock::Instant));
  }
  own.wait(times.arrival, not_come);
  times.end_network_before(*std::min_element(ends.begin(), ends.end()));

  std::vector<std::vector<Call>> by_host(hosts());
  for (std::size_t host = 0; host < hosts(); ++host)
    by_host[host].resize(layout_.hosts[host].size());
  for (std::size_t index = 0; index < local_ranks(); ++index)
    by_host[host_][index] = calls[static_cast<std::size_t>(layout_.hosts[host_][index])];
  Exchange others(*this);
  for (std::size_t host = 0; host < hosts(); ++host) {
    if (host == host_) continue;
    others.receive(row_peer(host), kCallTag, reinterpret_cast<std::byte*>(by_host[host].data()),
                   by_host[host].size() * sizeof(Call));
    others.send(row_peer(host), kCallTag, reinterpret_cast<const std::byte*>(by_host[host_].data()),
                by_host[host_].size() * sizeof(Call));
  }
  others.wait(times.network, not_come);
  for (std::size_t host = 0; host < hosts(); ++host) {
    for (std::size_t index = 0; index < by_host[host].size(); ++index)
      calls[static_cast<std::size_t>(layout_.hosts[host][index])] = by_host[host][index];
  }
}

void HierarchicalBackend::all_to_all(const Call& call, const void* input, void* output, const Deadline& deadline) {
  Times times(deadline);
  compare(call, times);
  const std::size_t bytes = call.count * size_of(call.type);
  const auto* const in = static_cast<const std::byte*>(input);
  auto* const out = static_cast<std::byte*>(output);
  // Other hosts' messages move while this host's are waited for. Those first: they depend on this host alone.
  Exchange on_this_host(*this);
  Exchange elsewhere(*this);
  for (int peer = 0; peer < size(); ++peer) {
    const std::size_t place = static_cast<std::size_t>(peer) * bytes;
    if (peer == rank_) {
      copy_bytes(out + place, in + place, bytes);
      continue;
    }
    Exchange& exchange = is_near(peer) ? on_this_host : elsewhere;
    exchange.receive(peer, kDataTag, out + place, bytes);
    exchange.send(peer, kDataTag, in + place, bytes);
  }
  on_this_host.wait(times.network);
  elsewhere.wait(times.network);
}

void HierarchicalBackend::gather(const Call& call, const void* input, void* output, const Deadline& deadline) {
  Times times(deadline);
  compare(call, times);
  const std::size_t bytes = call.count * size_of(call.type);
  const auto* const in = static_cast<const std::byte*>(input);
  auto* const out = static_cast<std::byte*>(output);
  Exchange exchange(*this);
  if (rank_ != call.root) exchange.send(call.root, kDataTag, in, bytes);
  for (int peer = 0; rank_ == call.root && peer < size(); ++peer) {
    std::byte* const part = out + static_cast<std::size_t>(peer) * bytes;
    if (peer == rank_)
      copy_bytes(part, in, bytes);
    else
      exchange.receive(peer, kDataTag, part, bytes);
  }
  exchange.wait(times.network);
}

void HierarchicalBackend::scatter(const Call& call, const void* input, void* output, const Deadline& deadline) {
  Times times(deadline);
  compare(call, times);
  const std::size_t bytes = call.count * size_of(call.type);
  const auto* const in = static_cast<const std::byte*>(input);
  auto* const out = static_cast<std::byte*>(output);
  Exchange exchange(*this);
  if (rank_ != call.root) exchange.receive(call.root, kDataTag, out, bytes);
  for (int peer = 0; rank_ == call.root && peer < size(); ++peer) {
    const std::byte* const part = in + static_cast<std::size_t>(peer) * bytes;
    if (peer == rank_)
      copy_bytes(out, part, bytes);
    else
      exchange.send(peer, kDataTag, part, bytes);
  }
  exchange.wait(times.network);
}

void HierarchicalBackend::barrier(const Call& call, const Deadline& deadline) {
  Times times(deadline);
  compare(call, times);
}

std::unique_ptr<Transfer> HierarchicalBackend::send(int peer, std::uint32_t tag, ConstView data) {
  const auto to = static_cast<std::size_t>(peer);
  const bool near = is_near(peer);
  auto transfer = near ? translated([&] { return local_->send(layout_.index_of[to], tag, data); })
                       : network_->send(peer, tag, data);
  return std::make_unique<Message>(*this, near, std::move(transfer));
}

std::unique_ptr<Transfer> HierarchicalBackend::receive(int peer, std::uint32_t tag, View data) {
  const auto from = static_cast<std::size_t>(peer);
  const bool near = is_near(peer);
  auto transfer = near ? translated([&] { return local_->receive(layout_.index_of[from], tag, data); })
                       : network_->receive(peer, tag, data);
  return std::make_unique<Message>(*this, near, std::move(transfer));
}

std::unique_ptr<Backend> HierarchicalBackend::split(const std::vector<int>& members, const std::string& name,
                                                    const Deadline& deadline) {
  std::vector<int> host_of_member;
  std::vector<int> near;  // of this host, by index
  for (const int member : members) {
    const auto rank = static_cast<std::size_t>(member);
    host_of_member.push_back(layout_.host_of[rank]);
    if (static_cast<std::size_t>(layout_.host_of[rank]) == host_) near.push_back(layout_.index_of[rank]);
  }
  const HostLayout layout(host_of_member);
  auto local = near.size() == 1 ? make_self_backend() : on_host([&] { return local_->split(near, name, deadline); });
  if (layout.hosts.size() == 1) return local;
  auto network = between_hosts([&] { return network_->split(members, name, deadline); });
  if (layout.hosts.size() == members.size()) return network;
  return std::make_unique<HierarchicalBackend>(std::move(local), std::move(network), host_of_member);
}

}  // namespace muster::comm
