// The label holder of vertical training: answers the parties with columns, finds the common rows with them, and trains
// the upper net on what their nets give.
//
//   1. All parties meet. Who comes back in the middle of something ends the session, and all meet again. Each has a
//      seat: nobody else is taken for it while it is heard of.
//   2. Unless all have the same alignment, a new one is made: set intersection (set_intersection.h) with each party by
//      itself, with a secret of its own; rows that all have, in the order of their ids, of which the job's seed draws
//      the test rows. Each party is told the places of its rows, in this order. Where there are checkpoints that would
//      be lost with the one of before, who does not have it is refused instead.
//   3. All go on from the newest checkpoint that all have, step by step (vertical_plan.h): activations of everybody,
//      gradients to everybody. Before a step with a checkpoint each has its own on disk.
//
// So the weights at the end do not depend on who died when. What a party sends and cannot be is that party's failure:
// it is refused and named, and its seat is free. Who is away is waited for, until the patience is spent: that is for
// all waiting since training got further than ever before. Thread safety: calls from any thread, run() from one. No
// torch here.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/mutex.h"
#include "muster/federated/vertical/party_files.h"
#include "muster/federated/vertical/party_nets.h"
#include "muster/federated/vertical/set_intersection.h"
#include "muster/federated/vertical/vertical_calls.h"

namespace muster::federated {

struct LabelHolderOptions {
  std::string run{};  // its name
  std::filesystem::path folder{};
  std::vector<std::string> parties{};
  double test_fraction = 0.1;
  std::uint64_t batch = 64;
  std::uint64_t epochs = 1;
  std::uint64_t seed = 1;
  std::uint64_t checkpoint_steps = 200;
  std::chrono::nanoseconds patience = std::chrono::hours(1);                 // for parties that are away
  std::function<void(const std::string&)> tell = [](const std::string&) {};  // from any thread
  std::uint64_t columns = 0;  // of its table, and the digest of their values (party_files.h, TableMark)
  std::string content{};
  // Nothing is trained: each common row is one to predict, once, by nets that are trained; this is of what its own is.
  std::optional<NetMark> net{};
  // Who has lost what it had may make all begin anew. Else it is refused, once there is something to lose.
  bool begin_anew = false;
  // What is trained on, before each session of training; from run()'s thread.
  std::function<void(const Alignment&)> aligned = [](const Alignment&) {};
  // All is computed, and the parties wait to be told so: what is thrown here they are told instead. It may come again,
  // when one of them comes back just then; from run()'s thread.
  std::function<void()> before_end = [] {};
};

class LabelHolder final : public VerticalCalls {
 public:
  // Of the aligned rows, and the widths of the others' activations.
  using MakeNet = std::function<std::unique_ptr<TopNet>(const Alignment&, std::span<const std::uint64_t> widths)>;
  using OnEpoch = std::function<void(std::uint64_t epoch, const EpochFigures&)>;

  // `ids` are those of all rows of its table. Throws as PartyFiles, and kMismatch when more was trained already than
  // the options ask for. The clock outlives it.
  LabelHolder(LabelHolderOptions options, std::span<const std::string> ids, MakeNet make_net,
              const Clock& clock = system_clock());

  // Until all is trained and all have been told. `on_epoch` may be told of an epoch again, with the same figures. The
  // net's weights are in the folder then: model.safetensors. Throws Error: kInterrupted when `keep_on` says no,
  // kTimeout for parties that stay away, kInvalidInput for too few common rows, and what the net throws; the parties
  // are told, unless it was interrupted: then they wait for it to come back.
  void run(const std::function<bool()>& keep_on, const OnEpoch& on_epoch);

  PartyOrder meet(const std::string& name, const PartyWish& wish, std::chrono::milliseconds wait) override;
  PointsPart read_points(const std::string& name, std::uint64_t session, std::uint64_t offset,
                         std::chrono::milliseconds wait) override;
  PointsTaken send_points(const std::string& name, std::uint64_t session, PointsKind kind, std::uint64_t total,
                          std::uint64_t offset, std::span<const std::byte> data) override;
  PlacesPart read_places(const std::string& name, std::uint64_t session, std::uint64_t offset,
                         std::chrono::milliseconds wait) override;
  StepAnswer exchange(const std::string& name, std::uint64_t session, std::uint64_t step,
                      std::span<const float> activations, std::chrono::milliseconds wait) override;
  void give_up(const std::string& name, const std::string& seat, const std::string& reason) override;

 private:
  enum class Phase { kMeeting, kAligning, kTraining, kDone };
  struct Received {
    PointList points{};
    std::optional<std::uint64_t> total{};
    bool taken = false;  // by run(), which has the points
    bool whole() const { return taken || (total && points.size() == *total); }
  };
  struct Party {
    std::string name{};
    bool met = false;  // in this session
    PartyWish wish{};
    // Who has its seat.
    bool seated = false;
    std::string seat{};
    Clock::Instant heard{};
    std::string gave_up{};  // and why
    std::uint64_t refused_life = 0;
    std::optional<Error> refusal{};  // of that process
    // Of an alignment.
    PointList points{};  // of the label holder's ids, for this party; empty: not there yet
    bool points_ready = false;
    Received raised{};
    Received own{};
    std::vector<std::uint64_t> places{};
    // Of a step.
    std::optional<std::vector<float>> activations{};
    std::vector<float> gradient{};  // of the step before
    bool told_end = false;
  };

  struct SessionOver {};  // somebody has come back

  Party& party_named(const std::string& name) MUSTER_REQUIRES(mutex_);
  // The party of a call; throws if all have failed.
  Party& enter(const std::string& name) MUSTER_REQUIRES(mutex_);
  // The same, of a call in a session.
  Party& enter(const std::string& name, std::uint64_t session) MUSTER_REQUIRES(mutex_);
  void throw_if_failed(Party& party) MUSTER_REQUIRES(mutex_);
  void require_possible(const std::string& name, const PartyWish& wish) const;
  void take_seat(Party& party, const PartyWish& wish) MUSTER_REQUIRES(mutex_);
  void refuse(Party& party, const Error& why) MUSTER_REQUIRES(mutex_);
  void refuse_who_has_lost(Party& party) MUSTER_REQUIRES(mutex_);
  void open_session() MUSTER_REQUIRES(mutex_);
  std::uint64_t floats_of(const Party& party, std::uint64_t step) const MUSTER_REQUIRES(mutex_);
  // Until `done`; looks at the session, at keep_on and, with a reason, at the patience.
  template <typename Done>
  void await(std::uint64_t session, const Done& done) MUSTER_REQUIRES(mutex_);
  // The same for calls: false if the time is over.
  template <typename Done>
  bool await_call(Party& party, std::chrono::milliseconds wait, const Done& done) MUSTER_REQUIRES(mutex_);
  std::string missing() const MUSTER_REQUIRES(mutex_);
  void go_on(std::uint64_t session);
  // Further than ever: the patience begins anew.
  void got_to(std::uint64_t place);

  VerticalPlan plan_of(const Alignment& alignment) const;
  void require_not_shorter(const VerticalPlan& plan, std::span<const std::uint64_t> checkpoints) const;
  void gather();
  bool agree(std::span<const std::uint64_t> checkpoints) MUSTER_REQUIRES(mutex_);
  void align(std::uint64_t session);
  Alignment choose_rows(const std::vector<std::vector<AskingSide::Common>>& common,
                        std::vector<std::vector<std::uint64_t>>& places) const;
  void train(std::uint64_t session, const OnEpoch& on_epoch);
  void farewell();
  void tell_failure(const Error& error);

  // Constant after construction.
  const LabelHolderOptions options_;
  const DistinctIds ids_;
  const TableMark table_;
  const MakeNet make_net_;
  const Clock& clock_;
  const PartyFiles files_;
  // Of run().
  std::function<bool()> keep_on_;
  std::chrono::nanoseconds waited_{0};  // since `furthest_` was reached
  std::uint64_t furthest_ = 0;
  std::unique_ptr<TopNet> net_;
  std::vector<std::uint64_t> widths_;  // of net_
  std::string net_alignment_;          // of net_

  mutable Mutex mutex_;
  Condition changed_;
  std::vector<Party> parties_ MUSTER_GUARDED_BY(mutex_);
  Phase phase_ MUSTER_GUARDED_BY(mutex_) = Phase::kMeeting;
  std::uint64_t session_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::uint64_t places_session_ MUSTER_GUARDED_BY(mutex_) = 0;  // in which the places were made
  std::optional<Alignment> alignment_ MUSTER_GUARDED_BY(mutex_);
  VerticalPlan plan_ MUSTER_GUARDED_BY(mutex_);
  std::uint64_t begin_ MUSTER_GUARDED_BY(mutex_) = 0;  // of the session
  std::uint64_t step_ MUSTER_GUARDED_BY(mutex_) = 0;   // whose activations are collected
  std::uint64_t arrived_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::optional<Error> failure_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::federated
