// Appends records, each checked together with the one before. What a failed write left half-way is cut off, or nothing
// more is written: a record that cannot be read would hide all that follow.
#include "muster/data/ledger.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/data/ledger_format.h"

namespace muster::data {

struct LedgerWriter::Fields {
  LedgerKind kind;
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  std::uint64_t lane = 0;
};

LedgerWriter::LedgerWriter(const std::filesystem::path& folder, const LedgerOptions& options) : apart_(options.apart) {
  make_folder(folder);
  const MutexLock lock(mutex_);
  generation_ = options.generation;
  // A new file for each process: what a killed one left at the end of its file stays as it is.
  for (int number = 0; !file_.valid(); ++number) {
    path_ = folder / fmt::format("worker-{:03}-{:04}.ledger", options.worker, number);
    file_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644));
    if (!file_.valid() && errno != EEXIST) throw_system_error("cannot be created", path_);
  }
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) throw_system_error("no random number for", path_);
  const std::vector<std::byte> header =
      encode_ledger_header(static_cast<std::uint32_t>(options.worker), options.epoch_samples, random);
  try {
    write(header);
  } catch (...) {
    ::unlink(path_.c_str());
    throw;
  }
  chain_ = ledger_checksum(0, std::span(header).first(32));
}

LedgerWriter::~LedgerWriter() {
  try {
    close();
  } catch (const Error&) {
    // A file that is not closed is whole all the same.
  }
}

void LedgerWriter::set_generation(std::uint64_t generation) {
  const MutexLock lock(mutex_);
  MUSTER_CHECK(generation >= generation_, "a ledger's generation never goes back");
  generation_ = generation;
}

void LedgerWriter::record_lane(std::uint64_t epoch, std::uint64_t step, std::uint64_t lane,
                               std::span<const std::uint64_t> ids, std::span<const std::uint64_t> skipped) {
  MUSTER_CHECK(ids.size() <= kMostLedgerIds, "more samples in a lane than a ledger's record holds");
  const MutexLock lock(mutex_);
  // First: a death between the two must not leave a lane that seems to have seen everything.
  if (!skipped.empty()) append({LedgerKind::kSkipped, epoch, step, lane}, skipped);
  append({apart_ ? LedgerKind::kApartLane : LedgerKind::kLane, epoch, step, lane}, ids);
}

void LedgerWriter::record_commit(std::uint64_t epoch, std::uint64_t step, std::uint64_t lanes) {
  MUSTER_FAILPOINT("ledger.commit.before_write");
  const MutexLock lock(mutex_);
  append({LedgerKind::kCommit, epoch, step, lanes}, {});
}

void LedgerWriter::record_resume(std::uint64_t step) {
  const MutexLock lock(mutex_);
  append({LedgerKind::kResume, 0, step, 0}, {});
}

void LedgerWriter::close() {
  const MutexLock lock(mutex_);
  if (closed_) return;
  closed_ = true;
  append({LedgerKind::kClose}, {});
}

void LedgerWriter::append(const Fields& fields, std::span<const std::uint64_t> ids) {
  MUSTER_CHECK(!closed_ || fields.kind == LedgerKind::kClose, "a record for a ledger that is closed");
  MUSTER_FAILPOINT("ledger.append.before_write");
  std::uint32_t chain = chain_;
  write(encode_ledger_record({.kind = fields.kind,
                              .id_bytes = 4,
                              .ids = 0,
                              .generation = generation_,
                              .epoch = fields.epoch,
                              .step = fields.step,
                              .lane = fields.lane,
                              .number = sequence_,
                              .offset = 0},
                             ids, chain));
  MUSTER_FAILPOINT("ledger.append.after_write");
  chain_ = chain;
  ++sequence_;
}

void LedgerWriter::write(std::span<const std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::write(file_.get(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int code = errno;
      // What is half there would make every later record unreadable: it goes, or nothing more is written.
      if (::ftruncate(file_.get(), static_cast<off_t>(length_)) != 0) file_ = FileDescriptor();
      errno = code;
      throw_system_error("cannot be written", path_);
    }
    done += static_cast<std::size_t>(count);
  }
  length_ += bytes.size();
}

void sync_ledger(const std::filesystem::path& folder) {
  for (const std::filesystem::path& path : ledger_files(folder)) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid() || ::fdatasync(file.get()) != 0) throw_system_error("cannot be synced", path);
  }
  sync_folder(folder);  // the names of new files
}

std::uint64_t next_ledger_generation(const std::filesystem::path& folder) {
  std::error_code code;
  if (!std::filesystem::exists(folder, code)) return 1;
  std::uint64_t highest = 0;
  for (const std::filesystem::path& path : ledger_files(folder)) {
    const LedgerFile file = read_ledger_file(path);
    for (const LedgerRecord& record : file.records)
      highest = std::max(highest, record.generation);
  }
  return highest + 1;
}

}  // namespace muster::data
