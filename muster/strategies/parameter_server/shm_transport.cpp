// Both ends over the words of shm_seats.h: each slot belongs to one side at a time, and handing it over is one store.
// Whoever sleeps has said so before its last look, so no ring is missed.
#include "muster/strategies/parameter_server/shm_transport.h"

#include <exception>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/comm/arena_words.h"
#include "muster/comm/copy.h"
#include "muster/comm/region.h"
#include "muster/strategies/parameter_server/shm_seats.h"

namespace muster::strategies {
namespace {

using comm::ProcessWord;

// How long a sleeper trusts that it will be rung: who should ring may have been killed.
constexpr std::chrono::milliseconds kLookAround{50};
constexpr std::uint32_t kServer = 1;  // what the server's doorbell is rung for
constexpr const char* kPlace = ShmSeats::kPlace;
// Of a server's memory, which has parameters twice: what is read out of more than that does not stay in the caches.
constexpr std::size_t kCachedBytes = std::size_t{64} << 20;

std::chrono::nanoseconds slice(const Deadline& deadline) {
  return std::min<std::chrono::nanoseconds>(deadline.remaining(), kLookAround);
}

// The server's end.
class ShmInbox final : public Inbox {
 public:
  ShmInbox(const TransportLimits& limits, std::size_t memory_bytes)
      : region_(comm::SharedRegion::create(ShmSeats::bytes(limits, memory_bytes))),
        seats_(region_.bytes().data(), limits, memory_bytes),
        known_(static_cast<std::size_t>(limits.clients)),
        taken_(known_.size() * static_cast<std::size_t>(limits.window)),
        short_wait_(limits.clients + 1) {
    ShmSeats::Control& control = seats_.control();
    control.layout_version = ShmSeats::kLayoutVersion;
    control.clients = static_cast<std::uint32_t>(limits.clients);
    control.window = static_cast<std::uint32_t>(limits.window);
    control.most_body = limits.most_body;
    control.memory_bytes = memory_bytes;
    control.total_bytes = ShmSeats::bytes(limits, memory_bytes);
    control.server = ProcessWord::of(this_process()).pack();
    control.magic.store(ShmSeats::kMagic);
    server_.emplace(region_);
  }

  ~ShmInbox() override {
    seats_.control().closed.store(1);
    for (std::size_t client = 0; client < known_.size(); ++client)
      seats_.seat(client).bell.ring();
  }

  const std::string& address() const override { return server_->address(); }
  std::span<std::byte> memory() override { return seats_.memory(); }

  void wake() override {
    woken_.store(true);
    seats_.control().bell.ring_if_asleep(kServer);
  }

  std::optional<Incoming> next(const Deadline& deadline) override {
    std::optional<Incoming> incoming;
    bool woken = false;
    const auto ready = [&] {
      if (incoming || woken) return true;
      incoming = take();
      if (!incoming) woken = woken_.exchange(false);
      return incoming || woken;
    };
    if (ready() || deadline.passed() || short_wait_(ready)) return incoming;
    while (!ready() && !deadline.passed())
      seats_.control().bell.sleep(kServer, ready, slice(deadline));
    return incoming;
  }

  void reply(std::uint64_t handle, const Reply& reply, std::span<const std::byte> body) override {
    MUSTER_CHECK(body.size() <= seats_.limits().most_body, "a reply has at most most_body bytes");
    answer(handle, reply, body.size(), [&](std::size_t index, ShmSeats::Slot& slot) {
      comm::copy_bytes(seats_.body(index), body.data(), body.size());
      slot.in_place = 0;
    });
  }

  void reply_in_place(std::uint64_t handle, const Reply& reply, std::span<const std::byte> body,
                      const std::atomic<std::uint64_t>& guard, std::uint64_t limit) override {
    answer(handle, reply, body.size(), [&](std::size_t, ShmSeats::Slot& slot) {
      slot.in_place = 1;
      slot.offset = offset_of(body.data(), body.size());
      slot.guard = offset_of(&guard, sizeof guard);
      slot.limit = limit;
    });
  }

 private:
  // What is known of the connection in a seat.
  struct Known {
    std::uint32_t epoch = 0;
    std::uint32_t next = 0;  // the number of its next call
  };

  std::uint64_t offset_of(const void* part, std::size_t size) const {
    const std::span<std::byte> memory = seats_.memory();
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(part) - memory.data());
    MUSTER_CHECK(offset <= memory.size() && size <= memory.size() - offset,
                 "what is read in place, and its guard, lie in memory()");
    return offset;
  }

  // The clients in turn, so that none of them waits for ever.
  std::optional<Incoming> take() {
    for (std::size_t turn = 0; turn < known_.size(); ++turn) {
      const std::size_t client = (turn_ + turn) % known_.size();
      std::optional<Incoming> incoming = take_of(client);
      if (!incoming) continue;
      turn_ = client + 1;
      return incoming;
    }
    return std::nullopt;
  }

  std::optional<Incoming> take_of(std::size_t client) {
    ShmSeats::Seat& seat = seats_.seat(client);
    Known& known = known_[client];
    const std::uint32_t epoch = seat.epoch.load();
    if (epoch == 0) return std::nullopt;
    if (known.epoch != epoch) known = {epoch, 1};
    std::uint64_t posted = SlotWord{known.next, epoch, SlotState::kPosted}.pack();
    for (int slot = 0; slot < seats_.limits().window; ++slot) {
      std::atomic<std::uint64_t>& word = seat.words[static_cast<std::size_t>(slot)];
      if (word.load() != posted) continue;
      const std::uint64_t taken = SlotWord{known.next, epoch, SlotState::kTaken}.pack();
      if (!word.compare_exchange_strong(posted, taken)) return std::nullopt;  // the client took it back
      MUSTER_FAILPOINT("parameter_server.shm.taken");
      ++known.next;
      return incoming(client, slot, taken);
    }
    return std::nullopt;
  }

  std::optional<Incoming> incoming(std::size_t client, int slot, std::uint64_t taken) {
    const std::size_t index = seats_.index(client, slot);
    taken_[index] = taken;
    Incoming incoming{std::uint64_t{SlotWord::unpack(taken).sequence} << 32 | index, {}, {}};
    try {
      const ShmSeats::Slot slot = seats_.slot(index);  // a copy: what was checked does not change any more
      incoming.request = decode_request(slot.head());
      if (slot.body_bytes > seats_.limits().most_body) throw Error(ErrorKind::kDamaged, "the body is too long");
      incoming.body = {seats_.body(index), slot.body_bytes};
    } catch (const Error& error) {
      const std::string& reason = error.message();
      reply(incoming.handle, {.status = Status::kRefused},
            std::as_bytes(std::span(reason)).first(std::min(reason.size(), seats_.limits().most_body)));
      return std::nullopt;
    }
    incoming.request.client = static_cast<std::uint32_t>(client);
    return incoming;
  }

  template <typename Fill>
  void answer(std::uint64_t handle, const Reply& reply, std::size_t bytes, const Fill& fill) {
    const std::size_t index = handle & UINT32_MAX;
    MUSTER_CHECK(index < taken_.size() && taken_[index] != 0 && taken_[index] >> 32 == handle >> 32,
                 "a call is answered once");
    const SlotWord taken = SlotWord::unpack(std::exchange(taken_[index], 0));
    const auto window = static_cast<std::size_t>(seats_.limits().window);
    ShmSeats::Seat& seat = seats_.seat(index / window);
    std::atomic<std::uint64_t>& word = seat.words[index % window];
    if ((seat.epoch.load() & SlotWord::kEpochMask) != taken.epoch) {
      word.store(0);  // who asked is gone, and its successor may wait for the place
      seat.bell.ring_if_asleep(Doorbell::kAnything);
      return;
    }
    ShmSeats::Slot& slot = seats_.slot(index);
    slot.put(encode(reply), bytes);
    fill(index, slot);
    MUSTER_FAILPOINT("parameter_server.shm.before_reply");
    word.store(SlotWord{taken.sequence, taken.epoch, SlotState::kReplied}.pack());
    seat.bell.ring_if_asleep(static_cast<std::uint32_t>(index % window) + 1);
  }

  comm::SharedRegion region_;
  ShmSeats seats_;
  std::vector<Known> known_;
  std::vector<std::uint64_t> taken_;  // the words of slots that are the server's; 0: is not
  std::size_t turn_ = 0;              // the client that is looked at first
  const ShortWait short_wait_;
  std::atomic<bool> woken_{false};
  std::optional<comm::RegionServer> server_;
};

// A client's end.
class ShmConnection final : public Connection {
 public:
  ShmConnection(comm::SharedRegion region, const ShmSeats& seats, std::uint32_t client)
      : region_(std::move(region)),
        seats_(seats),
        client_(client),
        seat_(seats_.seat(client)),
        short_wait_(seats.limits().clients + 1),
        calls_of_slots_(static_cast<std::size_t>(seats.limits().window)) {
    sit();
    for (int slot = seats_.limits().window - 1; slot >= 0; --slot)
      held_.push_back(slot);
    reclaim();
  }

  ~ShmConnection() override {
    for (std::size_t slot = 0; slot < calls_of_slots_.size(); ++slot) {
      if (calls_of_slots_[slot] == 0) continue;
      std::uint64_t posted = word_of(calls_of_slots_[slot], SlotState::kPosted);
      seat_.words[slot].compare_exchange_strong(posted, 0);
    }
    std::uint64_t mine = ProcessWord::of(this_process()).pack();
    seat_.owner.compare_exchange_strong(mine, ProcessWord::left().pack());
  }

  std::optional<Call> try_start(const Request& request, std::span<const std::byte> body,
                                std::span<std::byte> reply) override {
    MUSTER_CHECK(body.size() <= seats_.limits().most_body, "a request has at most most_body bytes");
    if (free_.empty()) {
      collect();
      reclaim();
    }
    look_now_and_then();
    if (free_.empty()) return std::nullopt;
    const int slot = free_.back();
    free_.pop_back();
    const std::size_t index = seats_.index(client_, slot);
    comm::copy_bytes(seats_.body(index), body.data(), body.size());
    seats_.slot(index).put(encode(request), body.size());
    const Call call = next_++;
    calls_.emplace(call, Pending{slot, reply, false});
    calls_of_slots_[static_cast<std::size_t>(slot)] = call;
    MUSTER_FAILPOINT("parameter_server.shm.before_post");
    seat_.words[static_cast<std::size_t>(slot)].store(word_of(call, SlotState::kPosted));
    seats_.control().bell.ring_if_asleep(kServer);
    return call;
  }

  bool done(Call call) override {
    Pending& pending = find(call);
    if (!pending.finished && replied(call, pending.slot)) finish(pending);
    if (!pending.finished) look_now_and_then();
    return pending.finished;
  }

  Reply wait(Call call, const Deadline& deadline) override {
    Pending& pending = find(call);
    if (!pending.finished) {
      const auto ready = [&] { return replied(call, pending.slot); };
      sleep_until(ready, static_cast<std::uint32_t>(pending.slot) + 1, deadline);
      if (!ready())
        throw Error(ErrorKind::kTimeout,
                    fmt::format("the deadline passed: the server (pid {}) has not answered", server().pid), kPlace);
      finish(pending);
    }
    const Pending finished = pending;
    calls_.erase(call);
    if (finished.damage) std::rethrow_exception(finished.damage);
    if (finished.answer.bytes > finished.reply.size())
      throw Error(ErrorKind::kDamaged,
                  fmt::format("a reply of {} bytes where at most {} were expected", finished.answer.bytes,
                              finished.reply.size()),
                  kPlace);
    return finished.answer;
  }

  void pause(const Deadline& deadline) override {
    collect();
    const bool nothing_to_come = free_.size() == calls_of_slots_.size();
    if (!reclaim() && !news_ && !nothing_to_come) {
      sleep_until([this] { return something_is_new(); }, Doorbell::kAnything, deadline);
      collect();
      reclaim();
    }
    news_ = false;
  }

 private:
  struct Pending {
    int slot;
    std::span<std::byte> reply;
    bool finished;
    Reply answer{};  // once it is finished
    std::exception_ptr damage{};
  };

  ProcessWord server() const { return ProcessWord::unpack(seats_.control().server); }

  void sit() {
    std::uint64_t owner = seat_.owner.load();
    const ProcessWord before = ProcessWord::unpack(owner);
    if (before.lives() || !seat_.owner.compare_exchange_strong(owner, ProcessWord::of(this_process()).pack()))
      throw Error(ErrorKind::kMismatch,
                  fmt::format("client {} is connected already: it is process {}", client_,
                              ProcessWord::unpack(seat_.owner.load()).pid),
                  kPlace, "Give every client a number of its own.");
    MUSTER_FAILPOINT("parameter_server.shm.before_epoch");
    epoch_ = seat_.epoch.load() + 1;
    if ((epoch_ & SlotWord::kEpochMask) == 0) ++epoch_;
    seat_.epoch.store(epoch_);
  }

  std::uint64_t word_of(Call call, SlotState state) const {
    return SlotWord{static_cast<std::uint32_t>(call), epoch_, state}.pack();
  }
  bool replied(Call call, int slot) const {
    return seat_.words[static_cast<std::size_t>(slot)].load() == word_of(call, SlotState::kReplied);
  }

  Pending& find(Call call) {
    const auto found = calls_.find(call);
    MUSTER_CHECK(found != calls_.end(), "no such call");
    return found->second;
  }

  // Copies the reply to where it belongs, and frees the slot.
  void finish(Pending& pending) {
    const std::size_t index = seats_.index(client_, pending.slot);
    const ShmSeats::Slot slot = seats_.slot(index);  // a copy: what was checked does not change any more
    pending.finished = true;
    try {
      pending.answer = decode_reply(slot.head());
    } catch (const Error&) {
      pending.damage = std::current_exception();  // of this call, which another one may have looked at
    }
    std::uint64_t bytes = slot.body_bytes;
    if (pending.answer.status == Status::kRefused) bytes = std::min<std::uint64_t>(bytes, pending.reply.size());
    const bool possible = slot.in_place == 0 ? bytes <= seats_.limits().most_body : lies_in_memory(slot, bytes);
    pending.answer.bytes = possible ? bytes : UINT64_MAX;  // wait() says that this cannot be
    if (!pending.damage && possible && bytes <= pending.reply.size()) {
      if (slot.in_place == 0)
        comm::copy_bytes(pending.reply.data(), seats_.body(index), bytes);
      else
        read_in_place(slot, pending);
    }
    const auto number = static_cast<std::size_t>(pending.slot);
    calls_of_slots_[number] = 0;
    seat_.words[number].store(0);
    free_.push_back(pending.slot);  // the next call takes it again: its body is still in the caches
  }

  bool lies_in_memory(const ShmSeats::Slot& slot, std::uint64_t bytes) const {
    const std::size_t size = seats_.memory().size();
    return bytes <= size && slot.offset <= size - bytes && slot.guard % sizeof(std::uint64_t) == 0 &&
           size >= sizeof(std::uint64_t) && slot.guard <= size - sizeof(std::uint64_t);
  }

  void read_in_place(const ShmSeats::Slot& slot, Pending& pending) const {
    const std::byte* const memory = seats_.memory().data();
    const auto& guard = *reinterpret_cast<const std::atomic<std::uint64_t>*>(memory + slot.guard);
    if (guard.load() < slot.limit) {
      const auto copy = seats_.memory().size() > kCachedBytes ? comm::stream_bytes : comm::copy_bytes;
      copy(pending.reply.data(), memory + slot.offset, pending.answer.bytes);
      // No part of the copy is read after the guard.
      std::atomic_thread_fence(std::memory_order_acquire);
      if (guard.load(std::memory_order_relaxed) < slot.limit) return;
    }
    pending.answer.status = Status::kWait;
    pending.answer.bytes = 0;
  }

  // Finishes all calls that were answered.
  void collect() {
    for (std::size_t slot = 0; slot < calls_of_slots_.size(); ++slot) {
      const Call call = calls_of_slots_[slot];
      if (call == 0 || !replied(call, static_cast<int>(slot))) continue;
      finish(find(call));
      news_ = true;
    }
  }

  // Takes back what earlier connections left; whether there was something.
  bool reclaim() {
    const std::size_t before = held_.size();
    std::erase_if(held_, [this](int slot) {
      std::atomic<std::uint64_t>& word = seat_.words[static_cast<std::size_t>(slot)];
      std::uint64_t left = word.load();
      while (left != 0 && SlotWord::unpack(left).state != SlotState::kTaken)
        if (word.compare_exchange_strong(left, 0)) left = 0;
      if (left == 0) free_.push_back(slot);
      return left == 0;
    });
    return held_.size() < before;
  }

  bool something_is_new() const {
    for (std::size_t slot = 0; slot < calls_of_slots_.size(); ++slot)
      if (calls_of_slots_[slot] != 0 && replied(calls_of_slots_[slot], static_cast<int>(slot))) return true;
    for (const int slot : held_)
      if (SlotWord::unpack(seat_.words[static_cast<std::size_t>(slot)].load()).state != SlotState::kTaken) return true;
    return false;
  }

  // Returns when ready, or at the deadline. Throws kPeerLost.
  template <typename Ready>
  void sleep_until(const Ready& ready, std::uint32_t what, const Deadline& deadline) {
    if (ready() || deadline.passed() || short_wait_(ready)) return;
    while (!ready() && !deadline.passed()) {
      seat_.bell.sleep(
          what, [&] { return ready() || seats_.control().closed.load() != 0; }, slice(deadline));
      // After the look: a server may have answered and then ended.
      if (const bool lost = server_is_lost(); lost && !ready()) throw_lost();
    }
  }

  // Who never waits has to find out as well, but asking the kernel each time would cost more than the call.
  void look_now_and_then() {
    const Clock::Instant now = system_clock().now();
    if (seats_.control().closed.load() == 0 && now - last_look_ < kLookAround) return;
    last_look_ = now;
    if (server_is_lost()) throw_lost();
  }

  bool server_is_lost() const { return seats_.control().closed.load() != 0 || !server().lives(); }
  [[noreturn]] void throw_lost() const {
    throw Error(ErrorKind::kPeerLost,
                fmt::format("the server (pid {}) {}", server().pid,
                            seats_.control().closed.load() != 0 ? "has closed" : "died"),
                kPlace);
  }

  const comm::SharedRegion region_;
  const ShmSeats seats_;
  const std::uint32_t client_;
  ShmSeats::Seat& seat_;
  const ShortWait short_wait_;
  std::uint32_t epoch_ = 0;
  Call next_ = 1;
  std::vector<int> free_;             // the last one was used last
  std::vector<int> held_;             // slots with calls of earlier connections that the server may still be at
  std::vector<Call> calls_of_slots_;  // 0: none under way
  std::map<Call, Pending> calls_;     // under way, or finished and not waited for yet
  bool news_ = false;                 // calls were finished that nobody asked for: pause() need not wait
  Clock::Instant last_look_{};
};

// The name of a server that has died is anybody's. Whoever is there now is not the server: it is lost.
comm::SharedRegion fetch(const std::string& address, const Deadline& deadline) {
  try {
    return comm::fetch_region(address, deadline);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kMismatch) throw;
    throw Error(ErrorKind::kPeerLost, error.message(), address, error.remedy());
  }
}

}  // namespace

std::unique_ptr<Inbox> make_shm_inbox(const TransportLimits& limits, std::size_t memory_bytes) {
  ShmSeats::check(limits, memory_bytes, ErrorKind::kInvalidInput);
  return std::make_unique<ShmInbox>(limits, memory_bytes);
}

std::unique_ptr<Connection> connect_shm(const std::string& address, std::uint32_t client, const Deadline& deadline) {
  comm::SharedRegion region = fetch(address, deadline);
  const std::size_t size = region.bytes().size();
  if (size < sizeof(ShmSeats::Control))
    throw Error(ErrorKind::kDamaged, fmt::format("the region is truncated: it has only {} bytes", size), kPlace);
  const ShmSeats::Control& control = *reinterpret_cast<const ShmSeats::Control*>(region.bytes().data());
  if (control.magic.load() != ShmSeats::kMagic)
    throw Error(ErrorKind::kMismatch, "the region is foreign: no parameter server made it", kPlace);
  if (control.layout_version != ShmSeats::kLayoutVersion)
    throw Error(ErrorKind::kMismatch,
                fmt::format("the server has layout {} and this program knows {}", control.layout_version,
                            ShmSeats::kLayoutVersion),
                kPlace, "Run the same version of Muster in all processes of a job.");
  TransportLimits limits;
  limits.most_body = control.most_body;
  limits.window = static_cast<int>(control.window);
  limits.clients = static_cast<int>(control.clients);
  ShmSeats::check(limits, control.memory_bytes, ErrorKind::kDamaged);
  const std::size_t needed = ShmSeats::bytes(limits, control.memory_bytes);
  if (needed != control.total_bytes || size < needed)
    throw Error(ErrorKind::kDamaged,
                fmt::format("the region is truncated: {} bytes are needed and {} are there", needed, size), kPlace);
  if (client >= control.clients)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("client {} has no place: the server has {} clients", client, control.clients), kPlace);
  const ShmSeats seats(region.bytes().data(), limits, control.memory_bytes);
  return std::make_unique<ShmConnection>(std::move(region), seats, client);
}

}  // namespace muster::strategies
