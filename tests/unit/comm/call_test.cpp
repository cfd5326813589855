// Calls in words, and the list that names who made another one.
#include "muster/comm/call.h"

#include <gtest/gtest.h>

#include <array>

namespace muster::comm {
namespace {

Call reduce_call() {
  Call call;
  call.sequence = 12;
  call.count = 1000;
  call.operation = Operation::kAllReduce;
  call.type = ElementType::kFloat;
  call.reduction = Reduction::kAverage;
  return call;
}

TEST(Call, SaysWhatIsCalledInOneLine) {
  EXPECT_EQ(to_string(reduce_call()), "all_reduce #12 of 1000 float, average");
  Call call = reduce_call();
  call.operation = Operation::kBroadcast;
  call.root = 3;
  EXPECT_EQ(to_string(call), "broadcast #12 of 1000 float, root 3");
  call.operation = Operation::kBarrier;
  EXPECT_EQ(to_string(call), "barrier #12");
}

TEST(Call, DiffersWhenAnyPartDiffers) {
  const Call call = reduce_call();
  for (int part = 0; part < 6; ++part) {
    Call other = call;
    if (part == 0) other.sequence = 13;
    if (part == 1) other.count = 1001;
    if (part == 2) other.operation = Operation::kAllGather;
    if (part == 3) other.type = ElementType::kHalf;
    if (part == 4) other.reduction = Reduction::kSum;
    if (part == 5) other.root = 0;
    EXPECT_NE(other, call) << part;
  }
}

TEST(Call, MismatchNamesEveryRank) {
  std::array<Call, 3> calls{reduce_call(), reduce_call(), Call()};
  calls[1].count = 7;
  EXPECT_EQ(
      describe_mismatch(calls),
      "rank 0: all_reduce #12 of 1000 float, average; rank 1: all_reduce #12 of 7 float, average; rank 2: has not "
      "called yet");
}

}  // namespace
}  // namespace muster::comm
