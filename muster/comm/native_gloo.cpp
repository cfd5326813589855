// Gloo's own all-reduce, as a measure for ours in `muster bench collectives`. Training never uses it: it sums in an
// order of its own.
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <string>
#include <vector>

#include "muster/comm/native_collectives.h"

namespace muster::comm {
namespace {

class StoreAdapter final : public gloo::rendezvous::Store {
 public:
  StoreAdapter(std::shared_ptr<comm::Store> store, Deadline deadline) : store_(std::move(store)), deadline_(deadline) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_->set(to_key(key), std::string(data.begin(), data.end()));
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = store_->get(to_key(key), deadline_);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys)
      store_->get(to_key(key), deadline_);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override { wait(keys); }

 private:
  static std::string to_key(const std::string& key) { return "native-gloo/" + key; }

  std::shared_ptr<comm::Store> store_;
  Deadline deadline_;
};

// Gloo of 2025 wants a share in the store, before it only looked at it.
template <typename Context>
void connect_all(Context& context, const std::shared_ptr<gloo::rendezvous::Store>& store,
                 std::shared_ptr<gloo::transport::Device>& device) {
  if constexpr (requires { context.connectFullMesh(store, device); })
    context.connectFullMesh(store, device);
  else
    context.connectFullMesh(*store, device);
}

}  // namespace

struct NativeGloo::State {
  std::shared_ptr<gloo::rendezvous::Context> context;
};

NativeGloo::NativeGloo(int rank, int size, const std::shared_ptr<comm::Store>& store, const Deadline& deadline)
    : state_(std::make_unique<State>()) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attributes);
  state_->context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  connect_all(*state_->context, std::make_shared<StoreAdapter>(store, deadline), device);
}
NativeGloo::~NativeGloo() = default;

void NativeGloo::all_reduce(std::span<float> data) {
  gloo::AllreduceOptions options(state_->context);
  options.setOutput(data.data(), data.size());
  options.setReduceFunction([](void* out, const void* left, const void* right, std::size_t count) {
    gloo::sum<float>(out, left, right, count);
  });
  gloo::allreduce(options);
}

}  // namespace muster::comm
