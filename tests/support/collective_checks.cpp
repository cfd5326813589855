// Each collective against a result computed here from all inputs, for all types, sizes around the buffers, and every
// root.
#include "support/collective_checks.h"

#include <algorithm>

namespace muster::testing {
namespace {

template <typename T>
class Checks {
 public:
  explicit Checks(comm::Group group) : group_(std::move(group)), rank_(group_.rank()), size_(group_.size()) {}

  void check(std::size_t count) {
    for (const auto reduction : {comm::Reduction::kSum, comm::Reduction::kMin, comm::Reduction::kMax,
                                 comm::Reduction::kProduct, comm::Reduction::kAverage}) {
      check_all_reduce(reduction, count);
      check_reduce_scatter(reduction, count);
    }
    check_all_gather(count);
    check_all_to_all(count);
    for (const int root : {0, size_ - 1}) {
      check_broadcast(root, count);
      check_gather(root, count);
      check_scatter(root, count);
    }
    check_ring(count);
    group_.barrier();
  }

 private:
  using Values = std::vector<T>;

  std::string name(const char* operation, std::size_t count, const std::string& detail = {}) const {
    return fmt::format("{} of {} {} {} on rank {} of {}, {}", operation, count,
                       comm::to_string(comm::element_type<T>()), detail, rank_, size_, group_.backend());
  }
  std::size_t ranks() const { return static_cast<std::size_t>(size_); }
  std::size_t me() const { return static_cast<std::size_t>(rank_); }

  Values reduced(comm::Reduction reduction, std::size_t first, std::size_t count) const {
    Values values(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = reduced_value<T>(reduction, size_, first + i);
    return values;
  }
  Values gathered(std::size_t count) const {
    Values all;
    for (int rank = 0; rank < size_; ++rank) {
      const Values part = values_of<T>(rank, 0, count);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  void check_all_reduce(comm::Reduction reduction, std::size_t count) {
    const std::string what = name("all_reduce", count, std::string(comm::to_string(reduction)));
    const Values expected = reduced(reduction, 0, count);
    const Values input = values_of<T>(rank_, 0, count);
    Values output(count);
    group_.all_reduce(std::span(input), std::span(output), reduction);
    expect_same_bits(output, expected, what);
    expect_same_bits(input, values_of<T>(rank_, 0, count), what + ", the input");
    Values data = input;
    group_.all_reduce(std::span(data), reduction);
    expect_same_bits(data, expected, what + ", in place");
  }

  void check_reduce_scatter(comm::Reduction reduction, std::size_t count) {
    const std::string what = name("reduce_scatter", count, std::string(comm::to_string(reduction)));
    const Values expected = reduced(reduction, me() * count, count);
    Values input = values_of<T>(rank_, 0, ranks() * count);
    Values output(count);
    group_.reduce_scatter(std::span(input), std::span(output), reduction);
    expect_same_bits(output, expected, what);
    const std::span<T> own = std::span(input).subspan(me() * count, count);
    group_.reduce_scatter(std::span(input), own, reduction);
    expect_same_bits(Values(own.begin(), own.end()), expected, what + ", in place");
  }

  void check_all_gather(std::size_t count) {
    const Values expected = gathered(count);
    const Values input = values_of<T>(rank_, 0, count);
    Values output(ranks() * count);
    group_.all_gather(std::span(input), std::span(output));
    expect_same_bits(output, expected, name("all_gather", count));
    Values data(ranks() * count);
    const std::span<T> own = std::span(data).subspan(me() * count, count);
    std::copy(input.begin(), input.end(), own.begin());
    group_.all_gather(own, std::span(data));
    expect_same_bits(data, expected, name("all_gather", count, "in place"));
  }

  void check_all_to_all(std::size_t count) {
    const Values input = values_of<T>(rank_, 0, ranks() * count);
    Values expected;
    for (int rank = 0; rank < size_; ++rank) {
      const Values part = values_of<T>(rank, me() * count, count);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    Values output(ranks() * count);
    group_.all_to_all(std::span(input), std::span(output));
    expect_same_bits(output, expected, name("all_to_all", count));
  }

  void check_broadcast(int root, std::size_t count) {
    Values data = values_of<T>(rank_, 0, count);
    group_.broadcast(std::span(data), root);
    expect_same_bits(data, values_of<T>(root, 0, count), name("broadcast", count, fmt::format("from {}", root)));
  }

  void check_gather(int root, std::size_t count) {
    const Values input = values_of<T>(rank_, 0, count);
    Values output(rank_ == root ? ranks() * count : 0);
    group_.gather(std::span(input), std::span(output), root);
    if (rank_ == root) expect_same_bits(output, gathered(count), name("gather", count, fmt::format("to {}", root)));
  }

  void check_scatter(int root, std::size_t count) {
    const Values input = rank_ == root ? values_of<T>(root, 0, ranks() * count) : Values();
    Values output(count);
    group_.scatter(std::span(input), std::span(output), root);
    expect_same_bits(output, values_of<T>(root, me() * count, count),
                     name("scatter", count, fmt::format("from {}", root)));
  }

  // Everyone sends to the next and receives from the one before, two tags taken in the other order than sent.
  void check_ring(std::size_t count) {
    const int next = (rank_ + 1) % size_;
    const int before = (rank_ + size_ - 1) % size_;
    const Values first = values_of<T>(rank_, 0, count);
    const Values second = values_of<T>(rank_, count, count);
    Values got_first(count);
    Values got_second(count);
    comm::Pending send_first = group_.start_send(std::span(first), next, 1);
    comm::Pending send_second = group_.start_send(std::span(second), next, 2);
    comm::Pending receive_second = group_.start_receive(std::span(got_second), before, 2);
    receive_second.wait();
    group_.receive(std::span(got_first), before, 1);
    send_first.wait();
    send_second.wait();
    expect_same_bits(got_first, values_of<T>(before, 0, count), name("send and receive", count, "tag 1"));
    expect_same_bits(got_second, values_of<T>(before, count, count), name("send and receive", count, "tag 2"));
  }

  comm::Group group_;
  int rank_;
  int size_;
};

}  // namespace

template <typename T>
void CollectiveChecks<T>::check(std::size_t count) {
  Checks<T>(group_).check(count);
}
template class CollectiveChecks<float>;
template class CollectiveChecks<double>;
template class CollectiveChecks<comm::Half>;
template class CollectiveChecks<comm::Bfloat16>;
template class CollectiveChecks<std::int32_t>;
template class CollectiveChecks<std::int64_t>;
template class CollectiveChecks<std::uint8_t>;

void check_collectives(const comm::Group& group, std::size_t large) {
  const auto check = [&]<typename T>(T, std::size_t longest) {
    CollectiveChecks<T> checks(group);
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{7}, 4096 / sizeof(T) + 1, longest})
      checks.check(count);
  };
  check(float{}, large);
  check(double{}, large / 4);
  check(comm::Half{}, large / 4);
  check(comm::Bfloat16{}, large / 4);
  check(std::int32_t{}, large / 4);
  check(std::int64_t{}, large / 4);
  check(std::uint8_t{}, large);
}

}  // namespace muster::testing
