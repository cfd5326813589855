// Opening is asked for again until some host has the data; what is expected goes through a queue, so that whoever
// expects it never waits.
#include "muster/control/depot_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/mutex.h"
#include "muster/base/text.h"
#include "muster/control/local_service.h"
#include "muster/control/shard_wire.h"
#include "muster/control/wire.h"
#include "shards.grpc.pb.h"

namespace muster::control {
namespace {

constexpr std::chrono::seconds kDoorAnswer{10};  // beyond what a call was asked to wait
constexpr std::chrono::seconds kOneOpen{20};     // as the door has it
constexpr std::chrono::milliseconds kOpenPause{100};
constexpr std::size_t kMostQueued = 64;  // calls; more than that is not ahead but behind

class DepotClient final : public data::PieceDoor {
 public:
  explicit DepotClient(LocalChannel door)
      : token_(std::move(door.token)),
        where_(std::move(door.socket)),
        stub_(v1::ShardDepot::NewStub(std::move(door.channel))),
        thread_([this] { tell(); }) {}
  DepotClient(const DepotClient&) = delete;
  DepotClient& operator=(const DepotClient&) = delete;
  ~DepotClient() override {
    {
      const MutexLock lock(mutex_);
      ends_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  data::DepotView open(const Deadline& deadline) override {
    for (;;) {
      try {
        v1::OpenDepotReply reply;
        call(kDoorAnswer + kOneOpen, [&](auto& context) { return stub_->OpenDepot(&context, {}, &reply); });
        return from_wire(reply, where_);
      } catch (const Error& error) {
        const bool may_pass = error.kind() == ErrorKind::kNotFound || error.kind() == ErrorKind::kTimeout ||
                              error.kind() == ErrorKind::kIo;
        if (!may_pass || deadline.remaining() <= kOpenPause) throw;
      }
      system_clock().sleep_for(kOpenPause);
    }
  }

  std::vector<std::byte> fetch(const data::PieceId& piece, const Deadline& deadline) override {
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.remaining());
    v1::FetchPieceRequest request;
    to_entry(piece, *request.mutable_piece());
    request.set_wait_ms(static_cast<std::uint32_t>(std::min<std::int64_t>(wait.count(), 3'600'000)));
    v1::ReadShardReply reply;
    call(wait + kDoorAnswer, [&](auto& context) { return stub_->FetchPiece(&context, request, &reply); });
    return from_wire(reply, reply.data().size(), where_);
  }

  void expect(std::span<const data::PieceId> pieces) override {
    const MutexLock lock(mutex_);
    for (std::size_t first = 0; first < pieces.size(); first += kMostExpectedPieces) {
      if (queue_.size() >= kMostQueued) return;
      v1::ExpectPiecesRequest& request = queue_.emplace_back();
      for (const data::PieceId& piece :
           pieces.subspan(first, std::min<std::size_t>(kMostExpectedPieces, pieces.size() - first)))
        to_entry(piece, *request.add_pieces());
    }
    changed_.notify_all();
  }

  void place_lane(std::size_t lane, std::size_t lanes, std::span<const data::PieceRun> runs) override {
    v1::PlaceLaneRequest request;
    request.set_lane(static_cast<std::uint32_t>(lane));
    request.set_lanes(static_cast<std::uint32_t>(lanes));
    for (const data::PieceRun& run : runs) {
      v1::PieceRun& entry = *request.add_runs();
      entry.set_shard(static_cast<std::uint32_t>(run.shard));
      entry.set_first(run.first);
      entry.set_count(run.count);
    }
    v1::PlaceLaneReply reply;
    call(kDoorAnswer, [&](auto& context) { return stub_->PlaceLane(&context, request, &reply); });
  }

 private:
  static void to_entry(const data::PieceId& piece, v1::PieceEntry& entry) {
    entry.set_shard(static_cast<std::uint32_t>(piece.shard));
    entry.set_piece(piece.piece);
  }

  template <typename Call>
  void call(std::chrono::milliseconds longest, const Call& call) const {
    grpc::ClientContext context;
    context.AddMetadata(kTokenKey, token_);
    context.set_deadline(std::chrono::system_clock::now() + longest);
    const grpc::Status status = call(context);
    if (!status.ok()) throw from_status(status, where_);
  }

  // On a thread of its own.
  void tell() {
    for (;;) {
      v1::ExpectPiecesRequest request;
      {
        const MutexLock lock(mutex_);
        while (queue_.empty() && !ends_)
          changed_.wait(mutex_);
        if (ends_) return;
        request = std::move(queue_.front());
        queue_.pop_front();
      }
      try {
        v1::ExpectPiecesReply reply;
        call(kDoorAnswer, [&](auto& context) { return stub_->ExpectPieces(&context, request, &reply); });
      } catch (const Error&) {
        // A hint; who reads finds out.
      }
    }
  }

  const std::string token_;
  const std::string where_;
  const std::unique_ptr<v1::ShardDepot::Stub> stub_;
  Mutex mutex_;
  Condition changed_;
  std::deque<v1::ExpectPiecesRequest> queue_ MUSTER_GUARDED_BY(mutex_);
  bool ends_ MUSTER_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // after what it uses
};

}  // namespace

std::shared_ptr<data::PieceDoor> open_depot(const std::string& address) {
  if (!is_local_service(address))
    throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is no depot of data", excerpt(address, 80)),
                "environment variable MUSTER_DATA", "Agents set it for their workers; nobody else should.");
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMostShardReplyBytes);
  return std::make_shared<DepotClient>(connect_to(address, arguments));
}

}  // namespace muster::control
