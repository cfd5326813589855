// What Group itself does, whatever the backend: the identity of one, argument checks, sticky failures.
#include "muster/comm/group.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "muster/base/error.h"
#include "muster/comm/self_backend.h"
#include "support/collective_checks.h"

namespace muster::comm {
namespace {

TEST(GroupOfOne, IsTheIdentityForEveryOperation) {
  const Group group;
  EXPECT_EQ(group.rank(), 0);
  EXPECT_EQ(group.size(), 1);
  EXPECT_EQ(group.backend(), "self");
  muster::testing::check_collectives(group, 1001);
}

TEST(GroupOfOne, SplitsIntoItself) {
  Group group;
  Group part = group.split(3);
  EXPECT_EQ(part.size(), 1);
  std::array<float, 1> value{2};
  part.all_reduce(std::span(value));
  EXPECT_EQ(value[0], 2);
}

TEST(GroupOfOne, AReceiveOfNothingFailsInsteadOfWaiting) {
  Group group;
  std::array<float, 1> value{};
  try {
    group.receive(std::span(value), 0, 5);
    FAIL() << "received something";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  }
}

// Of 3 ranks; remembers calls and fails when told to.
class ScriptedBackend final : public Backend {
 public:
  explicit ScriptedBackend(int& calls) : calls_(calls) {}
  std::string_view name() const override { return "scripted"; }
  int rank() const override { return 1; }
  int size() const override { return 3; }
  void all_reduce(const Call& call, const void*, void*, const Deadline&) override { record(call); }
  void reduce_scatter(const Call& call, const void*, void*, const Deadline&) override { record(call); }
  void all_gather(const Call& call, const void*, void*, const Deadline&) override { record(call); }
  void broadcast(const Call& call, void*, const Deadline&) override { record(call); }
  void all_to_all(const Call& call, const void*, void*, const Deadline&) override { record(call); }
  void gather(const Call& call, const void*, void*, const Deadline&) override { record(call); }
  void scatter(const Call& call, const void*, void*, const Deadline&) override { record(call); }
  void barrier(const Call& call, const Deadline&) override { record(call); }
  std::unique_ptr<Transfer> send(int, std::uint32_t, ConstView) override { return nullptr; }
  std::unique_ptr<Transfer> receive(int, std::uint32_t, View) override { return nullptr; }
  std::unique_ptr<Backend> split(const std::vector<int>&, const std::string&, const Deadline&) override {
    return nullptr;
  }
  void abort(int, const std::string&) override {}

  std::vector<Call> recorded;
  bool broken = false;

 private:
  void record(const Call& call) {
    ++calls_;
    recorded.push_back(call);
    if (broken) throw Error(ErrorKind::kPeerLost, "rank 2 died");
  }
  int& calls_;
};

struct Scripted {
  int calls = 0;
  std::shared_ptr<ScriptedBackend> backend = std::make_shared<ScriptedBackend>(calls);
  Group group{backend};
};

TEST(Group, NumbersCollectivesFromOne) {
  Scripted scripted;
  std::vector<float> data(5);
  scripted.group.all_reduce(std::span(data), Reduction::kMax);
  scripted.group.barrier();
  ASSERT_EQ(scripted.backend->recorded.size(), 2U);
  EXPECT_EQ(to_string(scripted.backend->recorded[0]), "all_reduce #1 of 5 float, max");
  EXPECT_EQ(to_string(scripted.backend->recorded[1]), "barrier #2");
}

TEST(Group, KeepsTheFirstFailureAndCallsTheBackendNoMore) {
  Scripted scripted;
  scripted.backend->broken = true;
  for (int attempt = 0; attempt < 3; ++attempt) {
    try {
      scripted.group.barrier();
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
      EXPECT_EQ(error.message(), "rank 2 died");
    }
  }
  EXPECT_EQ(scripted.calls, 1);
}

template <typename Action>
void expect_invalid(Scripted& scripted, const Action& action, const std::string& part) {
  try {
    action();
    FAIL() << "accepted: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
  EXPECT_EQ(scripted.calls, 0);
}

TEST(Group, RefusesArgumentsThatCannotBeRightAndStaysUsable) {
  Scripted scripted;
  Group& group = scripted.group;
  std::vector<float> four(4), nine(9), twelve(12);
  std::vector<double> doubles(4);
  const auto f = [](std::vector<float>& v) { return std::span(v); };
  expect_invalid(
      scripted, [&] { group.all_reduce(f(four), f(nine)); }, "4 elements and the output 9");
  expect_invalid(
      scripted, [&] { group.all_reduce(f(four), std::span(doubles)); }, "input is float and output is double");
  expect_invalid(
      scripted, [&] { group.reduce_scatter(f(nine), f(four)); }, "3 ranks with 4 each need 12");
  expect_invalid(
      scripted, [&] { group.all_gather(f(four), f(nine)); }, "need 12");
  expect_invalid(
      scripted, [&] { group.broadcast(f(four), 3); }, "root 3 is not a rank of a group of 3");
  expect_invalid(
      scripted, [&] { group.broadcast(f(four), -1); }, "root -1");
  expect_invalid(
      scripted, [&] { group.all_to_all(f(four), f(four)); }, "3 equal parts");
  expect_invalid(
      scripted, [&] { group.gather(f(four), f(nine), 1); }, "need 12");
  expect_invalid(
      scripted, [&] { group.scatter(f(nine), f(four), 1); }, "need 12");
  expect_invalid(
      scripted, [&] { group.send(f(four), 9); }, "peer 9");
  expect_invalid(
      scripted, [&] { group.send(f(four), 0, 0xffffff00U); }, "reserved");
  group.gather(f(four), {}, 0);  // this rank is not the root: no output needed
  group.reduce_scatter(f(twelve), f(four));
  EXPECT_EQ(scripted.calls, 2);
}

}  // namespace
}  // namespace muster::comm
