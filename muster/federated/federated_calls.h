// What clients ask of the server of a federated run: proto/federated.proto as C++, without gRPC. The server answers
// (round_server.h), the wire passes on (federated_stub.h, federated_listener.h), and tests may leave the wire out.
//
// `name` is who calls; the listener takes it out of the certificate. Calls throw Error: kPeerLost and kTimeout are to
// be tried again. Thread safety: every method from any thread. No torch here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/federated/local_training.h"
#include "muster/federated/secure/secure_messages.h"

namespace muster::federated {

struct EnrolWish {
  std::optional<std::uint64_t> number{};
  std::string software{};
  std::uint64_t submodel = 0;  // of federated.submodels, from 1; 0: the whole model
};

struct Enrolled {
  std::uint64_t number = 0;
  std::string run{};
  std::string job{};
  std::string data_form{};
  std::vector<TensorPlace> tensors{};
  std::uint64_t model_floats = 0;
  std::uint64_t parameters = 0;
  std::uint64_t chunk_bytes = 0;
  double silence_seconds = 0;
};

// Secure aggregation: what the words of a masked update mean.
struct SecureTask {
  std::uint64_t threshold = 0;
  std::uint64_t most_clients = 0;
  double range = 0;
  std::uint64_t most_samples = 0;  // 0: all weigh the same
  double noise = 0;                // deviation of what the client adds itself
};

struct RoundTask {
  std::uint64_t round = 0;
  std::int64_t local_epochs = 1;
  double rate = 1;
  double prox = 0;
  bool controls = false;
  std::uint64_t kept_before = 0;
  double clip = 0;
  std::string compress = "none";  // how its update is to be sent: update_codec.h
  std::optional<SecureTask> secure{};
};

struct TaskAnswer {
  enum class Kind { kTask, kWait, kFinished };
  Kind kind = Kind::kWait;
  RoundTask task{};
  std::string reason{};
  std::chrono::milliseconds again{0};
};

enum class ModelPart { kModel, kControl };

struct ModelChunk {
  std::vector<std::byte> data{};
  std::uint64_t total_bytes = 0;
};

// What a client has measured of the model it was given, on samples that it does not train on.
struct UpdateTest {
  std::uint64_t samples = 0;  // 0: nothing
  double loss = 0;
  double metric = 0;
  std::string metric_name{};  // empty: no metric
};

struct UpdateChunk {
  std::uint64_t round = 0;
  std::string digest{};
  std::uint64_t total_bytes = 0;
  std::uint64_t offset = 0;
  std::span<const std::byte> data{};
  std::uint64_t samples = 0;
  double loss = 0;  // not a number: the client says none
  UpdateTest test{};
};

struct UpdateAnswer {
  enum class Verdict { kPartial, kAccepted, kRefused, kLate };
  Verdict verdict = Verdict::kPartial;
  std::uint64_t received = 0;
  std::string reason{};
};

enum class SecureStep { kKeys, kShares, kSurvivors, kAgreement, kUnmask, kLeave };

struct SecureMessage {
  std::uint64_t round = 0;
  SecureStep step = SecureStep::kKeys;
  bool says = false;  // what belongs to the step is there; else it asks for the answer
  KeyAdvert keys{};
  std::vector<SealedShare> shares{};
  std::string signature{};
  std::vector<UnmaskShare> unmask{};
  std::string reason{};
};

struct SecureAnswer {
  enum class Verdict { kWait, kGoOn, kRefused, kOver };
  Verdict verdict = Verdict::kWait;
  std::string reason{};
  KeyList keys{};
  std::vector<SealedShare> shares{};
  std::vector<std::uint64_t> survivors{};
  std::vector<SignedAgreement> agreements{};
};

class FederatedCalls {
 public:
  virtual ~FederatedCalls() = default;
  virtual Enrolled enrol(const std::string& name, const EnrolWish& wish) = 0;
  // `samples`: that the client trains on. Who calls this is there, and may be asked.
  virtual TaskAnswer next_task(const std::string& name, std::uint64_t samples, std::chrono::milliseconds wait) = 0;
  // It takes part in nothing more, unless it asks for tasks again; `reason` is for people.
  virtual void leave(const std::string& name, const std::string& reason) = 0;
  virtual ModelChunk read_model(const std::string& name, std::uint64_t round, ModelPart part, std::uint64_t offset,
                                std::uint64_t bytes) = 0;
  virtual UpdateAnswer send_update(const std::string& name, const UpdateChunk& chunk) = 0;
  virtual SecureAnswer secure_step(const std::string& name, const SecureMessage& message,
                                   std::chrono::milliseconds wait) = 0;
};

}  // namespace muster::federated
