// Parties see their columns of every sample and no others.
#include "muster/data/partition/vertical.h"

#include "muster/data/partition/manual_placement.h"
#include "support.h"

namespace muster::data {
namespace {

// Sample i is {10 i, 10 i + 1, ..., 10 i + 4}, its label i.
class Rows final : public Dataset {
 public:
  std::uint64_t size() const override { return 6; }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t read(std::uint64_t id, std::span<float> features) const override {
    for (std::size_t i = 0; i < features.size(); ++i)
      features[i] = static_cast<float>(10 * id + i);
    return static_cast<std::int64_t>(id);
  }

 private:
  SampleSpec spec_{.shape = {5}, .classes = 6};
};

TEST(PlaceColumns, PartsAreConsecutiveAndEven) {
  EXPECT_EQ(place_columns(5, 2).member_of, (std::vector<std::uint32_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(place_columns(2, 3).member_of, (std::vector<std::uint32_t>{0, 1}));
}

TEST(Columns, APartySeesItsColumnsOfEverySample) {
  const std::vector<Member> parties{{"bank"}, {"shop"}};
  const Placement placement = parse_manual_placement("bank: 0, 3\nshop: 1-2, 4", 5, parties, "");
  const auto rows = std::make_shared<Rows>();
  const Columns bank(rows, placement, 0);
  const Columns shop(rows, placement, 1);
  EXPECT_EQ(bank.size(), 6U);
  EXPECT_EQ(bank.spec().shape, (std::vector<std::int64_t>{2}));
  std::vector<float> two(2);
  std::vector<float> three(3);
  EXPECT_EQ(bank.read(4, two), 4);
  EXPECT_EQ(two, (std::vector<float>{40, 43}));
  EXPECT_EQ(shop.read(4, three), 4);
  EXPECT_EQ(three, (std::vector<float>{41, 42, 44}));
}

TEST(Columns, APlacementOfOtherColumnsIsRefused) {
  const auto rows = std::make_shared<Rows>();
  EXPECT_TRUE(error_of([&] { Columns(rows, place_columns(4, 2), 0); }));
  EXPECT_TRUE(error_of([&] { Columns(rows, place_columns(5, 6), 5); })) << "no columns";
}

}  // namespace
}  // namespace muster::data
