// What all backends need and none should repeat: arguments are checked before anything moves, calls are numbered, the
// first failure is kept for every later call, and a group of one never reaches its backend.
#include "muster/comm/group.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/comm/self_backend.h"

namespace muster::comm {

struct Group::State {
  // Constant after construction.
  std::shared_ptr<Backend> backend;
  std::chrono::nanoseconds timeout;
  // Of the one thread that calls.
  std::uint64_t sequence = 0;
  std::optional<Error> failure;

  Call next_call(Operation operation, const ConstView& data, Reduction reduction = Reduction::kSum, int root = -1) {
    Call call;
    call.sequence = sequence + 1;
    call.count = data.count;
    call.operation = operation;
    call.type = data.type;
    call.reduction = reduction;
    call.root = root;
    return call;
  }

  // Runs `action`; what it throws is kept for every later call.
  template <typename Action>
  auto run(const Action& action) {
    if (failure) throw *failure;
    try {
      return action();
    } catch (const Error& error) {
      failure = error;
      throw;
    }
  }

  // A collective: numbered, so that ranks can tell that they make the same call.
  template <typename Action>
  void run_collective(const Action& action) {
    run([&] {
      ++sequence;
      action();
    });
  }
};

struct Pending::State {
  std::shared_ptr<Group::State> group;
  std::unique_ptr<Transfer> transfer;
};

namespace {

[[noreturn]] void throw_invalid(Operation operation, std::string message) {
  throw Error(ErrorKind::kInvalidInput, fmt::format("{}: {}", to_string(operation), message));
}

void require_rank(Operation operation, const char* what, int rank, int size) {
  if (rank < 0 || rank >= size)
    throw_invalid(operation, fmt::format("{} {} is not a rank of a group of {}", what, rank, size));
}

// The highest tags are for what backends tell each other.
void require_tag(Operation operation, std::uint32_t tag) {
  if (tag >= 0xffffff00U) throw_invalid(operation, fmt::format("tag {} is reserved; use one below 4294967040", tag));
}

void require_same_type(Operation operation, const ConstView& input, const ConstView& output) {
  if (input.type != output.type)
    throw_invalid(operation, fmt::format("input is {} and output is {}; both must be of one type",
                                         to_string(input.type), to_string(output.type)));
}

// `whole` must be `size` parts of part.count elements.
void require_parts(Operation operation, const char* name, const ConstView& whole, const ConstView& part, int size) {
  const auto parts = static_cast<std::size_t>(size);
  if (part.count > std::numeric_limits<std::size_t>::max() / 8 / parts || whole.count != part.count * parts)
    throw_invalid(operation, fmt::format("the {} has {} elements; {} ranks with {} each need {}", name, whole.count,
                                         size, part.count, part.count * parts));
}

}  // namespace

Pending::Pending() = default;
Pending::Pending(std::unique_ptr<State> state) : state_(std::move(state)) {
}
Pending::Pending(Pending&&) noexcept = default;
Pending& Pending::operator=(Pending&&) noexcept = default;
Pending::~Pending() = default;

bool Pending::test() {
  if (!state_) return true;
  const bool finished = state_->group->run([&] { return state_->transfer->test(); });
  if (finished) state_.reset();
  return finished;
}

void Pending::wait(std::optional<Deadline> deadline) {
  if (!state_) return;
  state_->group->run([&] { state_->transfer->wait(deadline ? *deadline : Deadline::after(state_->group->timeout)); });
  state_.reset();
}

Group::Group() : Group(make_self_backend()) {
}
Group::Group(std::shared_ptr<Backend> backend, std::chrono::nanoseconds timeout)
    : state_(std::make_shared<State>(State{std::move(backend), timeout, 0, std::nullopt})) {
}

int Group::rank() const {
  return state_->backend->rank();
}
int Group::size() const {
  return state_->backend->size();
}
std::string_view Group::backend() const {
  return state_->backend->name();
}

Deadline Group::deadline_or_default(const std::optional<Deadline>& deadline) const {
  return deadline ? *deadline : Deadline::after(state_->timeout);
}

void Group::all_reduce(View data, Reduction reduction, std::optional<Deadline> deadline) {
  all_reduce(data, data, reduction, deadline);
}

void Group::all_reduce(ConstView input, View output, Reduction reduction, std::optional<Deadline> deadline) {
  require_same_type(Operation::kAllReduce, input, output);
  if (input.count != output.count)
    throw_invalid(Operation::kAllReduce,
                  fmt::format("the input has {} elements and the output {}", input.count, output.count));
  const Call call = state_->next_call(Operation::kAllReduce, input, reduction);
  state_->run_collective(
      [&] { state_->backend->all_reduce(call, input.data, output.data, deadline_or_default(deadline)); });
}

void Group::reduce_scatter(ConstView input, View output, Reduction reduction, std::optional<Deadline> deadline) {
  require_same_type(Operation::kReduceScatter, input, output);
  require_parts(Operation::kReduceScatter, "input", input, output, size());
  const Call call = state_->next_call(Operation::kReduceScatter, output, reduction);
  state_->run_collective(
      [&] { state_->backend->reduce_scatter(call, input.data, output.data, deadline_or_default(deadline)); });
}

void Group::all_gather(ConstView input, View output, std::optional<Deadline> deadline) {
  require_same_type(Operation::kAllGather, input, output);
  require_parts(Operation::kAllGather, "output", output, input, size());
  const Call call = state_->next_call(Operation::kAllGather, input);
  state_->run_collective(
      [&] { state_->backend->all_gather(call, input.data, output.data, deadline_or_default(deadline)); });
}

void Group::broadcast(View data, int root, std::optional<Deadline> deadline) {
  require_rank(Operation::kBroadcast, "root", root, size());
  const Call call = state_->next_call(Operation::kBroadcast, data, Reduction::kSum, root);
  state_->run_collective([&] { state_->backend->broadcast(call, data.data, deadline_or_default(deadline)); });
}

void Group::all_to_all(ConstView input, View output, std::optional<Deadline> deadline) {
  require_same_type(Operation::kAllToAll, input, output);
  const auto parts = static_cast<std::size_t>(size());
  if (input.count != output.count || input.count % parts != 0)
    throw_invalid(Operation::kAllToAll,
                  fmt::format("input ({}) and output ({}) must be {} equal parts", input.count, output.count, parts));
  const Call call = state_->next_call(Operation::kAllToAll, {input.type, input.data, input.count / parts});
  state_->run_collective(
      [&] { state_->backend->all_to_all(call, input.data, output.data, deadline_or_default(deadline)); });
}

void Group::gather(ConstView input, View output, int root, std::optional<Deadline> deadline) {
  require_rank(Operation::kGather, "root", root, size());
  if (rank() == root) {
    require_same_type(Operation::kGather, input, output);
    require_parts(Operation::kGather, "output", output, input, size());
  }
  const Call call = state_->next_call(Operation::kGather, input, Reduction::kSum, root);
  void* const target = rank() == root ? output.data : nullptr;
  state_->run_collective([&] { state_->backend->gather(call, input.data, target, deadline_or_default(deadline)); });
}

void Group::scatter(ConstView input, View output, int root, std::optional<Deadline> deadline) {
  require_rank(Operation::kScatter, "root", root, size());
  if (rank() == root) {
    require_same_type(Operation::kScatter, input, output);
    require_parts(Operation::kScatter, "input", input, output, size());
  }
  const Call call = state_->next_call(Operation::kScatter, output, Reduction::kSum, root);
  const void* const source = rank() == root ? input.data : nullptr;
  state_->run_collective([&] { state_->backend->scatter(call, source, output.data, deadline_or_default(deadline)); });
}

void Group::barrier(std::optional<Deadline> deadline) {
  const Call call = state_->next_call(Operation::kBarrier, ConstView());
  state_->run_collective([&] { state_->backend->barrier(call, deadline_or_default(deadline)); });
}

void Group::send(ConstView data, int peer, std::uint32_t tag, std::optional<Deadline> deadline) {
  start_send(data, peer, tag).wait(deadline);
}

void Group::receive(View data, int peer, std::uint32_t tag, std::optional<Deadline> deadline) {
  start_receive(data, peer, tag).wait(deadline);
}

Pending Group::start_send(ConstView data, int peer, std::uint32_t tag) {
  require_rank(Operation::kSend, "peer", peer, size());
  require_tag(Operation::kSend, tag);
  auto transfer = state_->run([&] { return state_->backend->send(peer, tag, data); });
  return Pending(std::make_unique<Pending::State>(Pending::State{state_, std::move(transfer)}));
}

Pending Group::start_receive(View data, int peer, std::uint32_t tag) {
  require_rank(Operation::kReceive, "peer", peer, size());
  require_tag(Operation::kReceive, tag);
  auto transfer = state_->run([&] { return state_->backend->receive(peer, tag, data); });
  return Pending(std::make_unique<Pending::State>(Pending::State{state_, std::move(transfer)}));
}

SharedArray Group::share(std::size_t bytes, std::optional<Deadline> deadline) {
  const Call call = state_->next_call(Operation::kShare, {ElementType::kUint8, nullptr, bytes});
  std::shared_ptr<std::byte> memory;
  state_->run_collective([&] { memory = state_->backend->share(call, deadline_or_default(deadline)); });
  return {std::move(memory), bytes};
}

Group Group::split(int colour, int key, std::optional<Deadline> deadline) {
  const Deadline until = deadline_or_default(deadline);
  const std::array<std::int32_t, 2> mine{colour, key};
  std::vector<std::int32_t> all(2 * static_cast<std::size_t>(size()));
  Call call = state_->next_call(Operation::kSplit, std::span(mine));
  std::unique_ptr<Backend> backend;
  state_->run_collective([&] {
    state_->backend->all_gather(call, mine.data(), all.data(), until);
    std::vector<int> members;
    for (int rank = 0; rank < size(); ++rank) {
      if (all[2 * static_cast<std::size_t>(rank)] == colour) members.push_back(rank);
    }
    std::stable_sort(members.begin(), members.end(), [&](int left, int right) {
      return all[2 * static_cast<std::size_t>(left) + 1] < all[2 * static_cast<std::size_t>(right) + 1];
    });
    if (members.size() > 1)
      backend = state_->backend->split(members, fmt::format("split-{}-{}", call.sequence, colour), until);
  });
  return backend ? Group(std::move(backend), state_->timeout) : Group(make_self_backend(), state_->timeout);
}

void Group::abort(int rank, const std::string& reason) {
  require_rank(Operation::kNone, "the lost rank", rank, size());
  state_->backend->abort(rank, reason);
}

}  // namespace muster::comm
