// metrics.jsonl: what a run measured, one JSON object a line, for scripts and dashboards that read it while it grows.
//
// A line is one write at the end of the file: what a reader sees up to the last line break is whole rows. Metrics are
// not worth a training run: a disk that fills up costs rows, which are counted, and nothing else. Thread safety: one
// thread at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/json.h"

namespace muster::observe {

class MetricsLog {
 public:
  // Called in write() when the first row of this object is lost, and never again; a log's warning, usually.
  using OnLoss = std::function<void(const Error&)>;

  // Opens or creates the file; rows go behind the ones that stand there. Half a row at its end, which a machine that
  // lost power can leave, is cut off. Throws kNotFound (no such folder), kInvalidInput (a folder, a pipe), kDamaged
  // (ends in more than 1 MiB without a line break: not a file of rows), kResource or kIo.
  explicit MetricsLog(std::filesystem::path path, OnLoss on_loss = {});

  // Appends `row`. Numbers read back to the same bits; NaN and infinities, which JSON has not, become null. Does not
  // throw when the row cannot be written: it is lost. REQUIRES: row is an object.
  void write(const Json& row);

  // Rows that could not be written.
  std::uint64_t lost() const { return lost_; }

 private:
  std::filesystem::path path_;
  OnLoss on_loss_;
  FileDescriptor descriptor_;
  std::uint64_t lost_ = 0;
};

}  // namespace muster::observe
