// A thin face: a transfer is a buffer of the mesh (gloo_mesh.h), which alone knows connections and failures. Gloo
// cannot take a message back, so one that is dropped half-way fails the transport.
#include "muster/comm/gloo_transport.h"

#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/comm/gloo_mesh.h"

namespace muster::comm {
namespace {

constexpr std::uint64_t kFirstReservedSlot = std::uint64_t{1} << 63;

class GlooTransfer final : public Transfer {
 public:
  GlooTransfer(std::shared_ptr<GlooMesh> mesh, Direction direction, int peer, std::uint64_t slot, void* data,
               std::size_t bytes)
      : mesh_(std::move(mesh)), direction_(direction), peer_(peer) {
    buffer_ = mesh_->start(direction, peer, slot, data, bytes);
  }
  GlooTransfer(const GlooTransfer&) = delete;
  GlooTransfer& operator=(const GlooTransfer&) = delete;

  ~GlooTransfer() override {
    if (!buffer_) return;
    try {
      // It may have ended without anybody asking.
      if (!done_within(Deadline::after(std::chrono::milliseconds(1)))) {
        const int rank = mesh_->options().rank;
        mesh_->fail(rank, Error(ErrorKind::kPeerLost, fmt::format("rank {} gave up a message half-way", rank)));
      }
    } catch (const Error&) {
      // The transport has failed before: nothing is left to cancel.
    }
    if (buffer_) mesh_->forget(*buffer_);
  }

  bool test() override { return done_within(Deadline::after(std::chrono::nanoseconds(0))); }

  void wait(const Deadline& deadline) override {
    if (done_within(deadline)) return;
    throw mesh_->give_up(peer_, direction_);
  }

 private:
  bool done_within(const Deadline& deadline) {
    if (!buffer_) return true;
    if (!mesh_->wait(*buffer_, direction_, peer_, deadline)) return false;
    mesh_->forget(*buffer_);
    buffer_.reset();
    return true;
  }

  std::shared_ptr<GlooMesh> mesh_;
  Direction direction_;
  int peer_;
  std::unique_ptr<GlooBuffer> buffer_;  // none when finished
};

class GlooTransport final : public Transport {
 public:
  explicit GlooTransport(std::shared_ptr<GlooMesh> mesh) : mesh_(std::move(mesh)) {}
  GlooTransport(const GlooTransport&) = delete;
  GlooTransport& operator=(const GlooTransport&) = delete;
  ~GlooTransport() override { mesh_->leave(); }

  std::string_view name() const override { return "gloo"; }
  int rank() const override { return mesh_->options().rank; }
  int size() const override { return mesh_->options().size; }

  std::unique_ptr<Transfer> send(int peer, std::uint64_t slot, std::span<const std::byte> bytes) override {
    // Gloo has one type of buffer for both directions; it does not write to what it sends.
    return start(Direction::kSend, peer, slot, const_cast<std::byte*>(bytes.data()), bytes.size());
  }
  std::unique_ptr<Transfer> receive(int peer, std::uint64_t slot, std::span<std::byte> bytes) override {
    return start(Direction::kReceive, peer, slot, bytes.data(), bytes.size());
  }

  std::unique_ptr<Transport> split(const std::vector<int>& members, const std::string& name,
                                   const Deadline& deadline) override {
    GlooOptions options = mesh_->options();
    const auto own = std::find(members.begin(), members.end(), options.rank);
    MUSTER_CHECK(own != members.end(), "a split without this rank");
    options.rank = static_cast<int>(own - members.begin());
    options.size = static_cast<int>(members.size());
    options.name += "/" + name;
    options.deadline = deadline;
    return make_gloo_transport(options);
  }

  void abort(int rank, const std::string& reason) override {
    mesh_->fail(rank, Error(ErrorKind::kPeerLost, fmt::format("rank {} is lost: {}", rank, reason), {},
                            "Make a new group without it."));
  }

 private:
  std::unique_ptr<Transfer> start(Direction direction, int peer, std::uint64_t slot, std::byte* data,
                                  std::size_t bytes) {
    MUSTER_CHECK(peer >= 0 && peer < size() && peer != rank(), "a message to no peer");
    MUSTER_CHECK(slot < kFirstReservedSlot, "a slot that the transport uses itself");
    if (bytes == 0) return std::make_unique<FinishedTransfer>();
    return std::make_unique<GlooTransfer>(mesh_, direction, peer, slot, data, bytes);
  }

  std::shared_ptr<GlooMesh> mesh_;
};

}  // namespace

std::optional<MissingGloo> missing_gloo() {
  return std::nullopt;
}

std::unique_ptr<Transport> make_gloo_transport(const GlooOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    throw Error(ErrorKind::kInvalidInput, fmt::format("gloo: there is no rank {} of {}", options.rank, options.size));
  if (!options.store) throw Error(ErrorKind::kInvalidInput, "gloo: ranks cannot meet without a store");
  auto mesh = std::make_shared<GlooMesh>(options);
  mesh->connect();
  return std::make_unique<GlooTransport>(std::move(mesh));
}

}  // namespace muster::comm
