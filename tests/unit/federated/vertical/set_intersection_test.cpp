// Private set intersection against the plain one, and the curve against the vectors that RFC 9380 publishes (J.1.1).
#include "muster/federated/vertical/set_intersection.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "support/errors.h"

namespace muster::federated {
namespace {

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes)
    text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

TEST(HashToCurve, GivesThePointsOfTheRfc) {
  const std::string domain = "QUUX-V01-CS02-with-P256_XMD:SHA-256_SSWU_RO_";
  // Compressed: whether y is odd, and x.
  const std::map<std::string, std::string> points{
      {"", "032c15230b26dbc6fc9a37051158c95b79656e17a1a920b11394ca91c44247d3e4"},
      {"abc", "020bb8b87485551aa43ed54f009230450b492fead5f1cc91658775dac4a3388a0f"},
      {"abcdef0123456789", "0365038ac8f2b1def042a5df0b33b1f4eca6bff7cb0f9c6c1526811864e544ed80"},
      {"q128_" + std::string(128, 'q'), "024be61ee205094282ba8a2042bcb48d88dfbb609301c49aa8b078533dc65a0b5d"},
      {"a512_" + std::string(512, 'a'), "02457ae2981f70ca85d8e24c308b14db22f3e3862c5ea0f652ca38b5e49cd64bc5"}};
  for (const auto& [text, point] : points)
    EXPECT_EQ(hex(hash_to_curve(text, domain)), point) << text.substr(0, 20);
  EXPECT_NE(hash_to_curve("abc", "another"), hash_to_curve("abc", domain));
}

TEST(CurveSecret, GivesTheSamePointInEitherOrder) {
  CurveSecret a;
  CurveSecret b;
  const CurvePoint one = b.raise(a.blind("id", "domain"));
  EXPECT_EQ(a.raise(b.blind("id", "domain")), one);
  EXPECT_NE(a.raise(b.blind("other", "domain")), one);
  EXPECT_NE(a.blind("id", "domain"), b.blind("id", "domain"));
  EXPECT_NE(a.blind("id", "domain"), hash_to_curve("id", "domain"));
}

TEST(CurveSecret, RefusesWhatIsNoPointOfTheCurve) {
  CurveSecret secret;
  const CurvePoint good = hash_to_curve("id", "domain");
  secret.check(good);
  const auto refused = [&](std::vector<std::byte> bytes) {
    testing::expect_error(ErrorKind::kDamaged, "no point of the curve", [&] { secret.raise(bytes); });
    testing::expect_error(ErrorKind::kDamaged, "no point of the curve", [&] { secret.check(bytes); });
  };
  refused({});
  refused({std::byte{0}});                         // the point at infinity, as SEC 1 writes it
  refused(std::vector<std::byte>(kPointBytes));    // and as long as a point
  refused({good.begin(), std::prev(good.end())});  // cut
  std::vector<std::byte> other(good.begin(), good.end());
  other[0] = std::byte{5};
  refused(other);
  // x = 0 + 2^256 - 1 is above the prime; of small x about half have no y.
  refused(std::vector<std::byte>(kPointBytes, std::byte{0xff}));
  int none = 0;
  for (int x = 0; x < 64; ++x) {
    std::vector<std::byte> small(kPointBytes);
    small[0] = std::byte{2};
    small.back() = static_cast<std::byte>(x);
    try {
      secret.check(small);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kDamaged);
      ++none;
    }
  }
  EXPECT_GT(none, 16);
  EXPECT_LT(none, 48);
}

std::vector<std::string> some_ids(RandomStream& random, std::size_t count, std::uint64_t among) {
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < count; ++i)
    ids.push_back(fmt::format("person {}", random.below(among)));
  return ids;
}

TEST(SetIntersection, IsThePlainOneForRandomSets) {
  RandomStream random({.seed = 7});
  const std::pair<std::size_t, std::size_t> sizes[] = {{0, 0}, {0, 5}, {5, 0}, {1, 1}, {30, 40}, {64, 20}, {200, 1}};
  for (const auto& [asking, answering] : sizes) {
    const std::vector<std::string> left = some_ids(random, asking, 60);
    const std::vector<std::string> right = some_ids(random, answering, 60);
    const DistinctIds l = distinct_ids(left);
    const DistinctIds r = distinct_ids(right);
    AskingSide ask(l.ids);
    AnsweringSide answer(r.ids);
    const auto common = ask.intersect(answer.raise(ask.points()), answer.points());
    const std::set<std::string> left_set(left.begin(), left.end());
    std::set<std::string> plain;
    for (const std::string& id : right) {
      if (left_set.contains(id)) plain.insert(id);
    }
    std::vector<std::uint64_t> places;
    for (const auto& one : common)
      places.push_back(one.place);
    const std::vector<std::uint64_t> others = answer.ids_at(places);
    std::set<std::string> found;
    for (std::size_t i = 0; i < common.size(); ++i) {
      const std::string& id = l.ids[common[i].own];
      EXPECT_EQ(id, r.ids[others[i]]);
      EXPECT_EQ(id, left[l.rows[common[i].own]]);
      found.insert(id);
    }
    EXPECT_EQ(found, plain);
    EXPECT_EQ(common.size(), plain.size());
  }
}

TEST(SetIntersection, OfRowsWithTheSameIdTheFirstCountsAndNoneWithoutAnId) {
  const std::vector<std::string> ids{"b", "a", "", "b", "a", "c", ""};
  const DistinctIds distinct = distinct_ids(ids);
  EXPECT_EQ(distinct.ids, (std::vector<std::string>{"b", "a", "c"}));
  EXPECT_EQ(distinct.rows, (std::vector<std::uint64_t>{0, 1, 5}));
  EXPECT_EQ(distinct.repeated, 2);
  EXPECT_EQ(distinct.missing, 2);
}

TEST(SetIntersection, SendsNoOrderAndNothingThatIsTheSameNextTime) {
  std::vector<std::string> ids;
  for (int i = 0; i < 50; ++i)
    ids.push_back(std::to_string(i));
  const AskingSide first(ids);
  const AskingSide second(ids);
  std::set<std::string> points;
  for (const PointList* list : {&first.points(), &second.points()}) {
    for (std::size_t i = 0; i < ids.size(); ++i)
      points.insert(hex(std::span(*list).subspan(i * kPointBytes, kPointBytes)));
  }
  EXPECT_EQ(points.size(), 100);
  // In an order of its own: an answering side that knows all ids cannot tell them by their places.
  AnsweringSide answer(ids);
  std::vector<std::uint64_t> places(ids.size());
  for (std::size_t i = 0; i < places.size(); ++i)
    places[i] = i;
  EXPECT_NE(answer.ids_at(places), places);
}

TEST(SetIntersection, RefusesListsThatAreNotOfTheProtocol) {
  const std::vector<std::string> ids{"a", "b", "c"};
  AskingSide ask(ids);
  AnsweringSide answer(ids);
  const PointList raised = answer.raise(ask.points());
  PointList twice = answer.points();
  std::copy_n(twice.begin(), kPointBytes, twice.begin() + kPointBytes);
  testing::expect_error(ErrorKind::kDamaged, "twice", [&] { ask.intersect(raised, twice); });
  testing::expect_error(ErrorKind::kDamaged, "twice", [&] { answer.raise(twice); });
  const PointList fewer(raised.begin(), raised.end() - kPointBytes);
  testing::expect_error(ErrorKind::kDamaged, "2 points came back for 3",
                        [&] { ask.intersect(fewer, answer.points()); });
  const PointList cut(raised.begin(), raised.end() - 1);
  testing::expect_error(ErrorKind::kDamaged, "no list of points", [&] { ask.intersect(cut, answer.points()); });
  PointList garbage = raised;
  garbage[kPointBytes] = std::byte{9};
  testing::expect_error(ErrorKind::kDamaged, "no point of the curve", [&] { ask.intersect(garbage, answer.points()); });
  testing::expect_error(ErrorKind::kDamaged, "no point of the curve", [&] { ask.intersect(raised, garbage); });
  testing::expect_error(ErrorKind::kDamaged, "no point of the curve", [&] { answer.raise(garbage); });
  testing::expect_error(ErrorKind::kDamaged, "cannot be: 0", [&] { answer.ids_at(std::vector<std::uint64_t>{0, 0}); });
  testing::expect_error(ErrorKind::kDamaged, "cannot be: 3", [&] { answer.ids_at(std::vector<std::uint64_t>{3}); });
}

}  // namespace
}  // namespace muster::federated
