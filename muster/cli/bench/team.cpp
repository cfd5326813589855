// Two pipes to the first process of a team, and the memory of all of them from /proc. A team that dies is an error and
// not a figure; what it had to say it has said on standard error.
#include "muster/cli/bench/team.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/process_memory.h"

namespace muster::cli {
namespace {

constexpr std::chrono::seconds kTurnTimeout{600};
constexpr std::chrono::seconds kEndTimeout{10};

std::pair<int, int> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_system_error("make a pipe for", "the benchmark");
  return {ends[0], ends[1]};
}

}  // namespace

Json to_json(const StepTimes& times) {
  return {{"total", times.total}, {"compute", times.compute}, {"update", times.update},
          {"wait", times.wait},   {"load", times.load},       {"exchange", times.exchange}};
}

Team::Team(std::string name, std::int64_t workers) : name_(std::move(name)), workers_(workers) {
  const auto [commands_read, commands_write] = make_pipe();
  child_input_ = FileDescriptor(commands_read);
  commands_ = FileDescriptor(commands_write);
  const auto [answers_read, answers_write] = make_pipe();
  answers_ = FileDescriptor(answers_read);
  child_output_ = FileDescriptor(answers_write);
}

Team::Team(std::string name, std::int64_t workers, TeamChannel channel)
    : name_(std::move(name)),
      workers_(workers),
      commands_(std::move(channel.commands)),
      answers_(std::move(channel.answers)),
      look_(std::move(channel.look)) {
}

Team::~Team() {
  commands_ = FileDescriptor();
  try {
    launch::wait_for_all(processes_, Deadline::after(kEndTimeout));
  } catch (const Error&) {
  }
}

void Team::start(launch::Command command, std::int64_t rank) {
  if (rank == 0) {
    command.input = child_input_.get();
    command.output = child_output_.get();
  }
  processes_.emplace_back(command);
  if (rank == 0) {
    child_input_ = FileDescriptor();
    child_output_ = FileDescriptor();
  }
}

Json Team::ask() {
  if (::write(commands_.get(), "turn\n", 5) != 5) throw_lost();
  return Json::parse(read_line());
}

void Team::take_turn() {
  told_ = ask();
  const auto append = [&](const char* key, std::vector<double>& values) {
    for (const Json& value : told_.value(key, Json::array()))
      values.push_back(value.get<double>());
  };
  append("total", times_.total);
  append("compute", times_.compute);
  append("update", times_.update);
  append("wait", times_.wait);
  append("load", times_.load);
  append("exchange", times_.exchange);
  state_bytes_ = told_.value("state_bytes", 0.0);
  of_speeds_.push_back(told_.value("of_speeds", 0.0));
  slow_share_.push_back(told_.value("slow_share", 0.0));
}

std::int64_t Team::memory_kb() const {
  std::int64_t sum = 0;
  for (const launch::ChildProcess& process : processes_)
    sum += static_cast<std::int64_t>(proportional_bytes(process.pid()) / 1024);
  return sum;
}

void Team::throw_lost() const {
  throw Error(ErrorKind::kPeerLost, fmt::format("the {} processes of {} ended", workers_, name_), {},
              "Their own message is above.");
}

std::string Team::read_line() {
  const Deadline deadline = Deadline::after(kTurnTimeout);
  while (buffer_.find('\n') == std::string::npos) {
    pollfd waiting{answers_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, 100) > 0) {
      std::array<char, 4096> bytes;
      const ssize_t count = ::read(answers_.get(), bytes.data(), bytes.size());
      if (count <= 0) throw_lost();
      buffer_.append(bytes.data(), static_cast<std::size_t>(count));
    }
    look_();
    if (deadline.passed()) throw Error(ErrorKind::kTimeout, fmt::format("{} did not answer", name_));
  }
  const std::size_t end = buffer_.find('\n');
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return line;
}

}  // namespace muster::cli
