// What a checkpoint folder must survive: kill -9 and a failing disk at every point of writing, kill -9 at any moment, a
// full, broken or read-only disk, and damage.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint_example.h"
#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/files.h"
#include "muster/base/random.h"
#include "muster/model/checkpoint.h"
#include "support/sandbox.h"

namespace muster::model {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// In memory where there is such a place: what a killed process leaves is the same as on a disk, and a thousand fsyncs
// cost nothing there.
class FastFolder {
 public:
  FastFolder() {
    const bool memory = ::access("/dev/shm", W_OK) == 0;
    std::string pattern = std::string(memory ? "/dev/shm" : "/tmp") + "/muster-test-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder: " + pattern);
    path_ = pattern;
  }
  FastFolder(const FastFolder&) = delete;
  FastFolder& operator=(const FastFolder&) = delete;
  ~FastFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The save under test: a new step, or the replacement of the one that is there.
struct Save {
  std::string name;
  std::uint64_t step;
  int variant;
  bool swaps = true;  // false: on a file system that cannot swap two names
};

class EveryPoint : public ::testing::TestWithParam<Save> {
 protected:
  void SetUp() override {
    if (!GetParam().swaps) arm_failpoints("checkpoint.swap=error");
  }
  void TearDown() override { disarm_failpoints(); }
  // A folder with step 1 in it.
  void prepare() {
    std::filesystem::remove_all(scratch_.path());
    CheckpointStore(scratch_.path()).save(before_.content());
  }
  // Keeping one, so that a save of step 2 also removes step 1.
  void save(const std::function<void(std::string_view)>& at) {
    CheckpointStore store(scratch_.path(), {.keep = 1, .at = at});
    store.save(after_.content());
    store.mark_best(after_.content().manifest.step, 0.5);
  }
  std::vector<std::string> points() {
    std::vector<std::string> names;
    prepare();
    save([&](std::string_view point) { names.emplace_back(point); });
    return names;
  }
  // What must hold after a save that ended at `point`.
  void expect_sound(const std::vector<std::string>& points, std::size_t point) {
    SCOPED_TRACE(points[point] + fmt::format(", point {}", point));
    CheckpointStore store(scratch_.path());
    std::vector<RejectedCheckpoint> rejected;
    const auto loaded = store.load_newest(rejected);
    EXPECT_THAT(rejected, IsEmpty()) << "a partial checkpoint under a final name";
    ASSERT_TRUE(loaded);
    const bool is_new = after_.equals(*loaded);
    EXPECT_TRUE(is_new || before_.equals(*loaded));
    const auto durable = std::find(points.begin(), points.end(), "after fsync parent") - points.begin();
    if (point >= static_cast<std::size_t>(durable)) {
      EXPECT_TRUE(is_new) << "an acknowledged checkpoint is lost";
    }
    for (const std::string& name : names_of(scratch_.path())) {
      EXPECT_TRUE(name.starts_with("step-") || name == "best.json") << name << " was left behind";
    }
    store.save(after_.content());
    EXPECT_TRUE(after_.equals(store.load(after_.content().manifest.step)));
  }

  FastFolder scratch_;
  ExampleCheckpoint before_{1};
  ExampleCheckpoint after_{GetParam().step, GetParam().variant};
};

TEST_P(EveryPoint, HasAName) {
  const std::vector<std::string> names = points();
  for (const char* const name :
       {"before create folder", "after write model.safetensors", "before fsync optimizer.safetensors",
        "after fsync manifest.json", "before rename folder", "after fsync parent", "before write best.json"}) {
    EXPECT_THAT(names, ::testing::Contains(name));
  }
  EXPECT_GT(std::find(names.begin(), names.end(), "before write manifest.json"),
            std::find(names.begin(), names.end(), "after fsync optimizer.safetensors"))
      << "the manifest is not written last";
}

TEST_P(EveryPoint, SurvivesKillNineTwentyTimes) {
  constexpr int kTimes = 20;
  const std::vector<std::string> names = points();
  for (std::size_t kill = 0; kill < kTimes * names.size(); ++kill) {
    const std::size_t point = kill % names.size();
    prepare();
    const int status = testing::status_of_child([&] {
      std::size_t reached = 0;
      save([&](std::string_view) {
        if (reached++ == point) ::kill(::getpid(), SIGKILL);
      });
      return 0;
    });
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    expect_sound(names, point);
    if (HasFailure()) return;
  }
}

TEST_P(EveryPoint, SurvivesAFailingDisk) {
  const std::vector<std::string> names = points();
  for (std::size_t point = 0; point < names.size(); ++point) {
    prepare();
    std::size_t reached = 0;
    try {
      save([&](std::string_view) {
        if (reached++ == point) throw Error(ErrorKind::kIo, "the disk failed");
      });
      // Only the removal of old ones may fail without the caller hearing of it.
      EXPECT_TRUE(names[point].ends_with(" old")) << names[point];
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), "the disk failed");
    }
    expect_sound(names, point);
  }
}

INSTANTIATE_TEST_SUITE_P(Saves, EveryPoint,
                         ::testing::Values(Save{"new_step", 2, 0}, Save{"same_step", 1, 1},
                                           Save{"same_step_without_swap", 1, 1, false}),
                         [](const auto& info) { return info.param.name; });

// Not at a point that we have thought of, but at any: a child saves step after step and tells of each when it is saved.
TEST(KillNine, AtAnyMomentLosesNothingThatWasSaved) {
  RandomStream random({.seed = 14, .purpose = Purpose::kSynthetic});
  const FastFolder scratch;
  std::set<std::uint64_t> reached;
  for (int kill = 0; kill < 100; ++kill) {
    std::filesystem::remove_all(scratch.path());
    std::filesystem::create_directory(scratch.path());
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const FileDescriptor reading(ends[0]);
    FileDescriptor writing(ends[1]);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      CheckpointStore store(scratch.path(), {.keep = 2});
      for (std::uint64_t step = 1;; ++step) {
        store.save(ExampleCheckpoint(step).content());
        if (::write(writing.get(), &step, sizeof step) != sizeof step) ::_exit(1);
      }
    }
    writing = FileDescriptor();
    std::uint64_t saved = 0;
    ASSERT_EQ(::read(reading.get(), &saved, sizeof saved), static_cast<ssize_t>(sizeof saved));
    // sleeps: the kill falls anywhere inside a save
    system_clock().sleep_for(std::chrono::microseconds(random.below(5000)));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    while (::read(reading.get(), &saved, sizeof saved) == static_cast<ssize_t>(sizeof saved)) {
    }
    reached.insert(saved);

    CheckpointStore store(scratch.path());
    std::vector<RejectedCheckpoint> rejected;
    const auto loaded = store.load_newest(rejected);
    ASSERT_THAT(rejected, IsEmpty()) << "a partial checkpoint under a final name";
    ASSERT_TRUE(loaded);
    EXPECT_GE(loaded->manifest.step, saved) << "an acknowledged checkpoint is lost";
    EXPECT_LE(loaded->manifest.step, saved + 1);
    EXPECT_TRUE(ExampleCheckpoint(loaded->manifest.step).equals(*loaded));
    for (const std::string& name : names_of(scratch.path()))
      EXPECT_TRUE(name.starts_with("step-")) << name << " was left behind";
  }
  EXPECT_GT(reached.size(), 1U) << "every kill came at the same moment";
}

// The kernel itself refuses: `replacement` is put in the place of the file that is being written, at `point`.
void save_onto(const std::filesystem::path& folder, const std::string& point, const std::string& name,
               const char* replacement) {
  const auto at = [&](std::string_view reached) {
    if (reached != point) return;
    const FileDescriptor other(::open(replacement, O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(other.valid()) << replacement;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code ignored;
      const std::filesystem::path target = std::filesystem::read_symlink(entry.path(), ignored);
      if (target.filename() == name) ::dup3(other.get(), std::stoi(entry.path().filename()), O_CLOEXEC);
    }
  };
  CheckpointStore(folder, {.at = at}).save(ExampleCheckpoint(2).content());
}

TEST(BrokenDisk, IsNamedAndLeavesTheOldCheckpointAndNothingElse) {
  const FastFolder scratch;
  const ExampleCheckpoint before(1);
  CheckpointStore(scratch.path()).save(before.content());
  struct Case {
    const char* when;
    const char* replacement;
    const char* message;
  };
  // A device that is always full; memory that is not there; something that cannot be synced.
  const Case cases[] = {{"before write", "/dev/full", "No space left on device"},
                        {"before write", "/proc/self/mem", "Input/output error"},
                        {"before fsync", "/dev/null", "cannot be made durable"}};
  for (const std::string name : {"model.safetensors", "optimizer.safetensors", "manifest.json"}) {
    for (const Case& broken : cases) {
      SCOPED_TRACE(name + " on " + broken.replacement);
      try {
        save_onto(scratch.path(), std::string(broken.when) + " " + name, name, broken.replacement);
        ADD_FAILURE() << "saved";
      } catch (const Error& error) {
        EXPECT_THAT(std::string(error.what()),
                    ::testing::AllOf(::testing::HasSubstr(broken.message), ::testing::HasSubstr(name)));
      }
      EXPECT_THAT(names_of(scratch.path()), ElementsAre("step-000000000001"));
      EXPECT_TRUE(before.equals(CheckpointStore(scratch.path()).load(1)));
    }
  }
}

TEST(ReadOnlyFolder, IsNamedAndLeavesTheOldCheckpointReadable) {
  const FastFolder scratch;
  const ExampleCheckpoint before(1);
  const std::filesystem::path folder = scratch.path() / "checkpoints";
  CheckpointStore(folder).save(before.content());
  ASSERT_EQ(::chmod(scratch.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(folder.c_str(), 0555), 0);
  const int status = testing::status_of_child([&] {
    // Nothing is read-only for root.
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return 3;
    CheckpointStore store(folder);
    try {
      store.save(ExampleCheckpoint(2).content());
      return 1;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kIo) return 2;
    }
    return before.equals(store.load(1)) ? 0 : 4;
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_THAT(names_of(folder), ElementsAre("step-000000000001"));
}

// A file that cannot grow beyond the limit fails as a full disk does, in the middle of a write.
TEST(FullDisk, LeavesTheOldCheckpointAndNothingElse) {
  const FastFolder scratch;
  const ExampleCheckpoint before(1);
  CheckpointStore(scratch.path()).save(before.content());
  const auto largest = std::filesystem::file_size(CheckpointStore(scratch.path()).path_of(1) / "manifest.json");
  for (std::uint64_t limit = 0; limit < largest; limit = limit * 2 + 1) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit bound{limit, limit};
      if (::setrlimit(RLIMIT_FSIZE, &bound) != 0) ::_exit(3);
      try {
        CheckpointStore(scratch.path()).save(ExampleCheckpoint(2).content());
      } catch (const Error& error) {
        ::_exit(error.kind() == ErrorKind::kIo || error.kind() == ErrorKind::kResource ? 0 : 2);
      }
      ::_exit(1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << "limit " << limit;
    EXPECT_THAT(names_of(scratch.path()), ElementsAre("step-000000000001"));
    EXPECT_TRUE(before.equals(CheckpointStore(scratch.path()).load(1)));
  }
}

// One random change to `text`; the result may be equal by chance.
std::string mutated(std::string text, RandomStream& random) {
  const std::size_t place = random.below(text.size());
  const std::size_t other = random.below(text.size());
  switch (random.below(8)) {
    case 0:
      text[place] = static_cast<char>(text[place] ^ (1 << random.below(8)));
      break;
    case 1:
      text.resize(place);
      break;
    case 2:
      std::swap(text[place], text[other]);
      break;
    case 3:
      text.insert(place, 1, text[place]);
      break;
    case 4:
      text.erase(place, 1);
      break;
    case 5:
      text[place] = static_cast<char>(random.below(256));
      break;
    case 6:
      text.append(text.substr(place));
      break;
    default:
      text.replace(place, 1 + random.below(64), std::string(1 + random.below(64), '\0'));
      break;
  }
  return text;
}

TEST(Damage, FiveThousandMutationsAreRefusedAndTheOneBeforeIsUsed) {
  const FastFolder scratch;
  const ExampleCheckpoint before(1);
  const ExampleCheckpoint newest(2);
  CheckpointStore store(scratch.path());
  store.save(before.content());
  store.save(newest.content());
  RandomStream random({.seed = 15, .purpose = Purpose::kSynthetic});
  const std::string names[] = {"manifest.json", "model.safetensors", "optimizer.safetensors"};
  int refused = 0;
  for (int mutation = 0; mutation < 5000; ++mutation) {
    const std::string& name = names[mutation % 3];
    const std::filesystem::path path = store.path_of(2) / name;
    const std::string original = file_text(path);
    const std::string damaged = mutated(original, random);
    put_file(path, damaged);
    std::vector<RejectedCheckpoint> rejected;
    const auto loaded = store.load_newest(rejected);
    ASSERT_TRUE(loaded) << "mutation " << mutation;
    if (rejected.empty()) {
      // Only a change that changes nothing passes: none at all, or the blanks of the manifest.
      EXPECT_TRUE(newest.equals(*loaded)) << "mutation " << mutation << " of " << name;
      EXPECT_TRUE(damaged == original || name == names[0]) << "mutation " << mutation << " of " << name;
    } else {
      EXPECT_TRUE(before.equals(*loaded)) << "mutation " << mutation << " of " << name;
      ASSERT_EQ(rejected.size(), 1u);
      EXPECT_EQ(rejected[0].path, store.path_of(2));
      EXPECT_GT(rejected[0].reason.size(), store.path_of(2).string().size());
      EXPECT_LT(rejected[0].reason.size(), 1000u);
      ++refused;
    }
    put_file(path, original);
  }
  EXPECT_GT(refused, 4500);
  EXPECT_TRUE(newest.equals(store.load(2)));
}

}  // namespace
}  // namespace muster::model
