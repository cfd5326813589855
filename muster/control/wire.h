// Between our types and those of proto/control.proto. For the sources of this folder only: it brings gRPC's headers.
#pragma once

#include <grpcpp/support/status.h>

#include "control.pb.h"
#include "muster/base/error.h"
#include "muster/control/job_record.h"
#include "muster/control/job_status.h"

namespace muster::control {

constexpr const char* kTokenKey = "muster-token";
constexpr int kMostRequestBytes = 16 * 1024;
constexpr int kMostReplyBytes = 4 * 1024 * 1024;

void to_wire(const JobStatus& status, v1::StatusReply& reply);
JobStatus from_wire(const v1::StatusReply& reply);

void to_wire(const WantedState& wanted, v1::WantedReply& reply);
WantedState from_wire(const v1::WantedReply& reply);

Scaling scaling_of(const v1::ScaleRequest& request);
void to_wire(const std::string& request, const Scaling& scaling, v1::ScaleRequest& message);

void to_wire(const Change& change, v1::SetReply& reply);
Change from_wire(const v1::SetReply& reply, const std::string& assignment);

// An Error that was thrown on the other side arrives as it was.
grpc::Status to_status(const Error& error);
// REQUIRES: not OK. A failure of the call itself becomes kPeerLost (not reachable), kTimeout, kResource or kIo.
Error from_status(const grpc::Status& status, const std::string& where);

}  // namespace muster::control
