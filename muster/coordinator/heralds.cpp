// A thread for each address. Nobody is expected to listen there; whoever does hears of the new life by the call itself,
// and refuses it.
#include "muster/coordinator/heralds.h"

#include <chrono>
#include <utility>

#include "muster/base/error.h"

namespace muster::coordinator {
namespace {

constexpr std::chrono::milliseconds kTellingPause{300};

}  // namespace

Heralds::Heralds(const std::vector<control::ClusterTarget>& before, std::string life) : life_(std::move(life)) {
  for (const control::ClusterTarget& target : before)
    before_.push_back(std::make_unique<control::ClusterClient>(target));
  for (const auto& one : before_)
    threads_.emplace_back([this, client = one.get()] { tell(*client); });
}

Heralds::~Heralds() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_)
    thread.join();
}

void Heralds::tell(control::ClusterClient& one) {
  for (;;) {
    try {
      one.tell_of(life_);
    } catch (const Error&) {
      // Nobody is there.
    }
    const MutexLock lock(mutex_);
    if (!ends_) changed_.wait_for(mutex_, kTellingPause);
    if (ends_) return;
  }
}

}  // namespace muster::coordinator
