// A thread takes a whole batch from the queue; without threads take() reads it itself. What a read throws is
// translated, kept with its batch and thrown in take(): no exception ends a thread.
#include "muster/data/loader.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"

namespace muster::data {

struct Loader::Job {
  Batch batch;
  std::optional<std::uint64_t> epoch;
  std::size_t read = 0;  // samples of the batch that are complete
  bool prepared = false;
  std::exception_ptr failure;
  bool done = false;  // guarded by the loader's mutex
};

namespace {

// What happened while sample `id` was read, as an Error that names it. REQUIRES: inside a catch block.
std::exception_ptr translate_current(std::uint64_t id) {
  const auto error = [id](ErrorKind kind, const std::string& reason) {
    return std::make_exception_ptr(Error(kind, reason, fmt::format("reading sample {}", id)));
  };
  try {
    throw;
  } catch (const Error&) {
    return std::current_exception();
  } catch (const std::system_error& failure) {
    return error(ErrorKind::kIo, failure.what());
  } catch (const std::bad_alloc&) {
    return error(ErrorKind::kResource, "out of memory");
  } catch (const std::exception& failure) {
    return error(ErrorKind::kCompute, failure.what());
  } catch (...) {
    return error(ErrorKind::kCompute, "an exception that is not a std::exception");
  }
}

}  // namespace

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
    : dataset_(std::move(dataset)),
      elements_(dataset_->spec().elements()),
      target_elements_(dataset_->spec().target_elements()) {
  if (options.threads < 0) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("cannot load with {} threads", options.threads));
  }
  try {
    for (int i = 0; i < options.threads; ++i)
      threads_.emplace_back([this] { run(); });
  } catch (const std::system_error& failure) {
    stop();
    throw Error(ErrorKind::kResource,
                fmt::format("cannot start {} loader threads: {}", options.threads, failure.what()));
  }
}

Loader::~Loader() {
  stop();
}

void Loader::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  submitted_.notify_all();
  for (std::thread& thread : threads_)
    thread.join();
  threads_.clear();
}

Loader::Ticket Loader::submit(std::vector<std::uint64_t> ids, std::optional<std::uint64_t> epoch) {
  const std::uint64_t size = dataset_->size();
  MUSTER_CHECK(std::all_of(ids.begin(), ids.end(), [size](std::uint64_t id) { return id < size; }),
               "a sample id beyond the data set");
  auto job = std::make_unique<Job>();
  Ticket ticket = 0;
  {
    const MutexLock lock(mutex_);
    if (!spare_.empty()) {
      job->batch = std::move(spare_.back());
      spare_.pop_back();
    }
    job->batch.ids = std::move(ids);
    job->epoch = epoch;
    ticket = next_ticket_++;
    if (!threads_.empty()) queue_.push_back(job.get());
    jobs_.emplace(ticket, std::move(job));
  }
  submitted_.notify_one();
  return ticket;
}

Batch Loader::take(Ticket ticket, Deadline deadline) {
  Job* job = nullptr;
  {
    const MutexLock lock(mutex_);
    const auto entry = jobs_.find(ticket);
    MUSTER_CHECK(entry != jobs_.end(), "a ticket that is spent, or of another loader");
    job = entry->second.get();
  }
  if (threads_.empty()) {
    const bool done = read(*job, [&] { return deadline.passed(); });
    const MutexLock lock(mutex_);
    job->done = done;
  }
  std::unique_ptr<Job> owned;
  {
    // Longer waits are cut into pieces, so that no clock's arithmetic overflows.
    constexpr std::chrono::nanoseconds kLongestWait = std::chrono::hours(1);
    const MutexLock lock(mutex_);
    while (!job->done) {
      if (deadline.passed()) {
        const std::vector<std::uint64_t>& ids = job->batch.ids;
        throw Error(ErrorKind::kTimeout,
                    fmt::format("a batch of {} samples, the first of them sample {}, was not read in time", ids.size(),
                                ids.empty() ? 0 : ids.front()));
      }
      finished_.wait_for(mutex_, std::min(deadline.remaining(), kLongestWait));
    }
    owned = std::move(jobs_.at(ticket));
    jobs_.erase(ticket);
  }
  if (owned->failure) {
    const std::exception_ptr failure = std::move(owned->failure);
    recycle(std::move(owned->batch));
    std::rethrow_exception(failure);
  }
  return std::move(owned->batch);
}

void Loader::recycle(Batch batch) {
  const MutexLock lock(mutex_);
  spare_.push_back(std::move(batch));
}

void Loader::run() {
  while (true) {
    Job* job = nullptr;
    {
      const MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_)
        submitted_.wait(mutex_);
      if (stopping_) return;
      job = queue_.front();
      queue_.pop_front();
    }
    if (!read(*job, [this] { return stopping_.load(std::memory_order_relaxed); })) return;
    {
      const MutexLock lock(mutex_);
      job->done = true;
    }
    finished_.notify_all();
  }
}

template <typename Stop>
bool Loader::read(Job& job, Stop stop) const {
  Batch& batch = job.batch;
  try {
    if (!job.prepared) {
      make_room(batch);
      dataset_->will_read(batch.ids);
      job.prepared = true;
    }
    for (; job.read < batch.size(); ++job.read) {
      if (stop()) return false;
      read_sample(batch, job.read, job.epoch);
    }
  } catch (...) {
    job.failure = translate_current(job.read < batch.size() ? batch.ids[job.read] : 0);
  }
  return true;
}

void Loader::make_room(Batch& batch) const {
  const SampleSpec& spec = dataset_->spec();
  const auto shaped = [&batch](const std::vector<std::int64_t>& shape) {
    std::vector<std::int64_t> extents(1, static_cast<std::int64_t>(batch.size()));
    extents.insert(extents.end(), shape.begin(), shape.end());
    return extents;
  };
  const auto times = [&batch](std::uint64_t elements) {
    std::size_t count = 0;
    if (__builtin_mul_overflow(batch.size(), elements, &count)) throw std::bad_alloc();
    return count;
  };
  const bool tokens = spec.input == InputKind::kTokens;
  const bool values = spec.target == TargetKind::kValues;
  batch.shape = shaped(spec.shape);
  batch.target_shape = shaped(spec.target_shape);
  batch.features.resize_discarding(tokens ? 0 : times(elements_));
  batch.tokens.resize(tokens ? times(elements_) : 0);
  batch.labels.resize(values ? 0 : times(target_elements_));
  batch.values.resize(values ? times(target_elements_) : 0);
  batch.probabilities.clear();
}

void Loader::read_sample(Batch& batch, std::size_t index, std::optional<std::uint64_t> epoch) const {
  const auto part = [index](auto all, std::uint64_t elements) {
    return all.empty() ? all : all.subspan(index * elements, elements);
  };
  const std::uint64_t id = batch.ids[index];
  const SampleRoom room{.features = part(batch.features.span(), elements_),
                        .tokens = part(std::span(batch.tokens), elements_),
                        .labels = part(std::span(batch.labels), target_elements_),
                        .values = part(std::span(batch.values), target_elements_)};
  if (epoch && !room.features.empty() && room.values.empty() && room.labels.size() == 1) {
    room.labels[0] = dataset_->read_in_epoch(id, *epoch, room.features);
  } else {
    dataset_->read_sample(id, room);
  }
  const std::int64_t classes = dataset_->spec().classes;
  for (const std::int64_t label : room.labels) {
    if (classes > 0 && (label < 0 || label >= classes)) {
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("has label {}; labels of this data set are 0 to {}", label, classes - 1),
                  fmt::format("sample {}", id));
    }
  }
}

}  // namespace muster::data
