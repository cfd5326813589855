// MpiRuntime owns the library: one mutex around every call of MPI, and no thread of its own. At the end ranks tell each
// other that they are done, because MPI_Finalize waits for all of them without a deadline.
#include "muster/comm/mpi_transport.h"

// mpi.h brings MPI's C++ bindings along, which are dead and would have to be linked, unless told not to.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/hash.h"
#include "muster/base/mutex.h"
#include "muster/base/text.h"
#include "muster/comm/native_collectives.h"
#include "muster/comm/pause.h"

namespace muster::comm {
namespace {

constexpr int kNoteTag = 0;                                // streams have tags from 1
constexpr std::size_t kPieceBytes = std::size_t{1} << 30;  // MPI counts are ints

// What ranks tell each other beside messages. Sent as bytes between processes of one build.
struct Note {
  enum Kind : std::uint32_t { kStream, kAbort };
  std::uint64_t group = 0;
  std::uint64_t slot = 0;  // kStream: the sender's next tag is for this slot of the group
  Kind kind = kStream;
  std::int32_t rank = 0;  // kAbort: who is lost
  std::array<char, 232> reason{};
};
static_assert(sizeof(Note) == 256);

std::string error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return {text.data(), static_cast<std::size_t>(length)};
}

// One group of ranks. Constant but for `failure`, which the runtime's mutex guards.
struct MpiGroup {
  std::uint64_t id = 0;
  std::string name;
  std::vector<int> members;  // world ranks
  int rank = 0;
  std::optional<Error> failure;  // sticky
};

struct Stream {
  std::uint64_t group = 0;
  std::uint64_t slot = 0;
  int peer = 0;  // world rank
  auto operator<=>(const Stream&) const = default;
};

class MpiTransfer;

}  // namespace

class MpiRuntime {
 public:
  // Every call of MPI is made with it held, by whatever thread. Taken last, held for one poll at most.
  Mutex mutex;

  MpiRuntime(bool owns_mpi, std::chrono::nanoseconds finalize_timeout)
      : owns_mpi_(owns_mpi), finalize_timeout_(finalize_timeout) {
    MPI_Comm_dup(MPI_COMM_WORLD, &communicator_);
    MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(communicator_, &world_.rank);
    MPI_Comm_size(communicator_, &world_.size);
    int* limit = nullptr;
    int found = 0;
    MPI_Comm_get_attr(communicator_, MPI_TAG_UB, &limit, &found);
    tag_limit_ = found != 0 ? *limit : 32767;
    next_tags_.assign(static_cast<std::size_t>(world_.size), 1);
    announced_.assign(static_cast<std::size_t>(world_.size), 0);
    listen();
  }
  MpiRuntime(const MpiRuntime&) = delete;
  MpiRuntime& operator=(const MpiRuntime&) = delete;
  ~MpiRuntime();

  MpiWorld world() const { return world_; }
  MPI_Comm communicator() const { return communicator_; }

  std::shared_ptr<MpiGroup> make_group(const std::vector<int>& members, const std::string& name);

  // The tag of a stream that this rank sends; its first use is announced to the receiver.
  int send_tag(const Stream& stream) MUSTER_REQUIRES(mutex);
  // Posts the receive once its stream's tag is known: now, or when the announcement comes.
  void post_receive(const Stream& stream, MpiTransfer& transfer) MUSTER_REQUIRES(mutex);
  void forget_receive(const Stream& stream, MpiTransfer& transfer) MUSTER_REQUIRES(mutex);

  // Takes the notes that have arrived.
  void poll() MUSTER_REQUIRES(mutex);
  void send_note(int peer, const Note& note) MUSTER_REQUIRES(mutex);

  // From now on this process makes no call of MPI: a message that cannot be cancelled may still use its memory.
  void give_up(std::string reason) MUSTER_REQUIRES(mutex) {
    if (given_up_.empty()) given_up_ = std::move(reason);
  }
  bool usable() const MUSTER_REQUIRES(mutex) { return given_up_.empty(); }
  void require_usable() const MUSTER_REQUIRES(mutex) {
    if (usable()) return;
    throw Error(ErrorKind::kPeerLost, fmt::format("mpi: this process can no longer use MPI: {}", given_up_), {},
                "End the job and resume it from its checkpoint.");
  }

 private:
  struct SentNote {
    Note note;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void listen() {
    MPI_Irecv(&arriving_, sizeof arriving_, MPI_BYTE, MPI_ANY_SOURCE, kNoteTag, communicator_, &listening_);
  }
  void take(const Note& note, int sender) MUSTER_REQUIRES(mutex);
  void reap_notes() MUSTER_REQUIRES(mutex);
  bool all_ranks_end(const Deadline& deadline) MUSTER_REQUIRES(mutex);

  // Constant after construction.
  bool owns_mpi_;
  std::chrono::nanoseconds finalize_timeout_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  MpiWorld world_;
  int tag_limit_ = 0;

  std::string given_up_ MUSTER_GUARDED_BY(mutex);
  std::map<std::string, std::uint64_t> groups_made_ MUSTER_GUARDED_BY(mutex);
  std::map<std::uint64_t, std::weak_ptr<MpiGroup>> groups_ MUSTER_GUARDED_BY(mutex);
  std::map<Stream, int> send_tags_ MUSTER_GUARDED_BY(mutex);
  std::map<Stream, int> receive_tags_ MUSTER_GUARDED_BY(mutex);
  std::map<Stream, std::deque<MpiTransfer*>> waiting_ MUSTER_GUARDED_BY(mutex);  // for their stream's tag
  std::vector<int> next_tags_;                                                   // by receiver
  std::vector<int> announced_;  // by sender: streams so far; the n-th has tag n
  std::list<SentNote> sent_notes_ MUSTER_GUARDED_BY(mutex);
  Note arriving_;
  MPI_Request listening_ = MPI_REQUEST_NULL;
};

namespace {

class MpiTransfer final : public Transfer {
 public:
  MpiTransfer(std::shared_ptr<MpiRuntime> runtime, std::shared_ptr<MpiGroup> group, int peer)
      : runtime_(std::move(runtime)), group_(std::move(group)), peer_(peer) {}
  MpiTransfer(const MpiTransfer&) = delete;
  MpiTransfer& operator=(const MpiTransfer&) = delete;

  ~MpiTransfer() override {
    if (done_) return;
    const MutexLock lock(runtime_->mutex);
    if (!sends_ && !posted_) runtime_->forget_receive(stream_, *this);
    if (runtime_->usable() && posted_) cancel();
  }

  void start_send(std::uint64_t slot, std::span<const std::byte> bytes) {
    const MutexLock lock(runtime_->mutex);
    require_usable();
    sends_ = true;
    bytes_ = {const_cast<std::byte*>(bytes.data()), bytes.size()};  // MPI takes sends as const
    stream_ = {group_->id, slot, world_peer()};
    post(runtime_->send_tag(stream_));
  }
  void start_receive(std::uint64_t slot, std::span<std::byte> bytes) {
    const MutexLock lock(runtime_->mutex);
    require_usable();
    bytes_ = bytes;
    stream_ = {group_->id, slot, world_peer()};
    runtime_->post_receive(stream_, *this);
  }

  // Hands the bytes to MPI. REQUIRES: the runtime's mutex.
  void post(int tag) {
    posted_ = true;
    for (std::size_t offset = 0; offset < bytes_.size(); offset += kPieceBytes) {
      const int count = static_cast<int>(std::min(kPieceBytes, bytes_.size() - offset));
      MPI_Request request = MPI_REQUEST_NULL;
      std::byte* const data = bytes_.data() + offset;
      require(sends_ ? MPI_Isend(data, count, MPI_BYTE, world_peer(), tag, runtime_->communicator(), &request)
                     : MPI_Irecv(data, count, MPI_BYTE, world_peer(), tag, runtime_->communicator(), &request));
      requests_.push_back(request);
    }
    if (requests_.empty()) done_ = true;
  }

  bool test() override {
    if (done_) return true;
    const MutexLock lock(runtime_->mutex);
    require_usable();
    if (posted_) {
      int finished = 0;
      require(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &finished, MPI_STATUSES_IGNORE));
      if (finished != 0) return done_ = true;
    }
    runtime_->poll();
    require_usable();
    return done_;
  }

  void wait(const Deadline& deadline) override {
    Pause pause;
    while (!test()) {
      if (deadline.passed()) time_out();
      pause();
    }
  }

 private:
  int world_peer() const { return group_->members[static_cast<std::size_t>(peer_)]; }

  void require_usable() MUSTER_REQUIRES(runtime_->mutex) {
    if (group_->failure) throw *group_->failure;
    runtime_->require_usable();
  }
  void require(int code) {
    if (code != MPI_SUCCESS)
      fail(ErrorKind::kPeerLost, fmt::format("the connection to rank {} failed: {}", peer_, error_text(code)));
  }
  // REQUIRES: the runtime's mutex, as post().
  [[noreturn]] void fail(ErrorKind kind, const std::string& what) {
    group_->failure =
        Error(kind, fmt::format("mpi: {}", what), fmt::format("rank {} of {}", group_->rank, group_->name),
              "End the job and resume it from its checkpoint: MPI cannot go on without one of its ranks.");
    throw *group_->failure;
  }
  [[noreturn]] void time_out() {
    const MutexLock lock(runtime_->mutex);
    require_usable();
    fail(ErrorKind::kTimeout,
         sends_ ? fmt::format("rank {} did not take {} in time", peer_, human_bytes(bytes_.size()))
                : fmt::format("waited in vain for {} from rank {}", human_bytes(bytes_.size()), peer_));
  }

  // Open MPI can cancel a receive that no message has met yet, and no send.
  void cancel() MUSTER_REQUIRES(runtime_->mutex) {
    int finished = 0;
    MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &finished, MPI_STATUSES_IGNORE);
    if (finished != 0) return;
    for (MPI_Request& request : requests_) {
      if (request == MPI_REQUEST_NULL) continue;
      MPI_Status status;
      int ended = 0;
      int cancelled = 0;
      if (!sends_) {
        MPI_Cancel(&request);
        MPI_Test(&request, &ended, &status);
        if (ended != 0) MPI_Test_cancelled(&status, &cancelled);
      }
      if (cancelled == 0) {
        runtime_->give_up(fmt::format("a message {} rank {} of {} was given up half-way", sends_ ? "to" : "from", peer_,
                                      group_->name));
        return;
      }
    }
  }

  std::shared_ptr<MpiRuntime> runtime_;
  std::shared_ptr<MpiGroup> group_;
  int peer_;
  bool sends_ = false;
  Stream stream_;
  std::span<std::byte> bytes_;
  bool posted_ = false;
  std::vector<MPI_Request> requests_;
  bool done_ = false;
};

class MpiTransport final : public Transport {
 public:
  MpiTransport(std::shared_ptr<MpiRuntime> runtime, std::shared_ptr<MpiGroup> group)
      : runtime_(std::move(runtime)), group_(std::move(group)) {}

  std::string_view name() const override { return "mpi"; }
  int rank() const override { return group_->rank; }
  int size() const override { return static_cast<int>(group_->members.size()); }

  std::unique_ptr<Transfer> send(int peer, std::uint64_t slot, std::span<const std::byte> bytes) override {
    auto transfer = std::make_unique<MpiTransfer>(runtime_, group_, peer);
    transfer->start_send(slot, bytes);
    return transfer;
  }
  std::unique_ptr<Transfer> receive(int peer, std::uint64_t slot, std::span<std::byte> bytes) override {
    auto transfer = std::make_unique<MpiTransfer>(runtime_, group_, peer);
    transfer->start_receive(slot, bytes);
    return transfer;
  }

  std::unique_ptr<Transport> split(const std::vector<int>& members, const std::string& name, const Deadline&) override {
    std::vector<int> world_ranks;
    for (const int member : members)
      world_ranks.push_back(group_->members.at(static_cast<std::size_t>(member)));
    return make_mpi_transport(runtime_, world_ranks, group_->name + "/" + name);
  }

  void abort(int rank, const std::string& reason) override {
    const MutexLock lock(runtime_->mutex);
    if (group_->failure) return;
    group_->failure = Error(ErrorKind::kPeerLost, fmt::format("mpi: rank {} is lost: {}", rank, reason),
                            fmt::format("rank {} of {}", group_->rank, group_->name));
    if (!runtime_->usable()) return;
    Note note;
    note.kind = Note::kAbort;
    note.group = group_->id;
    note.rank = rank;
    reason.copy(note.reason.data(), note.reason.size() - 1);
    for (const int member : group_->members) {
      if (member != runtime_->world().rank) runtime_->send_note(member, note);
    }
    runtime_->poll();
  }

 private:
  std::shared_ptr<MpiRuntime> runtime_;
  std::shared_ptr<MpiGroup> group_;
};

}  // namespace

std::shared_ptr<MpiGroup> MpiRuntime::make_group(const std::vector<int>& members, const std::string& name) {
  const MutexLock lock(mutex);
  auto group = std::make_shared<MpiGroup>();
  group->name = name;
  group->members = members;
  const auto self = std::find(members.begin(), members.end(), world_.rank);
  MUSTER_CHECK(self != members.end(), "checked by make_mpi_transport");
  group->rank = static_cast<int>(self - members.begin());
  // The same on every member, and another one for a later group of the same name: leftovers of the first stay apart.
  const std::string key = fmt::format("{}:{}", name, fmt::join(members, ","));
  const std::string unique = fmt::format("{}#{}", key, ++groups_made_[key]);
  const std::string digest = sha256(std::as_bytes(std::span(unique)));
  group->id = std::stoull(digest.substr(0, 16), nullptr, 16);
  groups_[group->id] = group;
  return group;
}

int MpiRuntime::send_tag(const Stream& stream) {
  const auto [found, is_new] = send_tags_.try_emplace(stream, 0);
  if (!is_new) return found->second;
  int& next = next_tags_[static_cast<std::size_t>(stream.peer)];
  if (next > tag_limit_) {
    send_tags_.erase(found);
    throw Error(ErrorKind::kResource,
                fmt::format("mpi: all {} tags to world rank {} are in use", tag_limit_, stream.peer), {},
                "Use fewer groups and message tags.");
  }
  found->second = next++;
  Note note;
  note.group = stream.group;
  note.slot = stream.slot;
  send_note(stream.peer, note);
  return found->second;
}

void MpiRuntime::post_receive(const Stream& stream, MpiTransfer& transfer) {
  const auto found = receive_tags_.find(stream);
  if (found != receive_tags_.end())
    transfer.post(found->second);
  else
    waiting_[stream].push_back(&transfer);
}

void MpiRuntime::forget_receive(const Stream& stream, MpiTransfer& transfer) {
  const auto found = waiting_.find(stream);
  if (found == waiting_.end()) return;
  std::erase(found->second, &transfer);
  if (found->second.empty()) waiting_.erase(found);
}

void MpiRuntime::send_note(int peer, const Note& note) {
  SentNote& sent = sent_notes_.emplace_back(SentNote{note, MPI_REQUEST_NULL});
  // The layer above sees a failed connection when the message that follows fails.
  MPI_Isend(&sent.note, sizeof sent.note, MPI_BYTE, peer, kNoteTag, communicator_, &sent.request);
}

void MpiRuntime::reap_notes() {
  std::erase_if(sent_notes_, [](SentNote& sent) {
    int finished = 0;
    MPI_Test(&sent.request, &finished, MPI_STATUS_IGNORE);
    return finished != 0;
  });
}

void MpiRuntime::poll() {
  if (!usable()) return;
  if (!sent_notes_.empty()) reap_notes();
  for (;;) {
    int arrived = 0;
    MPI_Status status;
    if (MPI_Test(&listening_, &arrived, &status) != MPI_SUCCESS || arrived == 0) return;
    const Note note = arriving_;
    listen();
    take(note, status.MPI_SOURCE);
  }
}

void MpiRuntime::take(const Note& note, int sender) {
  if (note.kind == Note::kStream) {
    const Stream stream{note.group, note.slot, sender};
    const int tag = ++announced_[static_cast<std::size_t>(sender)];
    receive_tags_[stream] = tag;
    auto waiting = waiting_.extract(stream);
    if (waiting.empty()) return;
    for (MpiTransfer* transfer : waiting.mapped())
      transfer->post(tag);
    return;
  }
  const auto found = groups_.find(note.group);
  const auto group = found == groups_.end() ? nullptr : found->second.lock();
  if (!group || group->failure) return;
  const std::string reason(note.reason.data(), ::strnlen(note.reason.data(), note.reason.size()));
  group->failure = Error(ErrorKind::kPeerLost, fmt::format("mpi: rank {} is lost: {}", note.rank, reason),
                         fmt::format("rank {} of {}", group->rank, group->name));
}

bool MpiRuntime::all_ranks_end(const Deadline& deadline) {
  MPI_Request barrier = MPI_REQUEST_NULL;
  if (MPI_Ibarrier(communicator_, &barrier) != MPI_SUCCESS) return false;
  Pause pause;
  int reached = 0;
  while (reached == 0 || !sent_notes_.empty()) {
    if (MPI_Test(&barrier, &reached, MPI_STATUS_IGNORE) != MPI_SUCCESS || deadline.passed()) return false;
    reap_notes();
    pause();
  }
  return true;
}

MpiRuntime::~MpiRuntime() {
  const MutexLock lock(mutex);
  int ended = 0;
  MPI_Finalized(&ended);
  if (ended != 0 || !usable()) return;
  MPI_Cancel(&listening_);
  MPI_Wait(&listening_, MPI_STATUS_IGNORE);
  // MPI_Finalize waits without a deadline for ranks that may never come, so it is called only when all are there.
  if (owns_mpi_ && all_ranks_end(Deadline::after(finalize_timeout_))) MPI_Finalize();
}

bool mpi_available() {
  return true;
}

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string_view whole = text.data();  // some count the byte that ends it
  return std::string(whole.substr(0, whole.find('\n')));
}

std::shared_ptr<MpiRuntime> start_mpi(std::chrono::nanoseconds finalize_timeout) {
  // MPI itself is one per process whatever we do; this only remembers who runs it.
  static Mutex mutex;
  static std::weak_ptr<MpiRuntime> running;
  const MutexLock lock(mutex);
  if (auto runtime = running.lock()) return runtime;

  int started = 0;
  int ended = 0;
  MPI_Initialized(&started);
  MPI_Finalized(&ended);
  if (ended != 0)
    throw Error(ErrorKind::kUnsupported, "MPI was ended in this process and cannot be started again", {},
                "Hold what start_mpi gives for as long as groups are made.");
  int threads = MPI_THREAD_SINGLE;
  if (started == 0)
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads);
  else
    MPI_Query_thread(&threads);
  if (threads < MPI_THREAD_SERIALIZED)
    throw Error(ErrorKind::kUnsupported, "MPI was started without support for calls from several threads", {},
                "Start it with MPI_Init_thread(..., MPI_THREAD_SERIALIZED, ...), or let Muster start it.");
  auto runtime = std::make_shared<MpiRuntime>(started == 0, finalize_timeout);
  running = runtime;
  return runtime;
}

MpiWorld mpi_world(const MpiRuntime& runtime) {
  return runtime.world();
}

std::unique_ptr<Transport> make_mpi_transport(std::shared_ptr<MpiRuntime> runtime, const std::vector<int>& members,
                                              const std::string& name) {
  const MpiWorld world = runtime->world();
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i] < 0 || members[i] >= world.size || std::count(members.begin(), members.end(), members[i]) > 1)
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("mpi: {} is not a group of ranks of a world of {}", fmt::join(members, ","), world.size),
                  {}, "Start as many processes with mpirun -n as the group has ranks.");
  }
  if (std::find(members.begin(), members.end(), world.rank) == members.end())
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("mpi: world rank {} is not one of {}", world.rank, fmt::join(members, ",")));
  auto group = runtime->make_group(members, name);
  return std::make_unique<MpiTransport>(std::move(runtime), std::move(group));
}

void native_mpi_collective(MpiRuntime& runtime, Operation operation, std::span<const float> input,
                           std::span<float> output) {
  const MutexLock lock(runtime.mutex);
  runtime.require_usable();
  const MPI_Comm world = runtime.communicator();  // NOLINT(misc-misplaced-const): the handle, pointer or not
  int ranks = 1;
  MPI_Comm_size(world, &ranks);
  const auto count = static_cast<int>(output.size());
  const int part = count / ranks;
  int code = MPI_SUCCESS;
  switch (operation) {
    case Operation::kAllReduce:
      code = MPI_Allreduce(MPI_IN_PLACE, output.data(), count, MPI_FLOAT, MPI_SUM, world);
      break;
    case Operation::kReduceScatter:
      code = MPI_Reduce_scatter_block(input.data(), output.data(), count, MPI_FLOAT, MPI_SUM, world);
      break;
    case Operation::kAllGather:
      code = MPI_Allgather(input.data(), part, MPI_FLOAT, output.data(), part, MPI_FLOAT, world);
      break;
    case Operation::kBroadcast:
      code = MPI_Bcast(output.data(), count, MPI_FLOAT, 0, world);
      break;
    case Operation::kAllToAll:
      code = MPI_Alltoall(input.data(), part, MPI_FLOAT, output.data(), part, MPI_FLOAT, world);
      break;
    case Operation::kBarrier:
      code = MPI_Barrier(world);
      break;
    default:
      throw Error(ErrorKind::kUnsupported, fmt::format("mpi: no native {}", to_string(operation)));
  }
  if (code != MPI_SUCCESS) throw Error(ErrorKind::kPeerLost, "mpi: " + error_text(code));
}

}  // namespace muster::comm
