// Sessions over several models: against a plain LibTorch loop with as many optimizers, against themselves with other
// numbers of workers and resumed; and what a program writes after a step.
#include "muster/trainer/model_parts.h"

#include <cmath>
#include <limits>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/data/numbered.h"
#include "muster/data/permutation.h"
#include "muster/strategies/all_reduce/all_reduce.h"
#include "muster/strategies/local_sgd/local_sgd.h"
#include "muster/strategies/parameter_server/parameter_server.h"
#include "muster/strategies/shared_sync/shared_sync.h"
#include "muster/trainer/session.h"
#include "support/errors.h"
#include "support/groups.h"
#include "support/sandbox.h"
#include "support/small_nets.h"

namespace muster::trainer {
namespace {

using testing::line_data;

// A maker of six numbers out of six, a judge of them, and a moving average of the maker.
struct Models {
  Models() {
    torch::manual_seed(1);
    maker = torch::nn::Linear(6, 6);
    judge = torch::nn::Linear(6, 1);
    average = torch::nn::Linear(6, 6);
    const torch::NoGradGuard no_grad;
    average->weight.copy_(maker->weight);
    average->bias.copy_(maker->bias);
  }
  std::vector<ModelPart> parts() const {
    return {{"maker", maker, compute::Adam{.lr = 0.01}},
            {"judge", judge, compute::Sgd{.lr = 0.05, .momentum = 0.9}},
            {"average", average}};
  }
  torch::Tensor judge_loss(const torch::Tensor& x) {
    return judge->forward(maker->forward(x).detach()).mean() - judge->forward(x).mean();
  }
  torch::Tensor maker_loss(const torch::Tensor& x) { return -judge->forward(maker->forward(x)).mean(); }
  void clamp_and_average() {
    for (torch::Tensor& parameter : judge->parameters())
      parameter.clamp_(-0.2, 0.2);
    average->weight.mul_(0.9).add_(maker->weight, 0.1);
    average->bias.mul_(0.9).add_(maker->bias, 0.1);
  }
  torch::nn::Linear maker{nullptr}, judge{nullptr}, average{nullptr};
};

SessionOptions options(std::uint64_t lanes) {
  SessionOptions made;
  made.batch = 12;
  made.lanes = lanes;
  made.seed = 3;
  return made;
}

// In turns: every third step is the maker's.
void train(Lane& lane, Models& models) {
  if (lane.step % 3 == 2)
    lane.backward(models.maker_loss(lane.data), "maker");
  else
    lane.backward(models.judge_loss(lane.data), "judge");
}

torch::Tensor batch_of(const data::Dataset& dataset, std::uint64_t batch, std::uint64_t seed, std::uint64_t step) {
  const std::uint64_t steps = (dataset.size() + batch - 1) / batch;
  const data::Permutation order(dataset.size(), seed, step / steps);
  const std::uint64_t begin = step % steps * batch;
  const std::uint64_t count = std::min(batch, dataset.size() - begin);
  torch::Tensor input = torch::empty({static_cast<std::int64_t>(count), 6});
  for (std::uint64_t i = 0; i < count; ++i)
    dataset.read(order(begin + i), {input.data_ptr<float>() + i * 6, 6});
  return input;
}

void expect_close(const torch::Tensor& ours, const torch::Tensor& theirs, const char* what) {
  EXPECT_LT((ours - theirs).abs().max().item<double>(), 5e-6) << what;
}

TEST(ModelParts, InTurnsFollowAPlainLoopWithAnOptimizerEach) {
  const auto dataset = line_data(50);
  Models ours;
  Models theirs;
  SessionOptions o = options(1);
  o.after_commit = [&](const data::Cursor&) { ours.clamp_and_average(); };
  Session session(ours.parts(), o);
  torch::optim::Adam adam(theirs.maker->parameters(), torch::optim::AdamOptions(0.01));
  torch::optim::SGD sgd(theirs.judge->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (std::uint64_t step = 0; step < 20; ++step) {
    const torch::Tensor judge_before = ours.judge->weight.detach().clone();
    session.step(dataset, [&](Lane& lane) { train(lane, ours); });
    const torch::Tensor x = batch_of(*dataset, 12, 3, step);
    theirs.maker->zero_grad();
    theirs.judge->zero_grad();
    if (step % 3 == 2) {
      theirs.maker_loss(x).backward();
      adam.step();
      EXPECT_TRUE(torch::equal(ours.judge->weight, judge_before)) << "it has no part in step " << step;
    } else {
      theirs.judge_loss(x).backward();
      sgd.step();
    }
    const torch::NoGradGuard no_grad;
    theirs.clamp_and_average();
  }
  expect_close(ours.maker->weight, theirs.maker->weight, "maker");
  expect_close(ours.judge->weight, theirs.judge->weight, "judge");
  expect_close(ours.average->weight, theirs.average->weight, "average");
  EXPECT_GT((ours.judge->weight.abs() - 0.2F).abs().lt(1e-7).sum().item<std::int64_t>(), 0) << "nothing was clamped";
}

TEST(ModelParts, StepTogetherInOneStep) {
  const auto dataset = line_data(50);
  Models ours;
  Models theirs;
  Session session(ours.parts(), options(1));
  torch::optim::Adam adam(theirs.maker->parameters(), torch::optim::AdamOptions(0.01));
  torch::optim::SGD sgd(theirs.judge->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (std::uint64_t step = 0; step < 6; ++step) {
    session.step(dataset, [&](Lane& lane) {
      lane.backward(ours.judge_loss(lane.data), "judge");
      lane.backward(ours.maker_loss(lane.data), "maker");
    });
    const torch::Tensor x = batch_of(*dataset, 12, 3, step);
    // Both gradients are of the same weights.
    const auto judge_gradients = torch::autograd::grad({theirs.judge_loss(x)}, theirs.judge->parameters());
    const auto maker_gradients = torch::autograd::grad({theirs.maker_loss(x)}, theirs.maker->parameters());
    for (std::size_t i = 0; i < 2; ++i) {
      theirs.judge->parameters()[i].mutable_grad() = judge_gradients[i];
      theirs.maker->parameters()[i].mutable_grad() = maker_gradients[i];
    }
    adam.step();
    sgd.step();
  }
  expect_close(ours.maker->weight, theirs.maker->weight, "maker");
  expect_close(ours.judge->weight, theirs.judge->weight, "judge");
}

struct Trained {
  std::string hash;
  std::vector<double> figures;
};

std::vector<Trained> train_workers(int workers, const strategies::StrategyChoice& strategy, strategies::Claims claims) {
  const auto dataset = line_data(50);
  std::vector<Models> models(static_cast<std::size_t>(workers));
  std::vector<Trained> results(static_cast<std::size_t>(workers));
  testing::run_group(workers, testing::Network::kShm, [&](int rank, comm::Group group) {
    Models& mine = models[static_cast<std::size_t>(rank)];
    Trained& result = results[static_cast<std::size_t>(rank)];
    SessionOptions o = options(6);
    o.group = group;
    o.strategy = strategy;
    o.claims = claims;
    o.clip_norm = 0.5;
    o.after_commit = [&](const data::Cursor&) { mine.clamp_and_average(); };
    Session session(mine.parts(), o);
    while (session.cursor().step < 14) {
      const strategies::StepOutcome outcome = session.step(dataset, [&](Lane& lane) {
        train(lane, mine);
        lane.report("first", lane.data.select(1, 0).mean());
        if (lane.index == 2) lane.report("third lane", 0.1);
      });
      result.figures.push_back(outcome.figure("first").value());
      result.figures.push_back(outcome.figure("third lane").value_or(-1));
      EXPECT_FALSE(outcome.figure("nothing").has_value());
    }
    result.hash = session.weights_hash();
    group.barrier();
  });
  return results;
}

TEST(ModelParts, TheBitsDoNotDependOnTheWorkers) {
  const std::vector<Trained> alone = train_workers(1, strategies::SharedSync{}, strategies::Claims::kStatic);
  for (const int workers : {2, 3}) {
    for (const strategies::Claims claims : {strategies::Claims::kStatic, strategies::Claims::kDynamic}) {
      for (const Trained& one : train_workers(workers, strategies::SharedSync{}, claims)) {
        EXPECT_EQ(one.hash, alone[0].hash) << workers;
        EXPECT_EQ(one.figures, alone[0].figures) << workers;
      }
    }
  }
  // Six lanes of two samples: two workers have halves of the tree.
  const std::vector<Trained> replicas = train_workers(2, strategies::AllReduce{}, strategies::Claims::kStatic);
  EXPECT_EQ(replicas[0].hash, replicas[1].hash);
  EXPECT_EQ(replicas[0].figures, alone[0].figures);
}

TEST(ModelParts, AResumedSessionGoesOnWithEveryPartsState) {
  const testing::TemporaryFolder folder;
  const auto dataset = line_data(50);
  const auto run = [&](std::uint64_t steps, bool resumes) {
    Models models;
    SessionOptions o = options(2);
    o.after_commit = [&](const data::Cursor&) { models.clamp_and_average(); };
    Session session(models.parts(), o);
    EXPECT_EQ(session.resume(folder / "kept"), resumes);
    while (session.cursor().step < steps)
      session.step(dataset, [&](Lane& lane) { train(lane, models); });
    if (!resumes && steps == 7) session.checkpoint(folder / "kept");
    return session.weights_hash();
  };
  const std::string whole = run(13, false);
  run(7, false);
  EXPECT_EQ(run(13, true), whole);
  // Another optimizer for one part is another session.
  Models models;
  std::vector<ModelPart> others = models.parts();
  others[1].options.optimizer = compute::Adam{};
  Session other(others, options(2));
  testing::expect_error(ErrorKind::kMismatch, "tensor", [&] { other.resume(folder / "kept"); });
}

TEST(ModelParts, AScheduleOfItsOwnIsOfThePartAlone) {
  const auto dataset = line_data(50);
  Models models;
  std::vector<ModelPart> parts = models.parts();
  parts[0].options.schedule = compute::Schedule{.factor = [](std::uint64_t step) { return step < 1 ? 0.0 : 1.0; }};
  Session session(std::move(parts), options(2));
  const torch::Tensor maker = models.maker->weight.detach().clone();
  const torch::Tensor judge = models.judge->weight.detach().clone();
  const auto both = [&](Lane& lane) {
    lane.backward(models.judge_loss(lane.data), "judge");
    lane.backward(models.maker_loss(lane.data), "maker");
  };
  session.step(dataset, both);
  EXPECT_TRUE(torch::equal(models.maker->weight, maker)) << "a rate of 0";
  EXPECT_FALSE(torch::equal(models.judge->weight, judge));
  session.step(dataset, both);
  EXPECT_FALSE(torch::equal(models.maker->weight, maker));
}

TEST(AfterCommit, CountsOnceForEveryAppliedStepWhateverItWritesTo) {
  const auto dataset = line_data(50);
  Models models;
  SessionOptions o = options(2);
  o.tuning.freeze = {"maker.*"};
  std::vector<std::uint64_t> steps;
  o.after_commit = [&](const data::Cursor& after) {
    steps.push_back(after.step);
    models.maker->bias.add_(1);  // never trains: both versions of it have to be written
    models.average->bias.add_(1);
  };
  Session session(models.parts(), o);
  const torch::Tensor frozen = models.maker->bias.detach().clone();
  const torch::Tensor average = models.average->bias.detach().clone();
  for (int step = 0; step < 5; ++step) {
    const auto outcome = session.step(dataset, [&](Lane& lane) {
      const torch::Tensor loss = models.judge->forward(lane.data).mean();
      lane.backward(step == 2 ? loss * std::numeric_limits<float>::quiet_NaN() : loss);
    });
    EXPECT_EQ(outcome.applied, step != 2);
  }
  EXPECT_EQ(steps, (std::vector<std::uint64_t>{1, 2, 4, 5})) << "a step that was skipped changes nothing";
  expect_close(models.maker->bias, frozen + 4, "frozen");
  expect_close(models.average->bias, average + 4, "average");
}

TEST(AfterCommit, WritesBuffersToo) {
  const auto dataset = line_data(48);
  torch::manual_seed(1);
  const auto net = std::make_shared<testing::BatchNormNet>();
  SessionOptions o = options(3);
  o.after_commit = [&](const data::Cursor& after) {
    net->norm->running_mean.fill_(static_cast<double>(after.step));
    net->norm->num_batches_tracked.fill_(7);
  };
  Session session(net, compute::Sgd{.lr = 0.1}, o);
  for (int step = 0; step < 3; ++step) {
    session.step(dataset, [&](Lane& lane) {
      lane.backward(torch::nn::functional::cross_entropy(net->forward(lane.data), lane.target));
    });
    EXPECT_TRUE(torch::equal(net->norm->running_mean, torch::full({16}, step + 1.0F)));
    EXPECT_EQ(net->norm->num_batches_tracked.item<std::int64_t>(), 7);
  }
}

// What deep Q-learning needs: a memory that the net itself fills, and a copy of the net of some steps ago.
struct Replay {
  struct Memory : torch::nn::Module {
    torch::Tensor states = register_buffer("states", torch::zeros({64, 6}));
    torch::Tensor choices = register_buffer("choices", torch::zeros({64}, torch::kInt64));
    torch::Tensor count = register_buffer("count", torch::zeros({1}, torch::kInt64));
  };

  Replay() {
    torch::manual_seed(1);
    net = torch::nn::Sequential(torch::nn::Linear(6, 8), torch::nn::Tanh(), torch::nn::Linear(8, 2));
    target = torch::nn::Sequential(torch::nn::Linear(6, 8), torch::nn::Tanh(), torch::nn::Linear(8, 2));
    memory = std::make_shared<Memory>();
    remember(0);
  }
  torch::Tensor loss(std::uint64_t step) {
    torch::manual_seed(step);
    const torch::Tensor chosen = torch::randint(std::min<std::int64_t>(memory->count.item<std::int64_t>(), 64), {12});
    const torch::Tensor states = memory->states.index_select(0, chosen);
    const torch::Tensor choices = memory->choices.index_select(0, chosen).unsqueeze(1);
    const torch::Tensor future = std::get<0>(target->forward(states.flip(1)).max(1));
    return torch::smooth_l1_loss(net->forward(states).gather(1, choices).squeeze(1), (0.5 + 0.5 * future).detach());
  }
  void remember(std::uint64_t step) {
    const torch::NoGradGuard no_grad;
    torch::manual_seed(1000 + step);
    const std::int64_t at = memory->count.item<std::int64_t>() % 64;
    const torch::Tensor seen = torch::rand({4, 6});
    memory->states.narrow(0, at, 4).copy_(seen);
    memory->choices.narrow(0, at, 4).copy_(net->forward(seen).argmax(1));
    memory->count.add_(4);
    if (step % 5 != 0) return;
    for (std::size_t i = 0; i < net->parameters().size(); ++i)
      target->parameters()[i].copy_(net->parameters()[i]);
  }
  torch::nn::Sequential net{nullptr}, target{nullptr};
  std::shared_ptr<Memory> memory;
};

TEST(AfterCommit, AReplayMemoryAndATargetNetFollowAPlainLoopStepByStep) {
  Replay ours;
  Replay theirs;
  SessionOptions o = options(1);
  o.after_commit = [&](const data::Cursor& after) { ours.remember(after.step); };
  Session session(
      {{"net", ours.net.ptr(), compute::Adam{.lr = 0.01}}, {"target", ours.target.ptr()}, {"memory", ours.memory}}, o);
  torch::optim::Adam adam(theirs.net->parameters(), torch::optim::AdamOptions(0.01));
  const auto draws = data::numbered(48);
  for (std::uint64_t step = 0; step < 40; ++step) {
    session.step(draws, [&](Lane& lane) { lane.backward(ours.loss(lane.step)); });
    adam.zero_grad();
    theirs.loss(step).backward();
    adam.step();
    theirs.remember(step + 1);
    for (std::size_t i = 0; i < 4; ++i) {
      expect_close(ours.net->parameters()[i], theirs.net->parameters()[i], "net");
      expect_close(ours.target->parameters()[i], theirs.target->parameters()[i], "target");
    }
    ASSERT_TRUE(torch::equal(ours.memory->states, theirs.memory->states)) << step;
    ASSERT_TRUE(torch::equal(ours.memory->choices, theirs.memory->choices)) << step;
    ASSERT_TRUE(torch::equal(ours.memory->count, theirs.memory->count)) << step;
    ASSERT_FALSE(HasFailure()) << "first at step " << step;
  }
}

TEST(AfterCommit, ReplacingAParameterIsRefusedByName) {
  Models models;
  SessionOptions o = options(2);
  o.after_commit = [&](const data::Cursor&) { models.judge->weight.set_data(torch::zeros({1, 6})); };
  Session session(models.parts(), o);
  const std::string before = session.weights_hash();
  testing::expect_error(ErrorKind::kCompute, "judge.weight was replaced",
                        [&] { session.step(line_data(50), [&](Lane& lane) { train(lane, models); }); });
  EXPECT_EQ(session.weights_hash(), before);
}

// A critic whose gradient is held at 1: the gradient of a gradient.
TEST(ModelParts, AGradientPenaltyFollowsAPlainLoop) {
  const auto dataset = line_data(50);
  const auto make = [] {
    torch::manual_seed(4);
    return torch::nn::Sequential(torch::nn::Linear(6, 8), torch::nn::Tanh(), torch::nn::Linear(8, 1));
  };
  const auto loss_of = [](torch::nn::Sequential& net, const torch::Tensor& data) {
    torch::Tensor x = data.clone().requires_grad_(true);
    const torch::Tensor scores = net->forward(x);
    const torch::Tensor slope =
        torch::autograd::grad({scores.sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
    return scores.mean() + 10 * (slope.norm(2, 1) - 1).pow(2).mean();
  };
  torch::nn::Sequential ours = make();
  torch::nn::Sequential theirs = make();
  Session session(std::vector<ModelPart>{{"critic", ours, compute::Sgd{.lr = 0.05}}}, options(1));
  torch::optim::SGD sgd(theirs->parameters(), torch::optim::SGDOptions(0.05));
  for (std::uint64_t step = 0; step < 8; ++step) {
    session.step(dataset, [&](Lane& lane) { lane.backward(loss_of(ours, lane.data)); });
    sgd.zero_grad();
    loss_of(theirs, batch_of(*dataset, 12, 3, step)).backward();
    sgd.step();
  }
  const auto expected = theirs->parameters();
  for (std::size_t i = 0; i < expected.size(); ++i)
    expect_close(ours->parameters()[i], expected[i], "critic");
}

TEST(ModelParts, ALossInPartsMayShareAGraph) {
  const auto dataset = line_data(50);
  const auto run = [&](const std::function<void(Lane&, const torch::Tensor&)>& backward) {
    Models models;
    Session session(models.parts(), options(2));
    for (int step = 0; step < 3; ++step)
      session.step(dataset, [&](Lane& lane) { backward(lane, models.maker->forward(lane.data)); });
    return models.maker->weight.detach().clone();
  };
  const torch::Tensor twice = run([](Lane& lane, const torch::Tensor& made) {
    lane.backward(made.mean(), {.retain_graph = true});
    lane.backward(made.pow(2).mean());
  });
  const torch::Tensor once =
      run([](Lane& lane, const torch::Tensor& made) { lane.backward(made.mean() + made.pow(2).mean()); });
  expect_close(twice, once, "maker");
  // Without retain_graph the second one meets a graph that is gone: an error of the lane's, with its place.
  Models models;
  Session session(models.parts(), options(2));
  testing::expect_error(ErrorKind::kCompute, "step 0, lane 0", [&] {
    session.step(dataset, [&](Lane& lane) {
      const torch::Tensor made = models.judge->forward(models.maker->forward(lane.data)).pow(2);
      lane.backward(made.mean());
      lane.backward(made.sum());
    });
  });
}

TEST(ModelParts, MistakesAreNamed) {
  const auto dataset = line_data(50);
  Models models;
  const auto refuses = [&](std::vector<ModelPart> parts, const std::string& message) {
    testing::expect_error(ErrorKind::kInvalidInput, message, [&] { Session(std::move(parts), options(2)); });
  };
  refuses({{"a.b", models.maker, compute::Sgd{}}}, "cannot be called \"a.b\"");
  refuses({{"", models.maker, compute::Sgd{}}}, "cannot be called \"\"");
  refuses({{"a", models.maker, compute::Sgd{}}, {"a", models.judge, compute::Sgd{}}}, "two parts of the model are");
  refuses({{"a", models.maker}}, "no part of the model has an optimizer");
  refuses({{"a", std::shared_ptr<torch::nn::Module>(), compute::Sgd{}}}, "part a of the model has no module");
  refuses({{"a", models.maker, compute::Sgd{}}, {"b", models.maker}}, "its parameter weight is also one of a part");
  Session session(models.parts(), options(2));
  const auto backward_to = [&](const std::string& part) {
    session.step(dataset, [&](Lane& lane) { lane.backward(models.maker_loss(lane.data), part); });
  };
  testing::expect_error(ErrorKind::kInvalidInput, "the model has no part \"critic\"", [&] { backward_to("critic"); });
  testing::expect_error(ErrorKind::kInvalidInput, "nothing trains in part average", [&] { backward_to("average"); });
}

TEST(ModelParts, StrategiesThatUpdateElsewhereRefuseThem) {
  for (const strategies::StrategyChoice& strategy : {strategies::StrategyChoice(strategies::LocalSgd{}),
                                                     strategies::StrategyChoice(strategies::ParameterServer{})}) {
    Models models;
    SessionOptions o = options(2);
    o.strategy = strategy;
    testing::expect_error(ErrorKind::kUnsupported, "a model in several parts", [&] { Session(models.parts(), o); });
    o.after_commit = [](const data::Cursor&) {};
    testing::expect_error(ErrorKind::kUnsupported, "after_commit",
                          [&] { Session(models.judge.ptr(), compute::Sgd{}, o); });
  }
}

// Momentum as a program may write it, against ours.
TEST(OwnOptimizer, KeepsItsStateAsOursDo) {
  const auto dataset = line_data(50);
  const compute::OwnOptimizer own{
      .name = "heavy ball",
      .lr = 0.05,
      .slots = {"velocity"},
      .update = [](const compute::BlockInput& in, const compute::TensorStep& step, const compute::BlockOutput& out) {
        for (std::size_t i = 0; i < in.parameters.size(); ++i) {
          out.state[0][i] = 0.9F * in.state[0][i] + in.gradient_scale * in.gradient[i];
          out.parameters[i] = in.parameters[i] - static_cast<float>(step.lr) * out.state[0][i];
        }
      }};
  const auto run = [&](const compute::OptimizerOptions& optimizer, const std::filesystem::path& folder, int stop_at) {
    torch::manual_seed(1);
    const auto net = std::make_shared<testing::LinearNet>();
    SessionOptions o = options(3);
    o.clip_norm = 0.4;
    Session session(net, optimizer, o);
    session.resume(folder);
    while (session.cursor().step < 12) {
      session.step(dataset, [&](Lane& lane) {
        lane.backward(torch::nn::functional::cross_entropy(net->forward(lane.data), lane.target));
      });
      if (static_cast<int>(session.cursor().step) == stop_at) {
        session.checkpoint(folder);
        break;
      }
    }
    return std::pair(net->first->weight.detach().clone(), session.weights_hash());
  };
  const testing::TemporaryFolder folder;
  const auto whole = run(own, folder / "none", 0);
  expect_close(whole.first, run(compute::Sgd{.lr = 0.05, .momentum = 0.9}, folder / "none", 0).first, "sgd");
  run(own, folder / "kept", 5);
  EXPECT_EQ(run(own, folder / "kept", 0).second, whole.second);
}

TEST(Measure, GivesTheBitsOfOneWorker) {
  const auto dataset = line_data(50);
  const auto run = [&](int workers) {
    std::vector<Models> models(static_cast<std::size_t>(workers));
    std::vector<std::vector<double>> results(static_cast<std::size_t>(workers));
    testing::run_group(workers, testing::Network::kShm, [&](int rank, comm::Group group) {
      Models& mine = models[static_cast<std::size_t>(rank)];
      mine.judge->eval();  // modes of parts are their own, and stay so
      SessionOptions o = options(6);
      o.group = group;
      Session session(mine.parts(), o);
      session.step(dataset, [&](Lane& lane) { train(lane, mine); });
      const compute::Figures figures = session.measure(
          [&](Lane& lane) {
            EXPECT_FALSE(mine.maker->is_training());
            lane.report("score", mine.judge->forward(lane.data).mean());
            if (lane.index == 0) lane.report("first", 3);
          },
          dataset, {.batch = 8});
      EXPECT_TRUE(mine.maker->is_training());
      EXPECT_FALSE(mine.judge->is_training());
      results[static_cast<std::size_t>(rank)] = {figures.mean("score").value(), figures.mean("first").value()};
      group.barrier();
    });
    return results;
  };
  const std::vector<double> alone = run(1)[0];
  for (const std::vector<double>& one : run(3))
    EXPECT_EQ(one, alone);
  EXPECT_EQ(alone[1], 3);
}

TEST(Lanes, OfNumbersFetchFromATorchDataSet) {
  const torch::Tensor table = torch::arange(50 * 6, torch::kFloat32).view({50, 6});
  auto examples = torch::data::datasets::TensorDataset(table).map(
      torch::data::transforms::Lambda<torch::data::TensorExample, torch::data::Example<>>(
          [](torch::data::TensorExample one) { return torch::data::Example<>(one.data, one.data.sum()); }));
  auto stacked = examples.map(torch::data::transforms::Stack<>());
  Models models;
  Session session(models.parts(), options(2));
  const auto numbers = data::numbered(*stacked.size());
  std::map<std::int64_t, int> seen;
  for (Lane& lane : session.lanes(numbers)) {
    const torch::data::Example<> batch = lane.batch_of(stacked);
    EXPECT_TRUE(torch::equal(batch.data, table.index_select(0, lane.target)));
    EXPECT_TRUE(torch::equal(batch.target, batch.data.sum(1)));
    for (std::int64_t i = 0; i < lane.target.size(0); ++i)
      ++seen[lane.target[i].item<std::int64_t>()];
    lane.backward(models.maker_loss(batch.data * 0.01), "maker");
  }
  EXPECT_EQ(seen.size(), 50U);
}

TEST(Lanes, FollowASamplingOfTheProgramsOwn) {
  Models models;
  SessionOptions o = options(2);
  o.sampling = data::Sampling{30, [](std::uint64_t epoch) { return std::vector<std::uint64_t>(30, 7 + epoch); }};
  Session session(models.parts(), o);
  const auto dataset = line_data(50);
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    std::uint64_t samples = 0;
    for (Lane& lane : session.lanes(dataset)) {
      for (const std::uint64_t id : lane.ids)
        EXPECT_EQ(id, 7 + epoch);
      samples += lane.ids.size();
      train(lane, models);
    }
    EXPECT_EQ(samples, 30U);
  }
}

}  // namespace
}  // namespace muster::trainer
