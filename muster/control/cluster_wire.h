// Between our types and those of proto/cluster.proto. For the sources of this folder only: it brings protobuf's
// headers.
#pragma once

#include "cluster.pb.h"
#include "muster/control/cluster_calls.h"

namespace muster::control {

// A value of the store has 64 KiB at most; a job file may be larger than that.
constexpr int kMostClusterRequestBytes = 128 * 1024;
constexpr int kMostClusterReplyBytes = 4 * 1024 * 1024;
constexpr const char* kClusterKey = "muster-cluster";

void to_wire(const HostCard& card, v1::JoinRequest& request);
HostCard from_wire(const v1::JoinRequest& request);

void to_wire(const Welcome& welcome, v1::JoinReply& reply);
Welcome from_wire(const v1::JoinReply& reply);

// `known` and the wait are the caller's.
void to_wire(const HostReport& report, v1::ReportRequest& request);
HostReport from_wire(const v1::ReportRequest& request);

void to_wire(const Orders& orders, v1::ReportReply& reply);
// Throws kDamaged for a generation that makes no sense.
Orders from_wire(const v1::ReportReply& reply);

// A wait as it was asked for, within what is allowed.
std::chrono::milliseconds bounded_wait(std::uint32_t asked);

}  // namespace muster::control
