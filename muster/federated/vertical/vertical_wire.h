// Between the types of vertical_calls.h and those of proto/vertical.proto. For the sources of this folder only: it
// brings protobuf's headers.
#pragma once

#include <string>
#include <vector>

#include "muster/federated/vertical/vertical_calls.h"
#include "vertical.pb.h"

namespace muster::federated {

namespace vertical_v1 = ::muster::vertical::v1;

inline constexpr int kMostVerticalBytes = static_cast<int>(kMostStepFloats * sizeof(float)) + (64 << 10);
inline constexpr std::chrono::milliseconds kLongestVerticalWait{20'000};

PartyWish from_wire(const vertical_v1::MeetRequest& request);
void to_wire(const PartyWish& wish, vertical_v1::MeetRequest& request);
PartyOrder from_wire(const vertical_v1::MeetReply& reply);
void to_wire(const PartyOrder& order, vertical_v1::MeetReply& reply);

Standing from_wire(vertical_v1::Standing standing);
vertical_v1::Standing to_wire(Standing standing);

// Throws Error{kInvalidInput} for bytes that are no floats.
std::vector<float> floats_in(const std::string& bytes);
std::string bytes_of_floats(std::span<const float> values);

}  // namespace muster::federated
