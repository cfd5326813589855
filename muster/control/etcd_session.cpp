// A lease is prolonged far more often than it has to be, and when that fails again and again until it succeeds:
// only etcd knows whether it is gone.
#include "muster/control/etcd_session.h"

#include <algorithm>

#include "muster/base/error.h"

namespace muster::control {
namespace {

constexpr std::chrono::milliseconds kProlongAgain{200};
// At the latest: whoever leads hosts has to know soon that it is cut off (coordinator/job_service.h).
constexpr std::chrono::milliseconds kProlongAfter{400};
constexpr std::chrono::milliseconds kFarewellToEtcd{1000};

}  // namespace

EtcdSession::EtcdSession(EtcdClient& client, std::chrono::seconds length, const Clock& clock)
    : client_(client), length_(length), clock_(clock), thread_([this] { keep(); }) {
}

EtcdSession::~EtcdSession() {
  std::int64_t lease = 0;
  {
    const MutexLock lock(mutex_);
    ends_ = true;
    lease = lease_;
    changed_.notify_all();
  }
  thread_.join();
  if (lease == 0) return;
  try {
    revoke(lease);
  } catch (const Error&) {
    // It ends by itself.
  }
}

std::int64_t EtcdSession::lease(const Deadline& deadline) {
  {
    const MutexLock lock(mutex_);
    if (lease_ != 0) return lease_;
  }
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(length_.count());
  etcdserverpb::LeaseGrantResponse reply;
  Clock::Instant sent{};
  const EtcdClient::Answer answer = client_.call(
      [&](grpc::ClientContext& context, const std::shared_ptr<grpc::Channel>& channel) {
        sent = clock_.now();
        return etcdserverpb::Lease::NewStub(channel)->LeaseGrant(&context, request, &reply);
      },
      deadline);
  if (!answer.status.ok()) throw etcd_error(answer.status, client_.where());
  const MutexLock lock(mutex_);
  // Another thread may have been faster; the lease that nobody prolongs ends by itself.
  if (lease_ != 0) return lease_;
  lease_ = reply.id();
  until_ = sent + std::chrono::seconds(reply.ttl());
  changed_.notify_all();
  return lease_;
}

void EtcdSession::forget(std::int64_t lease) {
  const MutexLock lock(mutex_);
  if (lease_ != lease) return;
  lease_ = 0;
  until_ = {};
}

std::chrono::nanoseconds EtcdSession::left() const {
  const MutexLock lock(mutex_);
  if (lease_ == 0) return std::chrono::nanoseconds(0);
  return std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(until_ - clock_.now()));
}

void EtcdSession::keep() {
  const std::chrono::nanoseconds usual = std::min<std::chrono::nanoseconds>(length_ / 3, kProlongAfter);
  std::chrono::nanoseconds pause = usual;
  for (;;) {
    std::int64_t lease = 0;
    {
      const MutexLock lock(mutex_);
      if (!ends_) changed_.wait_for(mutex_, pause);
      if (ends_) return;
      lease = lease_;
    }
    pause = usual;
    if (lease != 0 && !prolong(lease)) pause = kProlongAgain;
  }
}

bool EtcdSession::prolong(std::int64_t lease) {
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseKeepAliveResponse reply;
  Clock::Instant sent{};
  const Deadline deadline = Deadline::after(length_ / 2, clock_);
  try {
    const EtcdClient::Answer answer = client_.call(
        [&](grpc::ClientContext& context, const std::shared_ptr<grpc::Channel>& channel) {
          sent = clock_.now();
          const auto stub = etcdserverpb::Lease::NewStub(channel);
          const auto stream = stub->LeaseKeepAlive(&context);
          const bool answered = stream->Write(request) && stream->Read(&reply);
          context.TryCancel();
          const grpc::Status status = stream->Finish();
          return answered ? grpc::Status::OK : status;
        },
        deadline);
    if (!answer.status.ok()) return false;
    // A leader that was cut off from the other members prolongs leases until it has found that out, a second or two.
    if (reply.ttl() > 0) client_.hear_quorum(deadline);
  } catch (const Error&) {
    return false;
  }
  if (reply.ttl() <= 0) {
    forget(lease);
    return true;
  }
  const MutexLock lock(mutex_);
  if (lease_ == lease) until_ = std::max(until_, sent + std::chrono::seconds(reply.ttl()));
  return true;
}

void EtcdSession::revoke(std::int64_t lease) {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseRevokeResponse reply;
  client_.call(
      [&](grpc::ClientContext& context, const std::shared_ptr<grpc::Channel>& channel) {
        return etcdserverpb::Lease::NewStub(channel)->LeaseRevoke(&context, request, &reply);
      },
      Deadline::after(kFarewellToEtcd, clock_));
}

}  // namespace muster::control
