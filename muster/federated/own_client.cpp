// The user's function as a LocalTraining whose sizes are the server's, so that the client is the one that the program
// has: what it does about lost servers, chunks and late updates stands in one place.
#include "muster/federated/own_client.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/control/cluster_server.h"
#include "muster/control/trust_files.h"
#include "muster/federated/enrolments.h"
#include "muster/federated/federated_stub.h"

namespace muster::federated {
namespace {

class OwnTraining final : public LocalTraining {
 public:
  OwnTraining(const Enrolled& enrolled, const std::function<double(OwnTask&)>& train)
      : enrolled_(enrolled), train_(train), model_(enrolled.model_floats) {}

  std::size_t size() const override { return enrolled_.model_floats; }
  std::size_t parameters() const override { return enrolled_.parameters; }
  std::uint64_t batch() const override { return 1; }
  std::vector<TensorPlace> tensors() const override { return enrolled_.tensors; }
  LocalResult train(const LocalTask& task, std::span<const float> model, std::span<float> update) override {
    if (!task.correction.empty())
      throw Error(ErrorKind::kInvalidInput, "the server's algorithm is scaffold, which clients of one's own have not",
                  {}, "Use fedavg, fedprox or fedbuff.");
    std::ranges::copy(model, model_.begin());
    OwnTask own{.round = task.round,
                .epochs = task.epochs,
                .rate = task.rate,
                .prox = task.prox,
                .tensors = enrolled_.tensors,
                .parameters = enrolled_.parameters,
                .model = model_};
    const double loss = train_(own);
    for (std::size_t i = 0; i < update.size(); ++i)
      update[i] = model_[i] - model[i];
    return {.steps = 1, .lr = task.rate, .loss = loss};
  }
  // The server has the first values, and evaluates.
  void first_values(std::span<float>) override { MUSTER_CHECK(false, "a client has no first values"); }
  Figures evaluate(std::span<const std::uint64_t>, std::span<const float>) override { return {}; }
  std::size_t evaluation_pieces() const override { return 0; }
  std::size_t figures_of_piece() const override { return 0; }
  void measure(std::span<const float>, std::size_t, std::span<double>) override {}
  Figures judge(std::span<const double>) override { return {}; }
  void save(std::span<const float>, const std::filesystem::path&) override {
    MUSTER_CHECK(false, "a client saves nothing");
  }

 private:
  const Enrolled& enrolled_;
  const std::function<double(OwnTask&)>& train_;
  std::vector<float> model_;
};

}  // namespace

ClientSummary join(const JoinOptions& options, const std::function<double(OwnTask&)>& train) {
  if (options.certs.empty() && !control::is_loopback(options.address))
    throw Error(ErrorKind::kInvalidInput, "nothing would tell who answers there, and others could read what is sent",
                options.address, "Give a folder of certificates (`muster certs add CERTS client NAME`).");
  control::ClusterTarget target;
  target.address = options.address;
  target.trust.certs = options.certs;
  const std::unique_ptr<FederatedCalls> server = make_federated_stub(target);
  ClientOptions client_options;
  client_options.name = options.name;
  client_options.patience = options.patience;
  client_options.tell = options.tell;
  client_options.require_secure = options.secure;
  if (!options.certs.empty()) {
    const control::CertificateFiles files = control::read_certificate_files(options.certs);
    client_options.identity = {files.authorities, files.certificate, files.key};
  }
  const Enrolled enrolled = FederatedClient(*server, client_options).enrol({.software = "own client"}, options.keep_on);
  if (!is_client_name(enrolled.run))
    throw Error(ErrorKind::kInvalidInput, "the server's run has no name of a run", options.address, "Do not trust it.");
  client_options.states = options.state / enrolled.run / options.name;
  OwnTraining training(enrolled, train);
  return FederatedClient(*server, client_options)
      .run(enrolled, training, std::vector<std::uint64_t>(options.samples), options.keep_on);
}

}  // namespace muster::federated
