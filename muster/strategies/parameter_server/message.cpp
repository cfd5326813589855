// Names of verbs and outcomes, for errors and events.
// The bytes need no code: a header travels as it lies in memory.
#include "muster/strategies/parameter_server/message.h"

#include "muster/base/error.h"

namespace muster::strategies {

std::string_view name_of(const Verb& verb) {
  return std::visit([](const auto& what) { return what.kName; }, verb);
}

std::optional<ChunkKind> kind_of(const Verb& verb) {
  return std::visit([](const auto& what) { return std::optional<ChunkKind>(what.kOf); }, verb);
}

template <typename Wanted>
const Wanted& details_of(const Reply& reply) {
  const Wanted* const details = std::get_if<Wanted>(&reply.details);
  if (details == nullptr)
    throw Error(ErrorKind::kDamaged, "a reply without what was asked for", "parameter server",
                "Run the same version of Muster in all processes of a job.");
  return *details;
}

template const ReadReply& details_of(const Reply& reply);
template const LeaseReply& details_of(const Reply& reply);
template const ReportReply& details_of(const Reply& reply);

}  // namespace muster::strategies
