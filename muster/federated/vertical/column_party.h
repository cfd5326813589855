// A party of vertical training that has columns and no labels: finds the common rows with the label holder, and trains
// its net on the gradients that come back for what it gives.
//
// What it keeps is in a folder of the run and its name, from which it goes on after a death. A label holder that is
// away is tried again, until the patience is spent: that is for all the time that it was away since training got
// further than ever before. Why this party ends the label holder is told. Thread safety: one thread at a time. No torch
// here.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/federated/vertical/party_files.h"
#include "muster/federated/vertical/party_nets.h"
#include "muster/federated/vertical/set_intersection.h"
#include "muster/federated/vertical/vertical_calls.h"

namespace muster::federated {

struct ColumnPartyOptions {
  std::string name{};
  std::filesystem::path state{};
  std::uint64_t width = 32;
  std::chrono::nanoseconds patience = std::chrono::minutes(10);  // for a label holder that is away
  std::function<void(const std::string&)> tell = [](const std::string&) {};
  // Called with the folder of what it keeps, before anything is read there.
  std::function<void(const std::filesystem::path&)> enter = [](const std::filesystem::path&) {};
  std::uint64_t columns = 0;  // of its table, and the digest of their values (party_files.h, TableMark)
  std::string content{};
  std::optional<NetMark> net{};  // to predict with; nothing: to train one
};
// How long a party that has done all its steps, and was not told that all is over, looks for the label holder when it
// is started again.
inline constexpr std::chrono::seconds kLookForTheEnd{10};

class ColumnParty {
 public:
  using MakeNet = std::function<std::unique_ptr<BottomNet>(const Alignment&)>;

  // `ids` are those of all rows of its table, and outlive it as the calls do.
  ColumnParty(VerticalCalls& calls, ColumnPartyOptions options, std::span<const std::string> ids, MakeNet make_net,
              const Clock& clock = system_clock());

  // Until all is trained; gives the folder, in which model.safetensors is its net then. Throws Error: kInterrupted when
  // `keep_on` says no, kMismatch when another process has the state's seat, kPeerLost and kTimeout for a label holder
  // that stays away, what that says, kDamaged for one that does not follow the protocol, and what files and the net
  // throw.
  std::filesystem::path run(const std::function<bool()>& keep_on);

 private:
  template <typename Call>
  auto patiently(const Call& call);
  void go_on() const;
  // Between points: the label holder takes who says nothing for gone.
  void stay_heard();
  void got_to(std::uint64_t place);

  // What was left by a process that had done all its steps; of the newest run.
  std::optional<std::filesystem::path> nearly_finished() const;
  std::optional<std::string> find_run();
  std::filesystem::path take_part(const std::string& run);
  void give_up(const Error& why);
  std::filesystem::path all_is_done();
  PartyOrder meet();
  void align(std::uint64_t session);
  std::optional<PointList> read_points(std::uint64_t session);
  bool send_points(std::uint64_t session, PointsKind kind, const PointList& points);
  bool read_places(std::uint64_t session, const AnsweringSide& side);
  bool train(const PartyOrder& order);
  void require_possible(const PartyOrder& order) const;
  // The gradient of what was given; nothing: all meet again.
  std::optional<std::vector<float>> exchange(std::uint64_t session, std::uint64_t step,
                                             std::span<const float> activations);

  VerticalCalls& calls_;
  const ColumnPartyOptions options_;
  const std::span<const std::string> all_ids_;
  const DistinctIds ids_;
  const TableMark table_;
  const MakeNet make_net_;
  const Clock& clock_;
  const std::uint64_t life_;
  std::function<bool()> keep_on_;
  std::string seat_;
  bool has_met_ = false;
  bool told_to_end_ = false;  // by the label holder, which needs not be told why
  std::chrono::nanoseconds patience_;
  std::chrono::nanoseconds away_{0};  // since `furthest_` was reached
  std::uint64_t furthest_ = 0;
  Clock::Instant last_call_;
  std::optional<PartyFiles> files_;
  std::optional<Alignment> alignment_;
  std::unique_ptr<BottomNet> net_;
};

}  // namespace muster::federated
