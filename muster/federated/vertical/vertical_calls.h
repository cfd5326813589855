// What a party with columns asks the label holder, as functions: the label holder answers them itself (label_holder.h),
// a stub passes them on (vertical_stub.h). proto/vertical.proto says the same for the wire.
//
// Every call may be repeated and gives the same answer. A session is a time in which everybody does the same; when a
// party comes back in the middle of one it is over, calls of it are told kMeetAgain, and all meet for the next.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/federated/vertical/vertical_plan.h"

namespace muster::federated {

// Which training a net has come from, and how far: nets of equal marks are the parts of one.
struct NetMark {
  std::string alignment{};
  std::uint64_t epochs = 0;
  bool operator==(const NetMark&) const = default;
};

// What a party says of itself when it meets the others. With attempt 0 `seat` alone is looked at: a party that computes
// for long says so that it is there still.
struct PartyWish {
  std::uint64_t attempt = 0;                 // drawn for this meeting; 0: only asks which run it is
  std::uint64_t width = 0;                   // of its activations
  std::uint64_t ids = 0;                     // that it has
  std::string alignment{};                   // the one it has; empty: none
  std::vector<std::uint64_t> checkpoints{};  // steps before which it has written down where it is
  std::string seat{};                        // the secret of its seat (party_seat.h)
  std::uint64_t life = 0;                    // drawn by the process
  std::optional<NetMark> net{};              // that it predicts with; nothing: it trains
};
inline constexpr std::size_t kMostCheckpoints = 8;
inline constexpr std::uint64_t kMostWidth = 65536;
inline constexpr std::size_t kMostSeatBytes = 64;
// How long a party may say nothing before somebody else of its name may take its seat.
inline constexpr std::chrono::seconds kSilentSeat{30};
inline constexpr std::size_t kMostReasonBytes = 500;

struct PartyOrder {
  enum class What { kWait, kAlign, kTrain, kDone };
  What what = What::kWait;
  std::string reason{};  // of waiting, for people
  std::string run{};
  std::uint64_t session = 0;
  // To train: from `step` on, which is 0 or one of the checkpoints that all have.
  std::string alignment{};
  VerticalPlan plan{};
  std::uint64_t step = 0;
};

enum class Standing { kDone, kWait, kMeetAgain };

struct PointsPart {
  Standing standing = Standing::kDone;
  std::vector<std::byte> data{};
  std::uint64_t total = 0;  // bytes
};

// raised: the label holder's points to the party's power; own: the party's.
enum class PointsKind { kRaised, kOwn };
struct PointsTaken {
  Standing standing = Standing::kDone;
  std::uint64_t bytes = 0;  // that are there
};

struct PlacesPart {
  Standing standing = Standing::kDone;
  std::vector<std::uint64_t> places{};
  std::uint64_t total = 0;
  std::uint64_t train_rows = 0;
  std::string alignment{};
};

struct StepAnswer {
  Standing standing = Standing::kDone;
  std::vector<float> gradient{};  // of a step that trains
};

inline constexpr std::size_t kPointsPartBytes = std::size_t{1} << 20;
inline constexpr std::size_t kPlacesPart = std::size_t{1} << 16;
// Of the numbers of a step: larger batches are refused before anything begins.
inline constexpr std::size_t kMostStepFloats = std::size_t{2} << 20;

class VerticalCalls {
 public:
  virtual ~VerticalCalls() = default;

  // All may throw Error: kInvalidInput for what is wrong or out of turn, kPeerLost and kTimeout to be tried again, and
  // why the label holder has ended. They wait for `wait` at most, and then answer kWait.
  virtual PartyOrder meet(const std::string& name, const PartyWish& wish, std::chrono::milliseconds wait) = 0;
  virtual PointsPart read_points(const std::string& name, std::uint64_t session, std::uint64_t offset,
                                 std::chrono::milliseconds wait) = 0;
  // What begins elsewhere than where the list ends is not taken: the answer says where it ends.
  virtual PointsTaken send_points(const std::string& name, std::uint64_t session, PointsKind kind, std::uint64_t total,
                                  std::uint64_t offset, std::span<const std::byte> data) = 0;
  virtual PlacesPart read_places(const std::string& name, std::uint64_t session, std::uint64_t offset,
                                 std::chrono::milliseconds wait) = 0;
  // Activations of a step, none for the step after the last; what comes again for a step counts once.
  virtual StepAnswer exchange(const std::string& name, std::uint64_t session, std::uint64_t step,
                              std::span<const float> activations, std::chrono::milliseconds wait) = 0;
  // The party that has this seat ends, for this reason; everybody is told for whom is waited and why.
  virtual void give_up(const std::string& name, const std::string& seat, const std::string& reason) = 0;
};

}  // namespace muster::federated
