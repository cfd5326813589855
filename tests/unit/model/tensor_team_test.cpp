// Models that teams compute, against the same models of one process: outputs, gradients, statistics and losses. Members
// are threads, so models are made before they start, and draw no random numbers.
#include "muster/model/tensor_team.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/model/divisible.h"
#include "muster/model/make_model.h"
#include "muster/model/net.h"
#include "support/groups.h"

namespace muster::model {
namespace {

constexpr std::chrono::seconds kTimeout{60};

void run_team(int members, const std::function<void(const TensorTeam&)>& body) {
  testing::run_group(members, testing::Network::kShm,
                     [&](int, comm::Group group) { body(TensorTeam(std::move(group), kTimeout)); });
}

void expect_near(const torch::Tensor& ours, const torch::Tensor& theirs, const std::string& what) {
  ASSERT_EQ(ours.sizes(), theirs.sizes()) << what;
  const double scale = std::max(1e-3, theirs.abs().max().item<double>());
  EXPECT_LE((ours - theirs).abs().max().item<double>(), 1e-5 * scale) << what;
}

std::vector<ModelOptions> divisible_models() {
  std::vector<ModelOptions> all;
  ModelOptions text{.name = "transformer"};
  text.input_shape = {5};
  text.vocabulary = text.classes = 11;
  text.each_position = true;
  text.width = 12;
  text.depth = 2;
  text.heads = 3;
  all.push_back(text);
  text.recompute = true;
  all.push_back(text);
  text.each_position = false;  // scores of the last position, which are whole
  text.classes = 4;
  all.push_back(text);
  for (const std::vector<std::int64_t>& hidden : std::vector<std::vector<std::int64_t>>{{7}, {9, 6}, {8, 5, 7}}) {
    ModelOptions mlp{.name = "mlp"};
    mlp.input_shape = {6};
    mlp.hidden = hidden;
    all.push_back(mlp);
  }
  ModelOptions wide{.name = "wrn-10-2"};
  wide.input_shape = {3, 8, 8};
  all.push_back(wide);
  wide.norm = "group";
  wide.groups = 4;
  all.push_back(wide);
  return all;
}

torch::Tensor team_batch(const ModelOptions& options) {
  std::vector<std::int64_t> shape{4};
  shape.insert(shape.end(), options.input_shape.begin(), options.input_shape.end());
  torch::manual_seed(2);
  return options.vocabulary ? torch::randint(*options.vocabulary, shape, torch::kInt64) : torch::randn(shape);
}

torch::Tensor part_of(const torch::Tensor& whole, const Shard& shard) {
  return whole.as_strided(shard.sizes, shard.strides, shard.offset);
}

// What a model gives for `batch`, with a loss whose gradient differs from score to score.
torch::Tensor compute(Net& net, const torch::Tensor& batch, const torch::Tensor& factor) {
  const torch::Tensor answer = net.forward(batch);
  (answer * factor).sum().backward();
  return answer.detach();
}

TEST(TensorTeam, DividedModelsGiveTheOutputsAndGradientsOfWholeOnes) {
  for (const ModelOptions& options : divisible_models()) {
    for (const int members : {2, 3}) {
      const std::string name = options.name + " by " + std::to_string(members);
      const torch::Tensor batch = team_batch(options);
      const std::shared_ptr<Net> whole = make_model(options, 1);
      const torch::Tensor factor = torch::randn(make_model(options, 1)->forward(batch).sizes());
      const torch::Tensor expected = compute(*whole, batch, factor);
      std::vector<std::shared_ptr<Net>> nets;
      for (int member = 0; member < members; ++member)
        nets.push_back(make_model(options, 1));
      run_team(members, [&](const TensorTeam& team) {
        Net& net = *nets[team.member()];
        auto& divisible = dynamic_cast<Divisible&>(net);
        const std::vector<Split> splits = divisible.splits();
        const auto shard = [&](const std::string& tensor, torch::IntArrayRef sizes) -> std::optional<Shard> {
          for (const Split& split : splits) {
            if (split.name == tensor) return shard_of(split, sizes, team.member(), team.size());
          }
          return std::nullopt;
        };
        for (auto& item : net.named_parameters()) {
          if (const auto own = shard(item.key(), item.value().sizes()))
            item.value().set_data(part_of(item.value().detach(), *own));
        }
        for (auto& item : net.named_buffers()) {
          if (const auto own = shard(item.key(), item.value().sizes()))
            item.value().set_data(part_of(item.value().detach(), *own));
        }
        divisible.join(team);
        torch::Tensor want = expected;
        torch::Tensor weight = factor;
        if (divisible.divides_answer()) {
          const Share words = team.share(options.classes);
          want = want.narrow(2, words.first, words.count);
          weight = weight.narrow(2, words.first, words.count);
        }
        expect_near(compute(net, batch, weight), want, name);
        const auto ours = net.named_parameters();
        for (const auto& item : whole->named_parameters()) {
          torch::Tensor gradient = item.value().grad();
          ASSERT_TRUE(gradient.defined());
          if (const auto own = shard(item.key(), gradient.sizes())) gradient = part_of(gradient.contiguous(), *own);
          expect_near(ours[item.key()].grad(), gradient, name + ": " + item.key());
        }
        const auto buffers = net.named_buffers();
        for (const auto& item : whole->named_buffers()) {
          torch::Tensor value = item.value();
          if (const auto own = shard(item.key(), value.sizes())) value = part_of(value, *own);
          expect_near(buffers[item.key()].to(torch::kFloat32), value.to(torch::kFloat32), name + ": " + item.key());
        }
        divisible.join({});
      });
    }
  }
}

TEST(TensorTeam, CrossEntropyOfDividedScoresIsThatOfWholeOnes) {
  constexpr std::int64_t kClasses = 7;
  torch::manual_seed(3);
  const torch::Tensor scores = 30 * torch::randn({5, kClasses});
  const torch::Tensor target = torch::tensor({0, 6, 3, 2, 4}, torch::kInt64);
  for (const double smoothing : {0.0, 0.2}) {
    torch::Tensor all = scores.clone().requires_grad_();
    const torch::Tensor loss = TensorTeam().cross_entropy(all, target, kClasses, smoothing);
    (2 * loss).backward();
    for (const int members : {2, 3}) {
      run_team(members, [&](const TensorTeam& team) {
        const Share own = team.share(kClasses);
        torch::Tensor part = scores.narrow(1, own.first, own.count).clone().requires_grad_();
        const torch::Tensor ours = team.cross_entropy(part, target, kClasses, smoothing);
        (2 * ours).backward();
        expect_near(ours.detach(), loss.detach(), "loss");
        expect_near(part.grad(), all.grad().narrow(1, own.first, own.count), "gradient");
      });
    }
  }
}

TEST(TensorTeam, OfEqualScoresTheFirstClassIsTheBest) {
  const torch::Tensor scores = torch::tensor({{1.F, 5.F, 2.F, 5.F, 0.F}, {0.F, 0.F, 0.F, 0.F, 9.F}});
  run_team(2, [&](const TensorTeam& team) {
    const Share own = team.share(5);
    const torch::Tensor best = team.best_class(scores.narrow(1, own.first, own.count), 5);
    EXPECT_TRUE(torch::equal(best, torch::tensor({1, 4}, torch::kInt64)));
  });
}

TEST(TensorTeam, AMemberThatIsLostEndsTheWaitOfTheOthers) {
  run_team(2, [&](const TensorTeam& team) {
    if (team.member() == 1) return;
    torch::Tensor x = torch::ones({3}).requires_grad_();
    EXPECT_THROW(team.sum(x), Error);
  });
}

}  // namespace
}  // namespace muster::model
