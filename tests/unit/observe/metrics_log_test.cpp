// Readers beside a writer, writers that are killed, and disks that fill up: rows are whole or not there.
#include "muster/observe/metrics_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "support/sandbox.h"

namespace muster::observe {
namespace {

using testing::limit_file_size;
using testing::slurp;
using testing::spill;
using testing::status_of_child;
using testing::TemporaryFolder;

std::vector<Json> rows_of(const std::string& text) {
  EXPECT_TRUE(text.empty() || text.back() == '\n') << "half a row at the end";
  std::vector<Json> rows;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    rows.push_back(parse_json(line, "metrics.jsonl"));
  return rows;
}

TEST(MetricsLog, WritesOneObjectALineInOrder) {
  const TemporaryFolder folder;
  MetricsLog log(folder / "metrics.jsonl");
  EXPECT_EQ(slurp(folder / "metrics.jsonl"), "");
  log.write({{"step", 1}, {"loss", 2.5}, {"phase", "train"}});
  log.write(Json::object());
  log.write({{"text", "two\nlines"}});
  EXPECT_EQ(slurp(folder / "metrics.jsonl"),
            "{\"step\":1,\"loss\":2.5,\"phase\":\"train\"}\n{}\n{\"text\":\"two\\nlines\"}\n");
  EXPECT_EQ(log.lost(), 0U);
}

TEST(MetricsLog, EveryRowIsInTheFileWhenWriteReturns) {
  const TemporaryFolder folder;
  MetricsLog log(folder / "metrics.jsonl");
  for (std::size_t i = 0; i < 20; ++i) {
    log.write({{"step", i}});
    EXPECT_EQ(rows_of(slurp(folder / "metrics.jsonl")).size(), i + 1);
  }
}

TEST(MetricsLog, NumbersReadBackToTheSameBits) {
  const std::vector<double> numbers{0.1,
                                    1.0 / 3,
                                    5e-324,
                                    -0.0,
                                    1.0,
                                    1e22,
                                    123456789.123456789,
                                    std::numeric_limits<double>::max(),
                                    std::numeric_limits<double>::lowest(),
                                    std::numeric_limits<double>::min(),
                                    std::numeric_limits<double>::epsilon(),
                                    static_cast<double>(0.1F)};
  const TemporaryFolder folder;
  MetricsLog log(folder / "metrics.jsonl");
  log.write({{"numbers", numbers}, {"large", ~std::uint64_t{0}}});
  const Json row = rows_of(slurp(folder / "metrics.jsonl")).at(0);
  const auto read = row["numbers"].get<std::vector<double>>();
  ASSERT_EQ(read.size(), numbers.size());
  EXPECT_EQ(std::memcmp(read.data(), numbers.data(), numbers.size() * sizeof(double)), 0);
  EXPECT_EQ(row["large"].get<std::uint64_t>(), ~std::uint64_t{0});
}

TEST(MetricsLog, WhatIsNoNumberBecomesNull) {
  const double infinity = std::numeric_limits<double>::infinity();
  const TemporaryFolder folder;
  MetricsLog log(folder / "metrics.jsonl");
  log.write({{"loss", std::numeric_limits<double>::quiet_NaN()}, {"up", infinity}, {"down", -infinity}});
  EXPECT_EQ(slurp(folder / "metrics.jsonl"), "{\"loss\":null,\"up\":null,\"down\":null}\n");
}

TEST(MetricsLog, TextThatIsNotUtf8DoesNotThrow) {
  const TemporaryFolder folder;
  MetricsLog log(folder / "metrics.jsonl");
  log.write({{"name", "caf\xe9"}});
  EXPECT_EQ(rows_of(slurp(folder / "metrics.jsonl")).at(0)["name"], "caf\xef\xbf\xbd");
}

TEST(MetricsLog, GoesOnBehindEarlierRows) {
  const TemporaryFolder folder;
  {
    MetricsLog log(folder / "metrics.jsonl");
    log.write({{"step", 1}});
  }
  MetricsLog log(folder / "metrics.jsonl");
  log.write({{"step", 2}});
  EXPECT_EQ(slurp(folder / "metrics.jsonl"), "{\"step\":1}\n{\"step\":2}\n");
}

TEST(MetricsLog, CutsOffHalfARow) {
  // Shorter and longer than one block that is read from the end, and with no whole row at all.
  for (const std::size_t length : {1U, 100U, 4095U, 4096U, 4097U, 20'000U}) {
    for (const std::string whole : {"", "{\"step\":1}\n", "{}\n{}\n"}) {
      const TemporaryFolder folder;
      spill(folder / "metrics.jsonl", whole + std::string(length, 'x'));
      MetricsLog log(folder / "metrics.jsonl");
      EXPECT_EQ(slurp(folder / "metrics.jsonl"), whole) << length;
      log.write({{"step", 2}});
      EXPECT_EQ(slurp(folder / "metrics.jsonl"), whole + "{\"step\":2}\n") << length;
    }
  }
}

// The error of opening `path`.
Error error_of(const std::filesystem::path& path) {
  try {
    MetricsLog log(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.where(), path.string());
    return error;
  }
  return Error(ErrorKind::kInterrupted, "nothing was thrown");
}

TEST(MetricsLog, RefusesAPathThatCannotBeWritten) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of(folder / "none/metrics.jsonl").kind(), ErrorKind::kNotFound);
  EXPECT_EQ(error_of(folder.path()).kind(), ErrorKind::kInvalidInput);
  EXPECT_EQ(error_of("/dev/full").kind(), ErrorKind::kInvalidInput);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_of(folder / "pipe").kind(), ErrorKind::kInvalidInput);
}

TEST(MetricsLog, DoesNotEmptyAFileThatIsNoFileOfRows) {
  const TemporaryFolder folder;
  const std::string weights(2'000'000, 'w');
  spill(folder / "weights", weights);
  EXPECT_EQ(error_of(folder / "weights").kind(), ErrorKind::kDamaged);
  EXPECT_EQ(slurp(folder / "weights"), weights);
}

TEST(MetricsLog, AFullDiskCostsRowsAndIsReportedOnce) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "metrics.jsonl";
  const int status = status_of_child([&] {
    limit_file_size(1000);
    int reports = 0;
    ErrorKind kind = ErrorKind::kInterrupted;
    MetricsLog log(path, [&](const Error& error) {
      ++reports;
      kind = error.kind();
    });
    std::uint64_t written = 0;
    for (int step = 0; step < 200; ++step) {
      const std::uint64_t before = log.lost();
      log.write({{"step", step}, {"loss", 0.123456789}});
      if (log.lost() == before) ++written;
    }
    if (reports != 1 || kind != ErrorKind::kResource) return 1;
    if (log.lost() == 0 || written == 0 || log.lost() + written != 200) return 2;
    return rows_of(slurp(path)).size() == written ? 0 : 3;
  });
  EXPECT_EQ(status, 0);
  EXPECT_LE(slurp(path).size(), 1000U);
  rows_of(slurp(path));  // whole rows only
}

TEST(MetricsLog, GoesOnWhenTheDiskHasRoomAgain) {
  const TemporaryFolder folder;
  const int status = status_of_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    MetricsLog log(folder / "metrics.jsonl");  // nobody to tell: no report, no throw
    const auto limit = [](rlim_t bytes) {
      const rlimit sizes{bytes, RLIM_INFINITY};
      if (::setrlimit(RLIMIT_FSIZE, &sizes) != 0) ::_exit(98);
    };
    limit(30);
    for (int step = 0; step < 10; ++step)
      log.write({{"step", step}, {"text", "longer than what is left"}});
    limit(RLIM_INFINITY);
    log.write({{"step", 10}});
    return log.lost() == 10 ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(slurp(folder / "metrics.jsonl"), "{\"step\":10}\n");
}

// A reader beside a writer, which takes the lines that have ended.
TEST(MetricsLog, AReaderNeverGetsHalfARow) {
  constexpr std::size_t kRows = 2000;
  const auto row = [](std::size_t step) { return Json{{"step", step}, {"text", std::string(step % 700, 'x')}}; };
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "metrics.jsonl";
  spill(path, "");
  const pid_t writer = ::fork();
  if (writer == 0) {
    MetricsLog log(path);
    for (std::size_t step = 0; step < kRows; ++step)
      log.write(row(step));
    ::_exit(log.lost() == 0 ? 0 : 1);
  }
  ASSERT_GT(writer, 0);
  std::ifstream file(path);
  std::string pending;
  std::size_t taken = 0;
  int status = 0;
  bool ended = false;
  while (taken < kRows) {
    const bool last_look = ended;
    ended = ended || ::waitpid(writer, &status, WNOHANG) != 0;
    file.clear();  // of the end of the file, which is no longer where it was
    std::ostringstream more;
    more << file.rdbuf();
    pending += more.str();
    for (std::size_t end = pending.find('\n'); end != std::string::npos; end = pending.find('\n')) {
      ASSERT_EQ(pending.substr(0, end), row(taken).dump());
      pending.erase(0, end + 1);
      ++taken;
    }
    ASSERT_FALSE(last_look && taken < kRows) << taken << " rows";
  }
  if (!ended) ::waitpid(writer, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(pending, "");
}

TEST(MetricsLog, KilledAtAnyMomentItLeavesRowsThatTheNextOneGoesOnBehind) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "metrics.jsonl";
  for (int round = 0; round < 10; ++round) {
    const pid_t writer = ::fork();
    if (writer == 0) {
      MetricsLog log(path);
      while (true)
        log.write({{"text", std::string(20'000, 'x')}});  // several pages: a kill can fall between them
    }
    ASSERT_GT(writer, 0);
    while (!std::filesystem::exists(path) || std::filesystem::file_size(path) < 100'000) {
    }
    ::kill(writer, SIGKILL);
    ASSERT_EQ(::waitpid(writer, nullptr, 0), writer);
    {
      MetricsLog log(path);
      log.write({{"round", round}});
    }
    const std::vector<Json> rows = rows_of(slurp(path));
    EXPECT_EQ(rows.back()["round"], round);
    for (const Json& row : rows)
      ASSERT_TRUE(row.contains("round") || row["text"].get<std::string>().size() == 20'000);
    std::filesystem::remove(path);
  }
}

// Not EXPECT_DEATH: its child would make a folder of its own and leave it behind.
TEST(MetricsLogDeathTest, ARowIsAnObject) {
  const TemporaryFolder folder;
  const int status = status_of_child([&] {
    ::dup2(::open((folder / "stderr").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600), STDERR_FILENO);
    MetricsLog log(folder / "metrics.jsonl");
    log.write(Json::array());
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) << status;
  EXPECT_NE(slurp(folder / "stderr").find("a row of metrics is an object"), std::string::npos);
}

}  // namespace
}  // namespace muster::observe
