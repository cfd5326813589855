// torch asks one allocator for the memory of all tensors; it stands aside while a model is made, for the thread that
// makes it. Who that is and what it wants is in a slot that torch has for each thread.
//
// Large tensors are counted as they are made: the same code makes the same ones in the same order, so the number of a
// parameter's says which it is the next time, when its place is asked for before it has a name.
#include "muster/model/hollow.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/comm/region.h"

namespace muster::model {
namespace {

// Smaller ones cost less than a mapping each, and no model is large because of them.
constexpr std::size_t kLeastBytes = std::size_t{64} << 10;
// The pages that stand behind all hollow tensors: so few of them, and a mapping for each time they are repeated.
constexpr std::size_t kWindowBytes = std::size_t{4} << 20;

c10::DebugInfoKind slot() {
  return c10::DebugInfoKind::TEST_INFO;
}

c10::DataPtr data_at(void* address, void* context, c10::DeleterFnPtr release) {
  return {address, context, release, c10::Device(c10::DeviceType::CPU)};
}

[[noreturn]] void throw_no_room(std::size_t bytes) {
  throw Error(ErrorKind::kResource, fmt::format("there are no {} of addresses left for the model: {}", bytes,
                                                std::generic_category().message(errno)));
}

}  // namespace

// What becomes of the large tensors that a thread makes.
class HollowTensors::Route final : public c10::DebugInfoBase {
 public:
  Route() : window_(::memfd_create("muster-hollow", MFD_CLOEXEC)) {
    if (window_.get() < 0 || ::ftruncate(window_.get(), kWindowBytes) != 0) throw_no_room(kWindowBytes);
  }
  // Large tensors get these places, by their numbers, and others memory of their own.
  explicit Route(std::map<std::size_t, float*> places) : places_(std::move(places)) {}

  // Empty: from the usual allocator.
  std::optional<c10::DataPtr> allocate(std::size_t bytes) {
    if (bytes < kLeastBytes) return std::nullopt;
    const std::size_t number = count_++;
    if (places_) {
      const auto found = places_->find(number);
      if (found == places_->end()) return std::nullopt;
      return data_at(found->second, nullptr, [](void*) {});
    }
    return hollow(bytes, number);
  }

  std::size_t count() const { return count_; }
  // Of the hollow tensor at this address.
  std::optional<std::size_t> number_at(const void* address) const {
    const auto found = live_->find(address);
    return found == live_->end() ? std::nullopt : std::optional(found->second.number);
  }
  // From now on what is there reads as zeros, from one page that the kernel has for that, and cannot be written: the
  // window's pages would be counted as often as they are mapped.
  void settle() const {
    for (const auto& [address, made] : *live_) {
      if (::mmap(const_cast<void*>(address), made.bytes, PROT_READ,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        throw_no_room(made.bytes);
    }
  }
  // The addresses of hollow tensors that are there.
  std::set<const void*> addresses() const {
    std::set<const void*> all;
    for (const auto& [address, made] : *live_)
      all.insert(address);
    return all;
  }

 private:
  struct Made {
    std::size_t number = 0;
    std::size_t bytes = 0;
  };
  using Live = std::map<const void*, Made>;  // by their addresses
  struct Block {
    comm::Mapping mapping;
    std::weak_ptr<Live> live;
  };

  c10::DataPtr hollow(std::size_t bytes, std::size_t number) const {
    void* const reserved = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) throw_no_room(bytes);
    auto block = std::make_unique<Block>(Block{comm::Mapping(reserved, bytes), live_});
    for (std::size_t at = 0; at < bytes; at += kWindowBytes) {
      void* const part = static_cast<std::byte*>(reserved) + at;
      if (::mmap(part, std::min(kWindowBytes, bytes - at), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                 window_.get(), 0) == MAP_FAILED)
        throw_no_room(bytes);
    }
    live_->emplace(reserved, Made{number, bytes});
    report(reserved, static_cast<std::int64_t>(bytes));
    return data_at(reserved, block.release(), &Route::release);
  }

  static void release(void* context) {
    const std::unique_ptr<Block> block(static_cast<Block*>(context));
    if (const auto live = block->live.lock()) live->erase(block->mapping.base());
    report(block->mapping.base(), -static_cast<std::int64_t>(block->mapping.size()));
  }

  // As the usual allocator does: those who measure a model want to know what it would take.
  static void report(void* address, std::int64_t bytes) {
    if (c10::memoryProfilingEnabled())
      c10::reportMemoryUsageToProfiler(address, bytes, 0, 0, c10::Device(c10::DeviceType::CPU));
  }

  const std::optional<std::map<std::size_t, float*>> places_{};
  const FileDescriptor window_{};
  const std::shared_ptr<Live> live_ = std::make_shared<Live>();
  std::size_t count_ = 0;
};

// torch's allocator from the first hollow tensor on: for threads that make none the one that was there before.
class HollowTensors::StandIn final : public c10::Allocator {
 public:
  // Tensors remember who gave them their memory, so it stays until the program ends.
  static void install() { static StandIn allocator; }

  // Releases of torch differ in whether allocate() is const, and newer ones ask for copy_data(): whichever there is is
  // overridden.
  c10::DataPtr allocate(std::size_t bytes) const { return find(bytes); }  // NOLINT(modernize-use-override)
  c10::DataPtr allocate(std::size_t bytes) { return find(bytes); }        // NOLINT(modernize-use-override)
  void copy_data(void* to, const void* from, std::size_t bytes) const {   // NOLINT(modernize-use-override)
    std::copy_n(static_cast<const std::byte*>(from), bytes, static_cast<std::byte*>(to));
  }
  c10::DeleterFnPtr raw_deleter() const { return usual_->raw_deleter(); }  // NOLINT(modernize-use-override)

 private:
  StandIn() : usual_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this); }
  c10::DataPtr find(std::size_t bytes) const {
    if (auto* const route = static_cast<Route*>(c10::ThreadLocalDebugInfo::get(slot()))) {
      if (std::optional<c10::DataPtr> found = route->allocate(bytes)) return std::move(*found);
    }
    return usual_->allocate(bytes);
  }
  c10::Allocator* const usual_;
};

HollowTensors::HollowTensors(std::shared_ptr<Route> route) : route_(std::move(route)), guard_(slot(), route_) {
  StandIn::install();
}

HollowTensors::HollowTensors() : HollowTensors(std::make_shared<Route>()) {
}

HollowModel::HollowModel(Make make) : make_(std::move(make)) {
  const auto route = std::make_shared<HollowTensors::Route>();
  {
    const HollowTensors hollow(route);
    net_ = make_();
  }
  route->settle();
  count_ = route->count();
  std::set<const void*> unknown = route->addresses();
  for (const auto& item : net_->named_parameters()) {
    const torch::Tensor& parameter = item.value();
    const std::optional<std::size_t> number = route->number_at(parameter.storage().data());
    unknown.erase(parameter.storage().data());
    const bool alone = parameter.is_contiguous() && parameter.nbytes() == parameter.storage().nbytes();
    if (number && alone && parameter.scalar_type() == torch::kFloat32) made_.push_back({item.key(), *number});
  }
  for (const auto& item : net_->named_buffers()) {
    const torch::Tensor& buffer = item.value();
    if (!route->number_at(buffer.storage().data())) continue;
    unknown.erase(buffer.storage().data());
    torch::Tensor(buffer).set_data(torch::zeros_like(buffer));
  }
  if (!unknown.empty())
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the model has {} large tensors that are neither parameters nor buffers", unknown.size()),
                {}, "Register them, or train it without a mesh.");
}

std::shared_ptr<Net> HollowModel::make_at(const Place& place) const {
  std::map<std::size_t, float*> places;
  for (const Made& made : made_) {
    if (float* const at = place(made.name)) places.emplace(made.number, at);
  }
  const auto route = std::make_shared<HollowTensors::Route>(std::move(places));
  std::shared_ptr<Net> made;
  {
    const HollowTensors placed(route);
    made = make_();
  }
  MUSTER_CHECK(route->count() == count_, "a model is made alike each time");
  return made;
}

}  // namespace muster::model
