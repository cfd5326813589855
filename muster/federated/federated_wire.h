// Between our types and those of proto/federated.proto. For the sources of this folder only: it brings protobuf's
// headers.
#pragma once

#include "federated.pb.h"
#include "muster/federated/federated_calls.h"
#include "muster/federated/offers.h"

namespace muster::federated {

constexpr std::uint64_t kMostChunkBytes = std::uint64_t{1} << 20;
constexpr int kMostMessageBytes = static_cast<int>(kMostChunkBytes) + (64 << 10);
constexpr std::chrono::milliseconds kLongestTaskWait{20'000};

// Metadata of a call: which of the server's models it is about.
constexpr const char* kModelKey = "muster-model";

Offer from_wire(const v1::OfferedModel& offered);
void to_wire(const Offer& offer, v1::OfferedModel& offered);

EnrolWish from_wire(const v1::EnrolRequest& request);
void to_wire(const std::string& name, const EnrolWish& wish, v1::EnrolRequest& request);
Enrolled from_wire(const v1::EnrolReply& reply);
void to_wire(const Enrolled& enrolled, v1::EnrolReply& reply);

TaskAnswer from_wire(const v1::NextTaskReply& reply);
void to_wire(const TaskAnswer& answer, v1::NextTaskReply& reply);

// The chunk's data is the request's: it must outlive it.
UpdateChunk from_wire(const v1::SendUpdateRequest& request);
void to_wire(const std::string& name, const UpdateChunk& chunk, v1::SendUpdateRequest& request);
UpdateAnswer from_wire(const v1::SendUpdateReply& reply);
void to_wire(const UpdateAnswer& answer, v1::SendUpdateReply& reply);

// Throws Error{kInvalidInput} for keys and shares that are of another size.
SecureMessage from_wire(const v1::SecureStepRequest& request);
void to_wire(const std::string& name, const SecureMessage& message, v1::SecureStepRequest& request);
SecureAnswer from_wire(const v1::SecureStepReply& reply);
void to_wire(const SecureAnswer& answer, v1::SecureStepReply& reply);

}  // namespace muster::federated
