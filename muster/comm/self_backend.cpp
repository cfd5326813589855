#include "muster/comm/self_backend.h"

#include <cstring>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/comm/mailbox.h"

namespace muster::comm {
namespace {

void copy(const Call& call, const void* input, void* output) {
  if (input != output && call.count > 0) std::memmove(output, input, call.count * size_of(call.type));
}

class FinishedTransfer final : public Transfer {
 public:
  bool test() override { return true; }
  void wait(const Deadline&) override {}
};

// A receive of this rank's own message.
class OwnReceive final : public Transfer {
 public:
  OwnReceive(std::shared_ptr<Mailbox> mailbox, std::uint32_t tag, View target)
      : mailbox_(std::move(mailbox)), tag_(tag), target_(target) {}

  bool test() override {
    if (done_) return true;
    const std::optional<Message> message = mailbox_->take(0, tag_);
    if (!message) return false;
    deliver(*message, 0, tag_, target_);
    return done_ = true;
  }
  void wait(const Deadline&) override {
    // Nobody else could send it while this rank waits.
    if (!test())
      throw Error(ErrorKind::kTimeout, fmt::format("receive: this rank has sent itself nothing with tag {}", tag_), {},
                  "Start the send before waiting for it.");
  }

 private:
  std::shared_ptr<Mailbox> mailbox_;
  std::uint32_t tag_;
  View target_;
  bool done_ = false;
};

class SelfBackend final : public Backend {
 public:
  std::string_view name() const override { return "self"; }
  int rank() const override { return 0; }
  int size() const override { return 1; }

  void all_reduce(const Call& call, const void* in, void* out, const Deadline&) override { copy(call, in, out); }
  void reduce_scatter(const Call& call, const void* in, void* out, const Deadline&) override { copy(call, in, out); }
  void all_gather(const Call& call, const void* in, void* out, const Deadline&) override { copy(call, in, out); }
  void broadcast(const Call&, void*, const Deadline&) override {}
  void all_to_all(const Call& call, const void* in, void* out, const Deadline&) override { copy(call, in, out); }
  void gather(const Call& call, const void* in, void* out, const Deadline&) override { copy(call, in, out); }
  void scatter(const Call& call, const void* in, void* out, const Deadline&) override { copy(call, in, out); }
  void barrier(const Call&, const Deadline&) override {}

  std::unique_ptr<Transfer> send(int, std::uint32_t tag, ConstView data) override {
    const std::span<const std::byte> bytes = data.bytes();
    mailbox_->put(0, tag, {data.type, {bytes.begin(), bytes.end()}});
    return std::make_unique<FinishedTransfer>();
  }
  std::unique_ptr<Transfer> receive(int, std::uint32_t tag, View data) override {
    return std::make_unique<OwnReceive>(mailbox_, tag, data);
  }
  std::unique_ptr<Backend> split(const std::vector<int>&, const std::string&, const Deadline&) override {
    return make_self_backend();
  }
  void abort(int, const std::string&) override {}

 private:
  std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
};

}  // namespace

std::unique_ptr<Backend> make_self_backend() {
  return std::make_unique<SelfBackend>();
}

}  // namespace muster::comm
