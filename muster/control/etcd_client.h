// EtcdClient: calls to an etcd of several members. A member that is away, or has no leader, is passed over for the next
// one until the call is answered or its time is over; so whoever calls has to be content if a call is made twice.
//
// It speaks etcd's gRPC API (proto/etcd.proto) and not the HTTP gateway: that one is a translation which a server may
// have turned off, has bytes as base64 in JSON, and would need a client and TLS of another kind beside gRPC's, which is
// here anyway. For the sources of this folder: it brings gRPC's headers.
// Thread safety: every method from any thread. It must not be carried through a fork.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "etcd.grpc.pb.h"
#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/mutex.h"
#include "muster/control/etcd_options.h"

namespace muster::control {

// What an answer of a member means for the call. Pure.
enum class EtcdVerdict {
  kAnswered,      // by this status, whatever it says
  kAskAnother,    // whether it was done is not known
  kAuthenticate,  // the token of this side does not count any more; nothing was done
};
EtcdVerdict judge_etcd(const grpc::Status& status);
// REQUIRES: not OK. `where` is for people.
Error etcd_error(const grpc::Status& status, const std::string& where);

class EtcdClient {
 public:
  // Connects at the first call. Throws kInvalidInput for options that do not fit together, and for files as
  // trust_files.h.
  explicit EtcdClient(const EtcdOptions& options);

  struct Answer {
    grpc::Status status;  // kAnswered
    int attempts = 1;     // above 1: an earlier one may have been done as well
  };
  using Call = std::function<grpc::Status(grpc::ClientContext&, const std::shared_ptr<grpc::Channel>&)>;
  // Throws kTimeout when nobody answers before the deadline, kInvalidInput when user or password are refused.
  Answer call(const Call& call, const Deadline& deadline);

  // The usual calls; a status that is not OK is thrown by etcd_error.
  etcdserverpb::RangeResponse range(const etcdserverpb::RangeRequest& request, const Deadline& deadline);
  // Returns when a quorum of the members has answered. Throws as range().
  void hear_quorum(const Deadline& deadline);

  const std::string& where() const { return where_; }

 private:
  struct Member {
    std::string address;
    std::shared_ptr<grpc::Channel> channel;
  };
  std::shared_ptr<grpc::Channel> make_channel(const std::string& address) const;
  // The next member is asked from now on; this one gets a new connection, since gRPC's would not try again for a while.
  void pass_over(const std::shared_ptr<grpc::Channel>& channel);
  std::shared_ptr<grpc::Channel> present();
  // Empty: nobody has to show one. An answer that is not OK is `status`.
  std::string token(const std::shared_ptr<grpc::Channel>& channel, const Deadline& deadline, grpc::Status& status);
  void forget_token(const std::string& token);

  const EtcdOptions options_;
  const std::string where_;
  const std::shared_ptr<grpc::ChannelCredentials> credentials_;
  const std::string password_;
  Mutex mutex_;
  std::vector<Member> members_ MUSTER_GUARDED_BY(mutex_);
  std::size_t present_ MUSTER_GUARDED_BY(mutex_) = 0;
  std::string token_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster::control
