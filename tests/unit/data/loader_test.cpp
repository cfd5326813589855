// Batches with and without threads, with errors, time-outs and takers that come in any order.
#include "muster/data/loader.h"

#include <array>
#include <atomic>
#include <future>
#include <latch>
#include <new>
#include <numeric>
#include <system_error>
#include <thread>

#include "support.h"

namespace muster::data {
namespace {

Deadline soon() {
  return Deadline::after(std::chrono::seconds(60));
}
Deadline now() {
  return Deadline::after(std::chrono::seconds(0));
}

std::vector<std::uint64_t> range(std::uint64_t begin, std::uint64_t end) {
  std::vector<std::uint64_t> ids(end - begin);
  std::iota(ids.begin(), ids.end(), begin);
  return ids;
}

void expect_contents(const Batch& batch, const std::vector<std::uint64_t>& ids) {
  ASSERT_EQ(batch.ids, ids);
  ASSERT_EQ(batch.size(), ids.size());
  ASSERT_EQ(batch.labels.size(), ids.size());
  ASSERT_EQ(batch.features.size(), ids.size() * 2);
  EXPECT_EQ(batch.shape, (std::vector<std::int64_t>{static_cast<std::int64_t>(ids.size()), 2}));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(batch.features.span()[2 * i], static_cast<float>(ids[i]));
    EXPECT_EQ(batch.features.span()[2 * i + 1], static_cast<float>(ids[i]) + 0.5F);
    EXPECT_EQ(batch.labels[i], static_cast<std::int64_t>(ids[i] % 3));
  }
}

class WithThreads : public ::testing::TestWithParam<int> {
 protected:
  LoaderOptions options() const { return {.threads = GetParam()}; }
};

INSTANTIATE_TEST_SUITE_P(Threads, WithThreads, ::testing::Values(0, 1, 3));

TEST_P(WithThreads, BatchesHoldTheirSamplesInAnyOrderOfTaking) {
  Loader loader(std::make_shared<Counting>(1000), options());
  std::vector<std::vector<std::uint64_t>> asked = {{}, {999}, {5, 5, 5}, range(0, 33), range(100, 164), {7, 3, 900}};
  std::vector<Loader::Ticket> tickets;
  for (const auto& ids : asked)
    tickets.push_back(loader.submit(ids));
  for (std::size_t i = asked.size(); i-- > 0;)
    expect_contents(loader.take(tickets[i], soon()), asked[i]);
}

TEST_P(WithThreads, RecycledMemoryIsUsedAgain) {
  Loader loader(std::make_shared<Counting>(100), options());
  Batch batch = loader.take(loader.submit(range(0, 50)), soon());
  const float* memory = batch.features.data();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0U);
  loader.recycle(std::move(batch));
  batch = loader.take(loader.submit(range(20, 60)), soon());
  EXPECT_EQ(batch.features.data(), memory);
  expect_contents(batch, range(20, 60));
}

TEST_P(WithThreads, ManyBatchesReadAheadArriveWhole) {
  Loader loader(std::make_shared<Counting>(10000), options());
  std::deque<Loader::Ticket> ahead;
  for (std::uint64_t i = 0; i < 4; ++i)
    ahead.push_back(loader.submit(range(i * 10, i * 10 + 17)));
  for (std::uint64_t i = 0; i < 500; ++i) {
    ahead.push_back(loader.submit(range((i + 4) * 10, (i + 4) * 10 + 17)));
    Batch batch = loader.take(ahead.front(), soon());
    ahead.pop_front();
    expect_contents(batch, range(i * 10, i * 10 + 17));
    loader.recycle(std::move(batch));
  }
}

TEST_P(WithThreads, AnErrorOfTheDataSetReachesTheTaker) {
  auto dataset = std::make_shared<Counting>(100);
  dataset->on_read = [](std::uint64_t id) {
    if (id == 13) throw Error(ErrorKind::kDamaged, "bad sample", "photo.png", "Delete it.");
  };
  Loader loader(dataset, options());
  const auto bad = loader.submit(range(10, 20));
  const auto good = loader.submit(range(20, 30));
  const auto error = error_of([&] { loader.take(bad, soon()); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kDamaged);
  EXPECT_EQ(error->where(), "photo.png");
  EXPECT_EQ(error->remedy(), "Delete it.");
  expect_contents(loader.take(good, soon()), range(20, 30));
}

TEST_P(WithThreads, OtherExceptionsBecomeErrorsThatNameTheSample) {
  auto dataset = std::make_shared<Counting>(100);
  dataset->on_read = [](std::uint64_t id) {
    switch (id) {
      case 1:
        throw std::runtime_error("broken pipe organ");
      case 2:
        throw std::system_error(EIO, std::generic_category(), "disk");
      case 3:
        throw std::bad_alloc();
      case 4:
        throw 42;
      default:
        break;
    }
  };
  Loader loader(dataset, options());
  const std::vector<ErrorKind> kinds = {ErrorKind::kCompute, ErrorKind::kIo, ErrorKind::kResource, ErrorKind::kCompute};
  for (std::uint64_t id = 1; id <= 4; ++id) {
    const auto ticket = loader.submit({50, id, 60});
    const auto error = error_of([&] { loader.take(ticket, soon()); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), kinds[id - 1]);
    EXPECT_NE(error->where().find("sample " + std::to_string(id)), std::string::npos) << error->what();
  }
}

TEST_P(WithThreads, ALabelThatIsNoClassIsAnErrorThatNamesTheSample) {
  auto dataset = std::make_shared<Counting>(100);
  dataset->label_offset = 1;  // sample 2 now has label 3 of 0 to 2
  Loader loader(dataset, options());
  const auto ticket = loader.submit({0, 1, 2});
  const auto error = error_of([&] { loader.take(ticket, soon()); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kInvalidInput);
  EXPECT_EQ(error->where(), "sample 2");
}

TEST_P(WithThreads, SeveralTakersGetTheirOwnBatches) {
  Loader loader(std::make_shared<Counting>(1000), options());
  std::vector<std::thread> takers;
  for (std::uint64_t t = 0; t < 4; ++t) {
    takers.emplace_back([&loader, t] {
      for (std::uint64_t i = 0; i < 50; ++i) {
        const auto ids = range(t * 100 + i, t * 100 + i + 9);
        Batch batch = loader.take(loader.submit(ids), soon());
        expect_contents(batch, ids);
        loader.recycle(std::move(batch));
      }
    });
  }
  for (auto& taker : takers)
    taker.join();
}

TEST(Loader, ATimeOutNamesTheBatchAndTheTicketStaysGood) {
  auto dataset = std::make_shared<Counting>(100);
  std::promise<void> gate;
  dataset->on_read = [open = gate.get_future().share()](std::uint64_t) { open.wait(); };
  Loader loader(dataset, {.threads = 1});
  const auto ticket = loader.submit(range(42, 50));
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto error = error_of([&] { loader.take(ticket, now()); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::kTimeout);
    EXPECT_TRUE(error->retryable());
    EXPECT_NE(error->message().find("sample 42"), std::string::npos) << error->what();
    EXPECT_NE(error->message().find("8 samples"), std::string::npos) << error->what();
  }
  gate.set_value();
  expect_contents(loader.take(ticket, soon()), range(42, 50));
}

TEST(Loader, WithoutThreadsATimeOutKeepsWhatWasRead) {
  FakeClock clock;
  auto dataset = std::make_shared<Counting>(100);
  int reads = 0;
  dataset->on_read = [&](std::uint64_t) {
    ++reads;
    clock.advance(std::chrono::seconds(1));
  };
  Loader loader(dataset, {.threads = 0});
  const auto ticket = loader.submit(range(0, 10));
  const auto error = error_of([&] { loader.take(ticket, Deadline::after(std::chrono::seconds(4), clock)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kTimeout);
  EXPECT_EQ(reads, 4);
  expect_contents(loader.take(ticket, Deadline::after(std::chrono::seconds(60), clock)), range(0, 10));
  EXPECT_EQ(reads, 10);
}

TEST(Loader, SubmitDoesNotWaitForReading) {
  auto dataset = std::make_shared<Counting>(100);
  std::promise<void> gate;
  dataset->on_read = [open = gate.get_future().share()](std::uint64_t) { open.wait(); };
  Loader loader(dataset, {.threads = 1});
  std::vector<Loader::Ticket> tickets;
  for (int i = 0; i < 20; ++i)
    tickets.push_back(loader.submit(range(0, 10)));  // hangs here if it waits
  gate.set_value();
  for (const auto ticket : tickets)
    expect_contents(loader.take(ticket, soon()), range(0, 10));
}

TEST(Loader, EndsWithoutReadingWhatNobodyWaitsFor) {
  auto dataset = std::make_shared<Counting>(100);
  std::atomic<std::uint64_t> reads{0};
  std::latch started(1);
  dataset->on_read = [&](std::uint64_t) {
    if (reads++ == 0) started.count_down();
    // Slow enough that reading everything would be seen, and fast enough that a wrong loader still ends.
    for (int i = 0; i < 50; ++i)
      std::this_thread::yield();
  };
  const std::uint64_t batches = 20;
  {
    Loader loader(dataset, {.threads = 2});
    for (std::uint64_t i = 0; i < batches; ++i)
      loader.submit(std::vector<std::uint64_t>(10000, 1));
    started.wait();
  }
  EXPECT_LT(reads.load(), batches * 10000);
}

TEST(Loader, EndsWithErrorsNobodyTook) {
  auto dataset = std::make_shared<Counting>(100);
  dataset->on_read = [](std::uint64_t) { throw std::runtime_error("never seen"); };
  Loader loader(dataset, {.threads = 2});
  for (int i = 0; i < 10; ++i)
    loader.submit(range(0, 10));
}

TEST(Loader, RefusesANegativeNumberOfThreads) {
  const auto error = error_of([] { Loader loader(std::make_shared<Counting>(1), {.threads = -1}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kInvalidInput);
}

TEST(LoaderDeathTest, SamplesAndTicketsThatAreNotThereStopTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Loader loader(std::make_shared<Counting>(10), {.threads = 0});
  EXPECT_DEATH(loader.submit({10}), "beyond the data set");
  const auto ticket = loader.submit({9});
  loader.take(ticket, soon());
  EXPECT_DEATH(loader.take(ticket, soon()), "spent");
}

// Sample i is the tokens {i, i + 1} with the values {i / 2, i, 2 i}.
class TokensWithValues final : public Dataset {
 public:
  std::uint64_t size() const override { return 10; }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t read(std::uint64_t, std::span<float>) const override {
    throw Error(ErrorKind::kUnsupported, "no class");
  }
  void read_sample(std::uint64_t id, const SampleRoom& room) const override {
    ASSERT_TRUE(room.features.empty() && room.labels.empty());
    const auto number = static_cast<float>(id);
    std::iota(room.tokens.begin(), room.tokens.end(), static_cast<std::int64_t>(id));
    std::copy_n(std::array{number / 2, number, 2 * number}.begin(), 3, room.values.begin());
  }
  void will_read(std::span<const std::uint64_t> ids) const override { announced.assign(ids.begin(), ids.end()); }

  mutable std::vector<std::uint64_t> announced;

 private:
  SampleSpec spec_{
      .shape = {2}, .input = InputKind::kTokens, .target = TargetKind::kValues, .target_shape = {3}, .vocabulary = 11};
};

TEST(Loader, BatchesHoldWhatTheSpecSays) {
  const auto dataset = std::make_shared<TokensWithValues>();
  Loader loader(dataset, {.threads = 0});
  const Batch batch = loader.take(loader.submit({4, 1}), soon());
  EXPECT_EQ(batch.size(), 2U);
  EXPECT_EQ(batch.tokens, (std::vector<std::int64_t>{4, 5, 1, 2}));
  EXPECT_EQ(batch.values, (std::vector<float>{2, 4, 8, 0.5F, 1, 2}));
  EXPECT_EQ(batch.shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(batch.target_shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(batch.features.size(), 0U);
  EXPECT_TRUE(batch.labels.empty());
  EXPECT_EQ(dataset->announced, (std::vector<std::uint64_t>{4, 1}));
}

}  // namespace
}  // namespace muster::data
