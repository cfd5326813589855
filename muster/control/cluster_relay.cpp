// The service of a coordinator behind a local listener, with calls of which only those of the store are answered. A
// thread for each key that is waited for asks the coordinator; it ends when nobody has asked for the key for a while.
#include "muster/control/cluster_relay.h"

#include <list>
#include <map>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/mutex.h"
#include "muster/base/store_key.h"
#include "muster/control/cluster_service.h"
#include "muster/control/local_service.h"

namespace muster::control {
namespace {

constexpr std::size_t kMostQuestions = 64;
constexpr std::size_t kMostKeptBytes = std::size_t{16} * 1024 * 1024;
constexpr std::chrono::milliseconds kInterest{2000};     // for which a key is asked for after a worker has asked for it
constexpr std::chrono::milliseconds kUpstreamPause{50};  // after a call that failed

[[noreturn]] void refuse_call() {
  throw Error(ErrorKind::kUnsupported, "an agent's relay is for the store of its workers only");
}

// The store's calls for the workers of this host, whatever number they give.
class StoreCalls final : public ClusterCalls {
 public:
  StoreCalls(ClusterCalls& upstream, std::function<std::uint64_t()> host)
      : upstream_(upstream), host_(std::move(host)) {}
  ~StoreCalls() override {
    std::list<std::thread> last;
    {
      const MutexLock lock(mutex_);
      ends_ = true;
      changed_.notify_all();
      last.swap(finished_);
      for (auto& [key, question] : questions_)
        last.push_back(std::move(question.asker));
    }
    for (std::thread& asker : last)
      asker.join();
  }

  Welcome join(const HostCard&) override { refuse_call(); }
  Orders report(const HostReport&, std::uint64_t, std::chrono::milliseconds) override { refuse_call(); }
  void leave(std::uint64_t, int, const std::string&) override { refuse_call(); }

  void store_set(std::uint64_t, std::string_view key, std::string_view value) override {
    try {
      upstream_.store_set(host_(), key, value);
      const MutexLock lock(mutex_);
      remember_agreed(key, value);
    } catch (const Error& error) {
      throw as_workers_see_it(error);
    }
  }

  std::optional<std::string> store_get(std::uint64_t, std::string_view key, std::chrono::milliseconds wait) override {
    require_store_key(key);
    const Deadline deadline = Deadline::after(wait);
    const MutexLock lock(mutex_);
    for (;;) {
      if (const auto found = kept_.find(key); found != kept_.end()) return found->second;
      if (ends_) return std::nullopt;
      const std::optional<Error> failure = ask_for(std::string(key));
      if (failure) throw as_workers_see_it(*failure);
      if (deadline.passed()) return std::nullopt;
      changed_.wait_for(mutex_, deadline.remaining());
    }
  }

  AgreedValues agreed() const {
    const MutexLock lock(mutex_);
    return agreed_;
  }

 private:
  // A key that is not there yet, and who asks for it.
  struct Question {
    std::thread asker{};
    Clock::Instant until{};          // somebody wants to know it
    std::optional<Error> failure{};  // of the last call
  };

  // A host that was given up has lost the others: its agent joins again, and its workers go on in the next generation.
  // A coordinator that does not answer may come back.
  static Error as_workers_see_it(const Error& error) {
    const auto as = [&](ErrorKind kind) { return Error(kind, error.message(), error.where(), error.remedy()); };
    if (error.kind() == ErrorKind::kNotFound) return as(ErrorKind::kPeerLost);
    return error.kind() == ErrorKind::kPeerLost ? as(ErrorKind::kTimeout) : error;
  }

  // Gives what the last call has thrown, if it has.
  std::optional<Error> ask_for(const std::string& key) MUSTER_REQUIRES(mutex_) {
    for (std::thread& ended : finished_)
      ended.join();
    finished_.clear();
    if (!questions_.contains(key) && questions_.size() >= kMostQuestions) return std::nullopt;
    Question& question = questions_[key];
    question.until = system_clock().now() + kInterest;
    if (!question.asker.joinable()) question.asker = std::thread([this, key] { ask(key); });
    return std::exchange(question.failure, std::nullopt);
  }

  // On a thread of its own, until it is answered or nobody wants to know it any more.
  void ask(const std::string& key) {
    std::optional<std::string> value;
    std::optional<Error> failure;
    for (;;) {
      try {
        value = upstream_.store_get(host_(), key, kLongestWait);
      } catch (const Error& error) {
        failure = error;
      }
      const MutexLock lock(mutex_);
      Question& question = questions_.at(key);
      if (value) keep(key, *value);
      question.failure = std::exchange(failure, std::nullopt);
      changed_.notify_all();
      const bool pause = question.failure.has_value();
      if (value || ends_ || system_clock().now() > question.until) {
        if (ends_) return;  // whoever ends it has the thread
        finished_.push_back(std::move(question.asker));
        questions_.erase(key);
        return;
      }
      if (pause) changed_.wait_for(mutex_, kUpstreamPause);
    }
  }

  void remember_agreed(std::string_view key, std::string_view value) MUSTER_REQUIRES(mutex_) {
    if (key.starts_with(kAgreedPrefix)) agreed_.insert_or_assign(std::string(key), std::string(value));
  }

  void keep(const std::string& key, const std::string& value) MUSTER_REQUIRES(mutex_) {
    remember_agreed(key, value);
    // It can be asked for again.
    if (kept_bytes_ + key.size() + value.size() > kMostKeptBytes) {
      kept_.clear();
      kept_bytes_ = 0;
    }
    kept_bytes_ += key.size() + value.size();
    kept_[key] = value;
  }

  ClusterCalls& upstream_;
  const std::function<std::uint64_t()> host_;
  mutable Mutex mutex_;
  Condition changed_;
  bool ends_ MUSTER_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::string, std::less<>> kept_ MUSTER_GUARDED_BY(mutex_);
  std::size_t kept_bytes_ MUSTER_GUARDED_BY(mutex_) = 0;
  AgreedValues agreed_ MUSTER_GUARDED_BY(mutex_);
  std::map<std::string, Question, std::less<>> questions_ MUSTER_GUARDED_BY(mutex_);
  std::list<std::thread> finished_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace

struct ClusterRelay::Parts {
  Parts(ClusterCalls& upstream, std::function<std::uint64_t()> host, const std::filesystem::path& folder)
      : calls(upstream, std::move(host)), service(folder, "cluster", maker(), limit_cluster_server) {}
  Parts(ClusterCalls& upstream, std::function<std::uint64_t()> host, const std::string& address)
      : calls(upstream, std::move(host)), service(address, maker(), limit_cluster_server) {}

  LocalService::MakeService maker() {
    return [this](AuthorizeCall authorize) { return make_cluster_service(calls, std::move(authorize)); };
  }

  StoreCalls calls;
  LocalService service;  // ended before the calls
};

ClusterRelay::ClusterRelay(ClusterCalls& upstream, std::function<std::uint64_t()> host,
                           const std::filesystem::path& folder)
    : parts_(std::make_unique<Parts>(upstream, std::move(host), folder)) {
}

ClusterRelay::ClusterRelay(ClusterCalls& upstream, std::function<std::uint64_t()> host, const std::string& address)
    : parts_(std::make_unique<Parts>(upstream, std::move(host), address)) {
}

std::filesystem::path ClusterRelay::token_of(const std::string& address) {
  return token_file_of(address);
}

ClusterRelay::~ClusterRelay() = default;

AgreedValues ClusterRelay::agreed() const {
  return parts_->calls.agreed();
}

const std::string& ClusterRelay::address() const {
  return parts_->service.address();
}

}  // namespace muster::control
