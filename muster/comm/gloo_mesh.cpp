// Two threads meet here under one mutex: the caller's, and the watch, which ends waits at their deadline and notices
// peers that are gone. The first failure wins and is the only one told.
#include "muster/comm/gloo_mesh.h"

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/text.h"
#include "muster/comm/gloo_device.h"

namespace muster::comm {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kHelloSlot = std::uint64_t{1} << 63;
constexpr std::uint64_t kNoticeSlot = kHelloSlot + 1;
constexpr std::uint64_t kDeathSlot = kHelloSlot + 2;

constexpr std::uint64_t kTokenSlot = kHelloSlot + 3;

constexpr milliseconds kWatchPeriod{10};
constexpr milliseconds kTokenPatience{100};  // Gloo's thread answers in less than one, if its process has a core
constexpr milliseconds kNoticePatience{20};  // a notice that cannot be written sooner is behind a stuck message
constexpr milliseconds kAtOnce{0};
constexpr milliseconds kForever = std::chrono::hours(24 * 365);

constexpr std::uint64_t kMeshMagic = 0x6f6f6c67'7473756dU;
constexpr const char* kRebuild = "Make a new group, without the ranks that are gone.";

GlooNonce random_nonce() {
  std::random_device source;
  GlooNonce nonce;
  for (std::size_t i = 0; i < nonce.size(); i += 4) {
    const std::uint32_t word = source();
    std::memcpy(nonce.data() + i, &word, 4);
  }
  return nonce;
}

struct Hello {
  std::uint64_t magic = kMeshMagic;
  std::int32_t rank = 0;
  std::int32_t size = 0;
  GlooNonce nonce{};  // the receiver's, from the store

  bool operator==(const Hello&) const = default;
};
static_assert(sizeof(Hello) == 32);

bool wait_in_gloo(GlooBuffer& buffer, Direction direction, milliseconds timeout) {
  return direction == Direction::kSend ? buffer.waitSend(nullptr, timeout) : buffer.waitRecv(nullptr, timeout);
}

// What a rank leaves in the store: its nonce, then for each rank the address where it expects that one (its own:
// zeros).
std::string pack_addresses(const GlooNonce& nonce, const std::vector<std::vector<char>>& addresses,
                           std::size_t length) {
  std::string text(nonce.data(), nonce.size());
  for (const std::vector<char>& address : addresses)
    text += address.empty() ? std::string(length, '\0') : std::string(address.data(), address.size());
  return text;
}

}  // namespace

// Fixed size on the wire.
struct GlooMesh::Notice {
  enum Kind : std::uint8_t { kGoodbye = 1, kLost = 2, kTimeout = 3 };

  static Notice of(int rank, const Error& error) {
    Notice notice;
    notice.kind = error.kind() == ErrorKind::kTimeout ? kTimeout : kLost;
    notice.rank = rank;
    const std::string text = excerpt(error.message(), sizeof(notice.text) - 4);
    std::memcpy(notice.text, text.data(), std::min(text.size(), sizeof(notice.text)));
    return notice;
  }
  std::string message() const { return excerpt(std::string_view(text, ::strnlen(text, sizeof(text))), sizeof(text)); }

  std::uint64_t magic = kMeshMagic;
  std::int32_t rank = 0;
  std::uint8_t kind = kGoodbye;
  std::uint8_t unused[3] = {};
  char text[496] = {};
};

struct GlooMesh::Token {
  static constexpr std::int32_t kNobody = -1;

  // Gloo's thread may send the word at any time, without a lock in common. It is a hint, and one word: no half of it
  // can be seen. The thread sanitizer has to be told.
  __attribute__((no_sanitize("thread"))) void set_waiting_for(std::int32_t rank) { waiting_for = rank; }

  std::uint64_t magic = kMeshMagic;
  volatile std::int32_t waiting_for = kNobody;
  std::int32_t unused = 0;
};

struct GlooMesh::Peer {
  int rank = 0;
  GlooNonce nonce{};
  Notice notice;  // from the peer, valid if notified
  std::unique_ptr<GlooBuffer> notice_buffer;
  std::unique_ptr<GlooBuffer> death;
  std::unique_ptr<GlooBuffer> token;  // ours, for the peer
  bool ended = false;
  bool notified = false;
};

GlooMesh::GlooMesh(GlooOptions options)
    : options_(std::move(options)), nonce_(random_nonce()), token_(std::make_unique<Token>()) {
}

GlooMesh::~GlooMesh() {
  leave();
}

void GlooMesh::connect() {
  device_ = open_gloo_device(options_);
  context_ = device_->createContext(options_.rank, options_.size);
  // Gloo's own limit for a connection is five times this one; the watch thread keeps the deadline.
  context_->setTimeout(std::chrono::duration_cast<milliseconds>(
      std::min<std::chrono::nanoseconds>(options_.deadline.remaining(), std::chrono::hours(1)) + milliseconds(1)));
  std::vector<std::string> published(static_cast<std::size_t>(options_.size));
  exchange_addresses(published);
  connect_pairs(published);
  greet();
}

void GlooMesh::exchange_addresses(std::vector<std::string>& published) {
  std::vector<std::vector<char>> addresses(published.size());
  std::size_t length = 0;
  try {
    for (int rank = 0; rank < options_.size; ++rank) {
      if (rank == options_.rank) continue;
      std::vector<char>& address = addresses[static_cast<std::size_t>(rank)];
      address = context_->createPair(rank)->address().bytes();
      length = address.size();
    }
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kResource, fmt::format("gloo: cannot open a port: {}", excerpt(error.what(), 200)));
  }
  const auto key = [&](int rank) { return fmt::format("{}/{}", options_.name, rank); };
  // Last words (leave_note) are not waited for: who has failed has no time.
  const auto store = options_.interruption ? with_interruption(options_.store, options_.interruption) : options_.store;
  store->set(key(options_.rank), pack_addresses(nonce_, addresses, length));
  for (int rank = 0; rank < options_.size; ++rank) {
    std::string& text = published[static_cast<std::size_t>(rank)];
    try {
      text = store->get(key(rank), options_.deadline);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout) throw;
      throw Error(ErrorKind::kTimeout, fmt::format("rank {} has not come to the group \"{}\"", rank, options_.name), {},
                  "Start all ranks, with the same store, name and size.");
    }
    if (text.size() != sizeof(GlooNonce) + published.size() * length)
      throw Error(ErrorKind::kMismatch,
                  fmt::format("rank {} is in the store as one of another number of ranks or kind of network than {}",
                              rank, options_.size),
                  {}, "Give all ranks the same size and kind of address.");
  }
}

void GlooMesh::connect_pairs(const std::vector<std::string>& published) {
  {
    const MutexLock lock(mutex_);
    connecting_ = true;
  }
  {
    const BackgroundThreads background;
    watcher_ = std::thread([this] { watch(); });
  }
  const std::size_t length = (published[0].size() - sizeof(GlooNonce)) / published.size();
  std::vector<std::unique_ptr<Peer>> connected;
  std::vector<std::vector<char>> local;
  for (int rank = 0; rank < options_.size; ++rank) {
    if (rank == options_.rank) continue;
    const std::string& text = published[static_cast<std::size_t>(rank)];
    auto peer = std::make_unique<Peer>();
    peer->rank = rank;
    std::memcpy(peer->nonce.data(), text.data(), peer->nonce.size());
    const char* const address = text.data() + sizeof(GlooNonce) + static_cast<std::size_t>(options_.rank) * length;
    try {
      local.push_back(context_->getPair(rank)->address().bytes());  // another one once it is connected
      context_->getPair(rank)->connect(std::vector<char>(address, address + length));
      const PipeSignalBlocked no_signal;
      peer->notice_buffer = context_->createUnboundBuffer(&peer->notice, sizeof(peer->notice));
      peer->notice_buffer->recv(rank, kNoticeSlot);
      peer->death = context_->createUnboundBuffer(&peer->notice, 1);  // never written
      peer->death->recv(rank, kDeathSlot);
      peer->token = context_->createUnboundBuffer(token_.get(), sizeof(Token));
      peer->token->send(rank, kTokenSlot);
      local.push_back(context_->getPair(rank)->address().bytes());
    } catch (const std::exception& error) {
      {
        const MutexLock lock(mutex_);
        if (failure_) throw *failure_;
      }
      if (options_.deadline.passed())
        throw Error(ErrorKind::kTimeout, fmt::format("rank {} did not connect in time", rank));
      throw Error(ErrorKind::kPeerLost,
                  fmt::format("rank {} cannot be connected: {}", rank, excerpt(error.what(), 200)), {}, kRebuild);
    }
    connected.push_back(std::move(peer));
  }
  close_to_others(*device_, local);
  const MutexLock lock(mutex_);
  connecting_ = false;
  peers_ = std::move(connected);
}

// Messages of the mesh itself, which end with the scope.
struct GlooMesh::Exchange {
  explicit Exchange(GlooMesh& its_mesh) : mesh(its_mesh) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange() {
    for (const std::unique_ptr<GlooBuffer>& message : messages)
      mesh.forget(*message);
  }
  GlooBuffer& start(Direction direction, int peer, std::uint64_t slot, void* data, std::size_t bytes) {
    return *messages.emplace_back(mesh.start(direction, peer, slot, data, bytes));
  }

  GlooMesh& mesh;
  std::vector<std::unique_ptr<GlooBuffer>> messages;
};

void GlooMesh::greet() {
  struct Greeting {
    Hello mine;
    Hello theirs;
    GlooBuffer* send;
    GlooBuffer* receive;
  };
  std::vector<Greeting> greetings(peers_.size());
  Exchange exchange(*this);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    Greeting& greeting = greetings[i];
    const int rank = peers_[i]->rank;
    greeting.mine = {kMeshMagic, options_.rank, options_.size, peers_[i]->nonce};
    greeting.receive = &exchange.start(Direction::kReceive, rank, kHelloSlot, &greeting.theirs, sizeof(Hello));
    greeting.send = &exchange.start(Direction::kSend, rank, kHelloSlot, &greeting.mine, sizeof(Hello));
  }
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const Greeting& greeting = greetings[i];
    const int rank = peers_[i]->rank;
    if (!wait(*greeting.receive, Direction::kReceive, rank, options_.deadline) ||
        !wait(*greeting.send, Direction::kSend, rank, options_.deadline))
      throw fail(rank, Error(ErrorKind::kTimeout, fmt::format("rank {} did not connect in time", rank)));
    if (greeting.theirs != Hello{kMeshMagic, rank, options_.size, nonce_})
      throw Error(ErrorKind::kMismatch, fmt::format("somebody else than rank {} of this group connected", rank), {},
                  "Keep strangers out of the network that Gloo uses.");
  }
}

std::vector<std::optional<int>> GlooMesh::ask_peers() {
  std::vector<std::optional<int>> answers(static_cast<std::size_t>(options_.size));
  std::vector<Token> tokens(peers_.size());
  std::vector<GlooBuffer*> asked;
  Exchange exchange(*this);
  for (std::size_t i = 0; i < peers_.size(); ++i)
    asked.push_back(&exchange.start(Direction::kReceive, peers_[i]->rank, kTokenSlot, &tokens[i], sizeof(Token)));
  const Deadline patience = Deadline::after(kTokenPatience);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (wait(*asked[i], Direction::kReceive, peers_[i]->rank, patience) && tokens[i].magic == kMeshMagic)
      answers[static_cast<std::size_t>(peers_[i]->rank)] = tokens[i].waiting_for;
  }
  return answers;
}

Error GlooMesh::give_up(int peer, Direction direction) {
  try {
    const std::vector<std::optional<int>> waits_for = ask_peers();
    int culprit = peer;
    // Around a circle one comes back to where one started: then nobody is to blame more than the first.
    for (std::size_t steps = 0; steps < waits_for.size(); ++steps) {
      const std::optional<int> next = waits_for[static_cast<std::size_t>(culprit)];
      if (!next || *next < 0 || *next >= options_.size || *next == options_.rank) break;
      culprit = *next;
      if (steps + 1 == waits_for.size()) culprit = peer;
    }
    std::string text = fmt::format("rank {} ", culprit);
    if (!waits_for[static_cast<std::size_t>(culprit)])
      text += "does not respond before the deadline: it is stopped, or its host is out of reach";
    else
      text += direction == Direction::kSend && culprit == peer ? "took no message before the deadline"
                                                               : "sent no message before the deadline";
    if (culprit != peer) text += fmt::format(" (rank {} waits for it)", peer);
    return fail(culprit,
                Error(ErrorKind::kTimeout, text, {}, "See whether that rank is stopped or stuck, or allow more time."));
  } catch (const Error& error) {
    return error;  // the failure that came while asking
  }
}

std::unique_ptr<GlooBuffer> GlooMesh::start(Direction direction, int peer, std::uint64_t slot, void* data,
                                            std::size_t bytes) {
  std::unique_ptr<GlooBuffer> buffer = context_->createUnboundBuffer(data, bytes);
  {
    const MutexLock lock(mutex_);
    if (failure_) throw *failure_;
    messages_.insert(buffer.get());
  }
  try {
    const PipeSignalBlocked no_signal;
    direction == Direction::kSend ? buffer->send(peer, slot) : buffer->recv(peer, slot);
  } catch (const std::exception& error) {
    forget(*buffer);
    throw explain(peer, error.what());
  }
  return buffer;
}

bool GlooMesh::wait(GlooBuffer& buffer, Direction direction, int peer, const Deadline& deadline) {
  {
    const MutexLock lock(mutex_);
    waiting_ = &buffer;
    waiting_until_ = deadline;
    if (deadline.remaining() < kWatchPeriod) changed_.notify_all();
  }
  bool done = false;
  std::optional<std::string> thrown;
  try {
    token_->set_waiting_for(peer);
    done = wait_in_gloo(buffer, direction, kForever);
  } catch (const std::exception& error) {
    thrown = error.what();
  }
  if (done) token_->set_waiting_for(Token::kNobody);
  bool failed = false;
  {
    const MutexLock lock(mutex_);
    waiting_ = nullptr;
    waiting_until_.reset();
    failed = failure_.has_value();
  }
  if (done) return true;
  if (!thrown && !failed) return false;
  if (!thrown) {
    // Gloo prefers the interruption to a message that is there. Asked once more it gives the message, or, because it
    // is to wait for no time, closes all connections; that must not come before the peers were told why.
    const MutexLock lock(closing_);
    try {
      if (wait_in_gloo(buffer, direction, kAtOnce)) return true;
    } catch (const std::exception& error) {
      thrown = error.what();
    }
  }
  throw explain(peer, thrown.value_or(""));
}

void GlooMesh::forget(GlooBuffer& buffer) {
  const MutexLock lock(mutex_);
  messages_.erase(&buffer);
}

Error GlooMesh::fail(int rank, const Error& error) {
  const MutexLock closing(closing_);
  {
    const MutexLock lock(mutex_);
    if (failure_) return *failure_;
    failure_ = error;
    interrupt_messages();
  }
  const Notice notice = Notice::of(rank, error);
  leave_note(notice);
  tell_peers(notice);
  close_connections();
  return error;
}

void GlooMesh::leave() {
  {
    const MutexLock closing(closing_);
    Notice notice;
    bool failed = false;
    {
      const MutexLock lock(mutex_);
      failed = failure_.has_value();
      const Error left(ErrorKind::kPeerLost, fmt::format("rank {} has left the group", options_.rank), {}, kRebuild);
      if (!messages_.empty()) notice = Notice::of(options_.rank, left);
      if (!failed) failure_ = left;
      interrupt_messages();
    }
    if (!failed) {
      tell_peers(notice);
      close_connections();
    }
  }
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (watcher_.joinable()) watcher_.join();
}

void GlooMesh::interrupt_messages() {
  for (GlooBuffer* const message : messages_) {
    message->abortWaitSend();
    message->abortWaitRecv();
  }
}

void GlooMesh::watch() {
  bool stopping = false;
  while (!stopping) {
    std::optional<Loss> loss;
    {
      const MutexLock lock(mutex_);
      std::chrono::nanoseconds pause = kWatchPeriod;
      if (waiting_until_) pause = std::min(pause, waiting_until_->remaining());
      if (pause.count() > 0 && !stopping_) changed_.wait_for(mutex_, pause);
      stopping = stopping_;
      interrupt_late_wait();
      if (!failure_) {
        for (const std::unique_ptr<Peer>& peer : peers_) {
          if (!peer->ended && ended(*peer) && !loss) loss = loss_of(*peer);
        }
      }
    }
    if (loss) fail(loss->rank, loss->error);
    if (!stopping) fail_if_interrupted();
  }
}

void GlooMesh::fail_if_interrupted() {
  if (!options_.interruption) return;
  {
    const MutexLock lock(mutex_);
    if (failure_) return;
  }
  try {
    options_.interruption();
  } catch (const Error& error) {
    fail(options_.rank, error);
  }
}

void GlooMesh::interrupt_late_wait() {
  if (connecting_ && (options_.deadline.passed() || failure_)) {
    connecting_ = false;
    for (int rank = 0; rank < options_.size; ++rank) {
      if (rank != options_.rank) context_->getPair(rank)->close();
    }
  }
  if (!waiting_until_ || !waiting_until_->passed()) return;
  waiting_until_.reset();
  waiting_->abortWaitSend();
  waiting_->abortWaitRecv();
}

bool GlooMesh::ended(Peer& peer) {
  if (peer.ended) return true;
  try {
    // Interrupted before it starts, the wait returns at once, and throws if the connection has ended.
    peer.death->abortWaitRecv();
    peer.death->waitRecv(nullptr, kForever);
    return false;
  } catch (const std::exception&) {
    peer.ended = true;
  }
  try {
    peer.notified = peer.notice_buffer->waitRecv(nullptr, kAtOnce) && peer.notice.magic == kMeshMagic;
  } catch (const std::exception&) {
  }
  if (!peer.notified) read_note(peer);
  return true;
}

void GlooMesh::leave_note(const Notice& notice) {
  std::string text(nonce_.data(), nonce_.size());
  text.append(reinterpret_cast<const char*>(&notice), sizeof(notice));
  try {
    options_.store->set(note_key(options_.rank), text);
  } catch (const std::exception&) {
    // The store may be gone with the rank that is lost; most peers get the message.
  }
}

void GlooMesh::read_note(Peer& peer) {
  try {
    const std::string text = options_.store->get(note_key(peer.rank), Deadline::after(kAtOnce));
    if (text.size() != peer.nonce.size() + sizeof(Notice) ||
        !std::equal(peer.nonce.begin(), peer.nonce.end(), text.begin()))
      return;
    std::memcpy(&peer.notice, text.data() + peer.nonce.size(), sizeof(Notice));
    peer.notified = peer.notice.magic == kMeshMagic;
  } catch (const std::exception&) {
    // It left none: it did not choose to end.
  }
}

std::string GlooMesh::note_key(int rank) const {
  return fmt::format("{}/{}/end", options_.name, rank);
}

std::optional<GlooMesh::Loss> GlooMesh::loss_of(const Peer& peer) const {
  const Notice& notice = peer.notice;
  if (!peer.notified)
    return Loss{peer.rank, Error(ErrorKind::kPeerLost, fmt::format("rank {} is lost: its connection ended", peer.rank),
                                 {}, kRebuild)};
  if (notice.kind == Notice::kGoodbye) return std::nullopt;
  const int rank = notice.rank >= 0 && notice.rank < options_.size ? notice.rank : peer.rank;
  std::string text = notice.message();
  if (rank != peer.rank && text.find("(seen by rank") == std::string::npos)
    text += fmt::format(" (seen by rank {})", peer.rank);
  return Loss{rank, Error(notice.kind == Notice::kTimeout ? ErrorKind::kTimeout : ErrorKind::kPeerLost, std::move(text),
                          {}, kRebuild)};
}

Error GlooMesh::explain(int peer, const std::string& gloo_text) {
  const auto found =
      std::find_if(peers_.begin(), peers_.end(), [&](const auto& candidate) { return candidate->rank == peer; });
  MUSTER_CHECK(found != peers_.end(), "a message of no peer");
  std::optional<Loss> loss;
  // Gloo tells its messages one after the other that a connection has ended: `death` may be about to be told.
  const Deadline patience = Deadline::after(std::chrono::seconds(1));
  while (!loss) {
    {
      const MutexLock lock(mutex_);
      if (failure_) return *failure_;
      if (ended(**found)) {
        loss = loss_of(**found);
        if (!loss)
          loss = Loss{peer, Error(ErrorKind::kPeerLost, fmt::format("rank {} has left the group", peer), {}, kRebuild)};
      }
    }
    if (!loss && patience.passed())
      loss = Loss{peer, Error(ErrorKind::kPeerLost, fmt::format("rank {} is lost: {}", peer, excerpt(gloo_text, 200)),
                              {}, kRebuild)};
    if (!loss) system_clock().sleep_for(milliseconds(1));
  }
  return fail(loss->rank, loss->error);
}

void GlooMesh::tell_peers(const Notice& notice) {
  Notice copy = notice;
  std::vector<std::unique_ptr<GlooBuffer>> sent;
  const PipeSignalBlocked no_signal;
  for (const std::unique_ptr<Peer>& peer : peers_) {
    try {
      auto buffer = context_->createUnboundBuffer(&copy, sizeof(copy));
      buffer->send(peer->rank, kNoticeSlot);
      sent.push_back(std::move(buffer));
    } catch (const std::exception&) {
      // It is gone.
    }
  }
  const Deadline patience = Deadline::after(kNoticePatience);
  for (const std::unique_ptr<GlooBuffer>& buffer : sent) {
    try {
      buffer->waitSend(nullptr, std::chrono::duration_cast<milliseconds>(patience.remaining()));
    } catch (const std::exception&) {
      // It is gone or stuck; in the second case Gloo has closed all connections.
    }
  }
}

void GlooMesh::close_connections() {
  if (peers_.empty()) return;
  const QuickTurns quick(*device_);
  const MutexLock lock(mutex_);
  for (const std::unique_ptr<Peer>& peer : peers_) {
    try {
      // Gloo's way to close all connections such that what was written still arrives: a wait that times out.
      peer->death->waitRecv(nullptr, kAtOnce);
    } catch (const std::exception&) {
      // As expected.
    }
  }
}

}  // namespace muster::comm
