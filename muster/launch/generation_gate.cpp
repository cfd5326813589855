// The gate that is open: a host alone asks nobody, and what its supervisor wants
// happens at the same look.
#include "muster/launch/generation_gate.h"

namespace muster::launch {
namespace {

class OpenGate final : public GenerationGate {
 public:
  // Without members the old generation stays until somebody is ready.
  std::optional<std::uint64_t> admit(const MembersWanted& wanted) override {
    return wanted.changed && wanted.wanted != 0 ? std::optional(wanted.wanted) : std::nullopt;
  }
  bool prepare(std::uint64_t, comm::Store&) override { return true; }
  void begun() override {}
  void adopted(std::uint64_t, comm::Store&) override {}
  std::map<std::string, std::string> environment() const override { return {}; }
};

}  // namespace

std::shared_ptr<GenerationGate> make_open_gate() {
  return std::make_shared<OpenGate>();
}

}  // namespace muster::launch
