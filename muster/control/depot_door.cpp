// Calls hold a thread each while they wait for a piece; there are not many workers on a host. What is thrown behind the
// door is thrown before it.
#include "muster/control/depot_door.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/control/grpc_service.h"
#include "muster/control/local_service.h"
#include "muster/control/shard_wire.h"
#include "shards.grpc.pb.h"

namespace muster::control {
namespace {

constexpr int kMostDoorThreads = 256;
constexpr std::chrono::milliseconds kLongestOpen{20'000};
constexpr std::chrono::milliseconds kLongestFetch{60'000};

class DepotService final : public v1::ShardDepot::Service {
 public:
  DepotService(data::PieceDoor& depot, AuthorizeCall authorize) : depot_(depot), authorize_(std::move(authorize)) {}

  grpc::Status OpenDepot(grpc::ServerContext* context, const v1::OpenDepotRequest*,
                         v1::OpenDepotReply* reply) override {
    return answer_call(authorize_, *context, "OpenDepot",
                       [&] { to_wire(depot_.open(Deadline::after(kLongestOpen)), *reply); });
  }

  grpc::Status FetchPiece(grpc::ServerContext* context, const v1::FetchPieceRequest* request,
                          v1::ReadShardReply* reply) override {
    return answer_call(authorize_, *context, "FetchPiece", [&] {
      const auto wait = std::min(std::chrono::milliseconds(request->wait_ms()), kLongestFetch);
      to_wire(depot_.fetch(piece_of(request->piece()), Deadline::after(wait)), *reply);
    });
  }

  grpc::Status ExpectPieces(grpc::ServerContext* context, const v1::ExpectPiecesRequest* request,
                            v1::ExpectPiecesReply*) override {
    return answer_call(authorize_, *context, "ExpectPieces", [&] {
      if (request->pieces_size() > kMostExpectedPieces)
        throw Error(ErrorKind::kInvalidInput, "too many pieces are expected at once");
      std::vector<data::PieceId> pieces;
      for (const v1::PieceEntry& piece : request->pieces())
        pieces.push_back(piece_of(piece));
      depot_.expect(pieces);
    });
  }

  grpc::Status PlaceLane(grpc::ServerContext* context, const v1::PlaceLaneRequest* request,
                         v1::PlaceLaneReply*) override {
    return answer_call(authorize_, *context, "PlaceLane", [&] {
      if (request->runs_size() > kMostPlacedRuns)
        throw Error(ErrorKind::kInvalidInput, "too many runs of pieces for a lane");
      std::vector<data::PieceRun> runs;
      for (const v1::PieceRun& run : request->runs())
        runs.push_back({run.shard(), run.first(), run.count()});
      depot_.place_lane(request->lane(), request->lanes(), runs);
    });
  }

 private:
  static data::PieceId piece_of(const v1::PieceEntry& entry) { return {entry.shard(), entry.piece()}; }

  data::PieceDoor& depot_;
  const AuthorizeCall authorize_;
};

void limit_door(grpc::ServerBuilder& builder) {
  limit_server(builder, {kMostDoorThreads, kMostShardRequestBytes, kMostShardReplyBytes});
}

}  // namespace

struct DepotDoor::Parts {
  LocalService service;
};

DepotDoor::DepotDoor(data::PieceDoor& depot, const std::filesystem::path& folder)
    : parts_(new Parts{
          {folder, "depot",
           [&depot](AuthorizeCall authorize) { return std::make_unique<DepotService>(depot, std::move(authorize)); },
           limit_door}}) {
}

DepotDoor::~DepotDoor() = default;

const std::string& DepotDoor::address() const {
  return parts_->service.address();
}

}  // namespace muster::control
