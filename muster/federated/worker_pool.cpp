// A socket pair for each worker, with whole messages. A worker ends when the other end is gone, and is killed with the
// process that started it.
#include "muster/federated/worker_pool.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/process.h"
#include "muster/base/process_memory.h"
#include "muster/base/process_signs.h"

namespace muster::federated {
namespace {

template <typename Message>
bool send_message(int line, const Message& message) {
  ssize_t sent = 0;
  do {
    sent = ::send(line, &message, sizeof message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof message);
}

template <typename Message>
bool receive_message(int line, Message& message, int flags) {
  ssize_t got = 0;
  do {
    got = ::recv(line, &message, sizeof message, flags);
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof message);
}

Answer failure(const Order& order, const Error& error) {
  Answer answer{.piece = order.piece, .failed = 1, .error = static_cast<std::uint32_t>(error.kind())};
  put_text(answer.text, error.message());
  put_text(answer.where, error.where());
  put_text(answer.remedy, error.remedy());
  return answer;
}

Answer failure(const Order& order, const std::exception& error) {
  return failure(order, Error(ErrorKind::kCompute, error.what()));
}

Answer carry_out(const WorkerPool::Work& work, const Order& order) {
  try {
    return work(order);
  } catch (const Error& error) {
    return failure(order, error);
  } catch (const std::exception& error) {
    return failure(order, error);
  }
}

// A worker's life. What cannot even be made is the answer to every order.
int serve(int line, const std::function<WorkerPool::Work()>& make) {
  WorkerPool::Work work;
  std::optional<Answer> unmade;
  Order order;
  try {
    work = make();
  } catch (const Error& error) {
    unmade = failure(order, error);
  } catch (const std::exception& error) {
    unmade = failure(order, error);
  }
  while (receive_message(line, order, 0)) {
    if (unmade) unmade->piece = order.piece;
    if (!send_message(line, unmade ? *unmade : carry_out(work, order))) return 0;
  }
  return 0;
}

}  // namespace

void put_text(std::span<char> room, std::string_view text) {
  const std::size_t size = std::min(text.size(), room.size() - 1);
  std::copy_n(text.begin(), size, room.begin());
  room[size] = 0;
}

WorkerPool::WorkerPool(const PoolOptions& options, std::function<Work()> make, const Clock& clock)
    : options_(options), make_(std::move(make)), clock_(clock) {
}

WorkerPool::~WorkerPool() = default;

WorkerPool::Worker WorkerPool::start() const {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw_system_error("make a line to", "a worker");
  Worker worker;
  worker.line = FileDescriptor(ends[0]);
  const FileDescriptor theirs(ends[1]);
  // What a copy has of the other workers' lines would keep these open after this process.
  std::vector<int> close_in_copy{ends[0]};
  for (const Worker& other : workers_)
    close_in_copy.push_back(other.line.get());
  launch::Command command;
  command.own_group = true;
  command.copy = [&]() -> int {
    for (const int line : close_in_copy)
      ::close(line);
    const int code = serve(theirs.get(), make_);
    std::fflush(nullptr);
    ::_exit(code);  // what this process has set up to be done at its end is not the copy's
  };
  worker.process = std::make_unique<launch::ChildProcess>(command);
  worker.advanced = clock_.now();
  return worker;
}

void WorkerPool::give(Worker& worker, const Order& order, std::size_t index) {
  worker.order = index;
  worker.advanced = clock_.now();
  send_message(worker.line.get(), order);  // if it is gone that shows when its answer is waited for
}

void WorkerPool::give_up(Worker& worker, std::deque<std::size_t>& waiting, std::vector<int>& deaths) {
  worker.process->kill(SIGKILL);
  const std::size_t index = *worker.order;
  waiting.push_front(index);
  ++replaced_;
  if (++deaths[index] >= options_.most_deaths)
    throw Error(ErrorKind::kCompute,
                fmt::format("a piece of the work has ended {} workers{}", deaths[index],
                            worker.process->poll() ? " (" + to_string(*worker.process->poll()) + ")" : ""),
                "simulation", "If that was for lack of memory, use fewer workers or a smaller model.");
  worker.process.reset();
  worker.line = FileDescriptor();
}

std::uint64_t WorkerPool::peak_memory() const {
  std::uint64_t bytes = 0;
  for (const Worker& worker : workers_)
    bytes += worker.process ? peak_bytes(worker.process->pid()) : 0;
  return bytes;
}

bool WorkerPool::hangs(Worker& worker) const {
  const ProcessSigns signs = signs_of(process_of(worker.process->pid()));
  // A process that waits for a processor is starved, not hung.
  if (signs.processor > worker.processor || (signs.works && signs.state == ProcessState::kRunning)) {
    worker.processor = signs.processor;
    worker.advanced = clock_.now();
  }
  return clock_.now() - worker.advanced > options_.hang;
}

void WorkerPool::wait_for_news() const {
  constexpr int kLongestMs = 200;
  std::vector<pollfd> lines;
  for (const Worker& worker : workers_) {
    if (worker.order) lines.push_back({worker.line.get(), POLLIN, 0});
  }
  ::poll(lines.data(), lines.size(), kLongestMs);
}

void WorkerPool::run(std::span<const Order> orders, const std::function<void(const Answer&)>& answered,
                     const std::function<bool()>& keep_on) {
  std::deque<std::size_t> waiting;
  for (std::size_t i = 0; i < orders.size(); ++i)
    waiting.push_back(i);
  std::vector<int> deaths(orders.size());
  workers_.resize(static_cast<std::size_t>(options_.workers));
  std::size_t open = orders.size();
  const auto break_off = [&] {
    for (Worker& worker : workers_) {
      if (worker.order) worker = Worker{};  // what it would answer is of no use to the next call
    }
  };
  try {
    while (open > 0) {
      for (Worker& worker : workers_) {
        if (worker.order || waiting.empty()) continue;
        if (!worker.process) worker = start();
        give(worker, orders[waiting.front()], waiting.front());
        waiting.pop_front();
      }
      wait_for_news();
      if (!keep_on()) throw Error(ErrorKind::kInterrupted, "stopped");
      for (Worker& worker : workers_) {
        if (!worker.order) continue;
        Answer answer;
        if (receive_message(worker.line.get(), answer, MSG_DONTWAIT)) {
          worker.order.reset();
          if (answer.failed != 0)
            throw Error(static_cast<ErrorKind>(answer.error), answer.text.data(),
                        answer.where[0] != 0 ? answer.where.data() : "a worker", answer.remedy.data());
          --open;
          answered(answer);
        } else if (worker.process->poll() || hangs(worker)) {
          give_up(worker, waiting, deaths);
          worker = Worker{};
        }
      }
    }
  } catch (...) {
    break_off();
    throw;
  }
}

}  // namespace muster::federated
