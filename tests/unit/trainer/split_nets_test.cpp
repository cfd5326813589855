// Split nets against the net that they are together, as LibTorch alone trains it: modules, loss and optimizer of torch,
// from the same first weights, on the same rows.
#include "muster/trainer/split_nets.h"

#include <fstream>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/federated/vertical/vertical_plan.h"
#include "muster/model/safetensors.h"
#include "muster/trainer/job.h"
#include "muster/trainer/party_table.h"
#include "support/errors.h"
#include "support/sandbox.h"

namespace muster::trainer {
namespace {

using testing::slurp;

constexpr int kRows = 80;
constexpr int kTrainRows = 64;

class SplitNets : public ::testing::Test {
 protected:
  SplitNets() {
    write("labels.csv", "person,age,hours,kind", 1, [](int id) {
      const char* const kind = (id * 7) % 5 < 2 ? "yes" : id % 3 == 0 ? "maybe" : "no";
      return fmt::format("{},{},{}", 20 + (id * 13) % 47, (id * 5) % 19, kind);
    });
    write("bank.csv", "person,balance,branch", 7,
          [](int id) { return fmt::format("{},{}", (id * 29) % 83, id % 2 == 0 ? "north" : "south"); });
    write(
        "shop.csv", "visits,person,spent", 11, [](int id) { return fmt::format("{}.5", (id * 3) % 17); },
        [](int id) { return fmt::format("{},", (id * 31) % 11); });
  }

  template <typename Row>
  void write(const std::string& name, const std::string& header, int stride, const Row& row) {
    write(name, header, stride, row, [](int) { return std::string(); });
  }
  // Rows 0 .. kRows-1 in an order that the stride says: what stands before the id, and what behind it.
  template <typename Behind, typename Before>
  void write(const std::string& name, const std::string& header, int stride, const Behind& behind,
             const Before& before) {
    std::ofstream file(folder_ / name);
    file << header << "\n";
    for (int i = 0; i < kRows; ++i) {
      const int id = (i * stride) % kRows;
      file << before(id) << fmt::format("p{:03}", id) << "," << behind(id) << "\n";
    }
  }

  ResolvedJob job(const std::string& table, const std::string& more) const {
    return parse_job(fmt::format("[data]\nsource = \"csv\"\npath = \"{}\"\npartition = \"vertical\"\nbatch = 16\n"
                                 "[vertical]\nid = \"person\"\n{}",
                                 (folder_ / table).string(), more),
                     "job.toml");
  }

  // All rows are common; their order is that of the ids, wherever they stand.
  static federated::Alignment alignment_of(const PartyTable& table) {
    federated::Alignment alignment{.name = "a", .train_rows = kTrainRows};
    for (int id = 0; id < kRows; ++id) {
      const auto found = std::ranges::find(table.ids(), fmt::format("p{:03}", id));
      alignment.rows.push_back(static_cast<std::uint64_t>(found - table.ids().begin()));
    }
    return alignment;
  }

  static torch::Tensor features(const data::Dataset& rows) {
    const auto width = static_cast<std::int64_t>(rows.spec().elements());
    torch::Tensor all = torch::empty({static_cast<std::int64_t>(rows.size()), width});
    std::int64_t label = 0;
    for (std::uint64_t row = 0; row < rows.size(); ++row)
      rows.read_sample(row, {.features = {all.data_ptr<float>() + row * rows.spec().elements(), rows.spec().elements()},
                             .labels = std::span(&label, 1)});
    return all;
  }

  // Linear layers with ReLU between them, with the values that stand in a file of a party's net.
  static torch::nn::Sequential net_in(const std::filesystem::path& path, const std::string& prefix, int layers) {
    const model::SafetensorsFile file(path);
    torch::nn::Sequential net;
    const torch::NoGradGuard no_grad;
    for (int layer = 1; layer <= layers; ++layer) {
      const std::string name = fmt::format("{}fc{}.", prefix, layer);
      const auto& shape = file.header().find(name + "weight")->shape;
      torch::nn::Linear linear(shape[1], shape[0]);
      for (const auto& [part, tensor] : {std::pair("weight", linear->weight), std::pair("bias", linear->bias)})
        file.read(name + part, std::as_writable_bytes(
                                   std::span(tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel()))));
      if (layer > 1) net->push_back(torch::nn::ReLU());
      net->push_back(linear);
    }
    return net;
  }
  static void expect_same(torch::nn::Sequential& one, torch::nn::Sequential& other) {
    const auto parameters = one->parameters();
    const auto others = other->parameters();
    ASSERT_EQ(parameters.size(), others.size());
    for (std::size_t i = 0; i < parameters.size(); ++i)
      EXPECT_LT((parameters[i] - others[i]).abs().max().item<double>(), 1e-6) << i;
  }

  const testing::TemporaryFolder folder_;
};

// One step of all parties, without anything between them.
void step_of_all(const federated::VerticalPlan::Place& place, federated::TopNet& top,
                 const std::vector<federated::BottomNet*>& bottoms) {
  std::vector<std::vector<float>> activations;
  for (federated::BottomNet* bottom : bottoms)
    activations.push_back(bottom->forward(place.rows, place.train));
  const auto gradients = top.step(place.rows, activations, place.train);
  for (std::size_t i = 0; place.train && i < bottoms.size(); ++i)
    bottoms[i]->backward(gradients[i]);
}

const federated::VerticalPlan kPlan{.train_rows = kTrainRows,
                                    .test_rows = kRows - kTrainRows,
                                    .batch = 16,
                                    .epochs = 4,
                                    .seed = 9,
                                    .checkpoint_steps = 100};

TEST_F(SplitNets, TrainAsTheNetThatTheyAreTogetherDoesInLibTorch) {
  for (const bool adam : {false, true}) {
    SCOPED_TRACE(adam ? "adam" : "sgd");
    const std::string optimizer = adam ? "[optimizer]\nname = \"adam\"\nlr = 0.01\nweight_decay = 0.001\n"
                                       : "[optimizer]\nlr = 0.05\nmomentum = 0.9\nweight_decay = 0.001\n";
    const ResolvedJob labels = job(
        "labels.csv", "bottom = [6]\nwidth = 4\nparties = [\"bank\", \"shop\"]\n[model]\nhidden = [8]\n" + optimizer);
    const ResolvedJob bank = job("bank.csv", "bottom = [5]\nwidth = 3\n" + optimizer);
    const ResolvedJob shop = job("shop.csv", "bottom = []\nwidth = 2\n[job]\nseed = 5\n" + optimizer);
    const PartyTable label_table(labels, true);
    const PartyTable bank_table(bank, false);
    const PartyTable shop_table(shop, false);
    const auto label_rows = label_table.aligned(alignment_of(label_table));
    const auto bank_rows = bank_table.aligned(alignment_of(bank_table));
    const auto shop_rows = shop_table.aligned(alignment_of(shop_table));
    const auto top = make_top_net(labels, label_rows, std::vector<std::uint64_t>{3, 2});
    const auto one = make_bottom_net(bank, bank_rows);
    const auto two = make_bottom_net(shop, shop_rows);
    top->save_model(folder_ / "top");
    one->save_model(folder_ / "one");
    two->save_model(folder_ / "two");
    auto own = net_in(folder_ / "top", "bottom.", 2);
    auto upper = net_in(folder_ / "top", "top.", 2);
    auto first = net_in(folder_ / "one", "", 2);
    auto second = net_in(folder_ / "two", "", 1);

    const torch::Tensor x0 = features(*label_rows);
    const torch::Tensor x1 = features(*bank_rows);
    const torch::Tensor x2 = features(*shop_rows);
    EXPECT_EQ(x0.size(1), 2);
    EXPECT_EQ(x1.size(1), 3);  // a number, and two categories
    EXPECT_EQ(x2.size(1), 2);
    torch::Tensor y = torch::empty({kRows}, torch::kInt64);
    for (int row = 0; row < kRows; ++row)
      y[row] = label_rows->label(static_cast<std::uint64_t>(row));
    std::vector<torch::Tensor> all;
    for (auto* net : {&own, &upper, &first, &second})
      for (const torch::Tensor& parameter : (*net)->parameters())
        all.push_back(parameter);
    std::unique_ptr<torch::optim::Optimizer> joined;
    if (adam)
      joined = std::make_unique<torch::optim::Adam>(all, torch::optim::AdamOptions(0.01).weight_decay(0.001));
    else
      joined =
          std::make_unique<torch::optim::SGD>(all, torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.001));
    const auto answer = [&](const torch::Tensor& rows) {
      return upper->forward(
          torch::relu(torch::cat({own->forward(x0.index_select(0, rows)), first->forward(x1.index_select(0, rows)),
                                  second->forward(x2.index_select(0, rows))},
                                 1)));
    };

    double test_loss = 0;
    double correct = 0;
    for (std::uint64_t step = 0; step < kPlan.steps(); ++step) {
      const auto place = kPlan.at(step);
      step_of_all(place, *top, {one.get(), two.get()});
      torch::Tensor rows = torch::empty({static_cast<std::int64_t>(place.rows.size())}, torch::kInt64);
      for (std::size_t i = 0; i < place.rows.size(); ++i)
        rows[static_cast<std::int64_t>(i)] = static_cast<std::int64_t>(place.rows[i]);
      const torch::Tensor targets = y.index_select(0, rows);
      if (place.train) {
        joined->zero_grad();
        torch::nn::functional::cross_entropy(answer(rows), targets).backward();
        joined->step();
      } else {
        const torch::NoGradGuard no_grad;
        const torch::Tensor scores = answer(rows);
        test_loss += torch::nn::functional::cross_entropy(scores, targets).item<double>() * rows.size(0);
        correct += (scores.argmax(1) == targets).sum().item<double>();
      }
      if (!place.ends_epoch) continue;
      const federated::EpochFigures figures = top->end_epoch();
      EXPECT_NEAR(figures.test_loss, test_loss / kPlan.test_rows, 1e-5);
      EXPECT_EQ(figures.metrics.at(0).first, "accuracy");
      EXPECT_NEAR(figures.metrics[0].second, correct / kPlan.test_rows, 1e-9);
      test_loss = correct = 0;
    }
    top->save_model(folder_ / "top");
    one->save_model(folder_ / "one");
    two->save_model(folder_ / "two");
    auto own_now = net_in(folder_ / "top", "bottom.", 2);
    auto upper_now = net_in(folder_ / "top", "top.", 2);
    auto first_now = net_in(folder_ / "one", "", 2);
    auto second_now = net_in(folder_ / "two", "", 1);
    expect_same(own, own_now);
    expect_same(upper, upper_now);
    expect_same(first, first_now);
    expect_same(second, second_now);
  }
}

TEST_F(SplitNets, GoOnFromAFileWithTheSameBits) {
  const std::string more = "bottom = [5]\nwidth = 3\n[optimizer]\nname = \"adam\"\n";
  const ResolvedJob labels = job("labels.csv", "parties = [\"bank\"]\n" + more);
  const ResolvedJob bank = job("bank.csv", more);
  const PartyTable label_table(labels, true);
  const PartyTable bank_table(bank, false);
  const auto label_rows = label_table.aligned(alignment_of(label_table));
  const auto bank_rows = bank_table.aligned(alignment_of(bank_table));
  const std::vector<std::uint64_t> widths{3};
  const auto top = make_top_net(labels, label_rows, widths);
  const auto bottom = make_bottom_net(bank, bank_rows);
  std::map<std::uint64_t, federated::EpochFigures> figures;
  const std::uint64_t kept = 7;  // in the middle of an epoch
  for (std::uint64_t step = 0; step < kPlan.steps(); ++step) {
    if (step == kept) {
      top->save(folder_ / "top");
      bottom->save(folder_ / "bottom");
    }
    step_of_all(kPlan.at(step), *top, {bottom.get()});
    if (kPlan.at(step).ends_epoch) figures[step] = top->end_epoch();
  }
  top->save_model(folder_ / "top.end");
  bottom->save_model(folder_ / "bottom.end");

  // Others, and the same ones, which are in the middle of a step.
  const auto other_top = make_top_net(labels, label_rows, widths);
  bottom->forward(kPlan.at(0).rows, true);
  other_top->load(folder_ / "top");
  bottom->load(folder_ / "bottom");
  for (std::uint64_t step = kept; step < kPlan.steps(); ++step) {
    step_of_all(kPlan.at(step), *other_top, {bottom.get()});
    if (!kPlan.at(step).ends_epoch) continue;
    const federated::EpochFigures again = other_top->end_epoch();
    EXPECT_EQ(again.train_loss, figures.at(step).train_loss);
    EXPECT_EQ(again.test_loss, figures.at(step).test_loss);
  }
  other_top->save_model(folder_ / "top.again");
  bottom->save_model(folder_ / "bottom.again");
  EXPECT_EQ(slurp(folder_ / "top.again"), slurp(folder_ / "top.end"));
  EXPECT_EQ(slurp(folder_ / "bottom.again"), slurp(folder_ / "bottom.end"));

  const auto wider = make_bottom_net(job("bank.csv", "width = 4\n"), bank_rows);
  testing::expect_error(ErrorKind::kMismatch, "parameters", [&] { wider->load(folder_ / "bottom"); });
}

// Of a file that has the rows in another order and without what is to be predicted: LibTorch's answers, by id.
TEST_F(SplitNets, WhatWasTrainedPredictsForNewRows) {
  const std::string more = "bottom = [5]\nwidth = 3\n[optimizer]\nname = \"adam\"\nlr = 0.01\n";
  const ResolvedJob labels = job("labels.csv", "parties = [\"bank\"]\n" + more);
  const ResolvedJob bank = job("bank.csv", more);
  const PartyTable label_table(labels, true);
  const PartyTable bank_table(bank, false);
  const auto label_rows = label_table.aligned(alignment_of(label_table));
  const auto bank_rows = bank_table.aligned(alignment_of(bank_table));
  const std::vector<std::uint64_t> widths{3};
  const auto top = make_top_net(labels, label_rows, widths);
  const auto bottom = make_bottom_net(bank, bank_rows);
  for (std::uint64_t step = 0; step < kPlan.steps(); ++step)
    step_of_all(kPlan.at(step), *top, {bottom.get()});
  top->save_model(folder_ / "top");
  bottom->save_model(folder_ / "bottom");
  auto own = net_in(folder_ / "top", "bottom.", 2);
  auto upper = net_in(folder_ / "top", "top.", 1);
  auto first = net_in(folder_ / "bottom", "", 2);
  const torch::NoGradGuard no_grad;
  const torch::Tensor expected =
      upper
          ->forward(
              torch::relu(torch::cat({own->forward(features(*label_rows)), first->forward(features(*bank_rows))}, 1)))
          .softmax(1);

  write("new.csv", "person,age,hours", 3,
        [](int id) { return fmt::format("{},{}", 20 + (id * 13) % 47, (id * 5) % 19); });
  const auto as_json = [](const data::DataForm& form) { return data::DataForm::from_json(form.to_json(), "form"); };
  const PartyTable new_table(labels, folder_ / "new.csv", as_json(label_table.form(alignment_of(label_table))));
  const PartyTable same_table(bank, folder_ / "bank.csv", as_json(bank_table.form(alignment_of(bank_table))));
  federated::Alignment all = alignment_of(new_table);
  all.train_rows = 0;
  federated::Alignment of_bank = alignment_of(same_table);
  of_bank.train_rows = 0;
  std::vector<float> answers(static_cast<std::size_t>(expected.numel()));
  const auto answering = load_top_net(labels, new_table.aligned(all), widths, folder_ / "top",
                                      [&](std::span<const std::uint64_t> rows, std::span<const float> given) {
                                        ASSERT_EQ(given.size(), rows.size() * 3);
                                        for (std::size_t i = 0; i < given.size(); ++i)
                                          answers.at(rows[i / 3] * 3 + i % 3) = given[i];
                                      });
  const auto giving = load_bottom_net(bank, same_table.aligned(of_bank), folder_ / "bottom");
  answering->reset();
  giving->reset();
  const federated::VerticalPlan plan{.test_rows = kRows, .batch = 16, .epochs = 1, .checkpoint_steps = 100};
  ASSERT_EQ(plan.steps(), 5);
  for (std::uint64_t step = 0; step < plan.steps(); ++step)
    step_of_all(plan.at(step), *answering, {giving.get()});
  const torch::Tensor got = torch::from_blob(answers.data(), expected.sizes());
  EXPECT_LT((got - expected).abs().max().item<double>(), 1e-6);
}

TEST_F(SplitNets, APartysRowsAreThoseOfItsIdsWhereverTheyStand) {
  const ResolvedJob bank = job("bank.csv", "");
  const PartyTable table(bank, false);
  ASSERT_EQ(table.ids().size(), kRows);
  EXPECT_EQ(table.ids()[1], "p007");
  const torch::Tensor before = features(*table.aligned(alignment_of(table)));
  write("bank.csv", "person,balance,branch", 3,
        [](int id) { return fmt::format("{},{}", (id * 29) % 83, id % 2 == 0 ? "north" : "south"); });
  const PartyTable other(bank, false);
  EXPECT_EQ(other.ids()[1], "p003");
  const torch::Tensor after = features(*other.aligned(alignment_of(other)));
  EXPECT_TRUE(torch::equal(before, after));
  // It is another table all the same, and known as one.
  EXPECT_EQ(table.columns(), 2);
  EXPECT_NE(table.content(), other.content());
  EXPECT_EQ(other.content(), PartyTable(bank, false).content());
  // A mean of 0 over the rows that are trained on, and not over all.
  EXPECT_LT(std::abs(before.narrow(0, 0, kTrainRows).select(1, 0).mean().item<double>()), 1e-6);
}

TEST_F(SplitNets, JobsThatCannotBeAreRefused) {
  using testing::expect_error;
  const auto refused = [&](const std::string& words, const std::string& more) {
    expect_error(ErrorKind::kInvalidInput, words, [&] { job("bank.csv", more); });
  };
  refused("is no name of a party", "parties = [\"a/b\"]\n");
  refused("is there twice", "parties = [\"a\", \"a\"]\n");
  refused("has no effect on vertical training", "[optimizer]\nschedule = \"cosine\"\n");
  refused("has perceptrons", "[model]\nname = \"wide_deep\"\n");
  expect_error(ErrorKind::kInvalidInput, "nothing says which row is whose",
               [&] { parse_job("[data]\nsource = \"csv\"\npartition = \"vertical\"\n", "job.toml"); });
  expect_error(ErrorKind::kInvalidInput, "has no effect without data.partition",
               [&] { parse_job("[data]\nsource = \"csv\"\n[vertical]\nid = \"a\"\n", "job.toml"); });
  refused("has no effect on vertical training", "[parallel]\nworkers = 64\n");
  expect_error(ErrorKind::kInvalidInput, "has no column to learn from beside \"person\"", [&] {
    PartyTable(parse_job(job("bank.csv", "").text, "job.toml",
                         std::vector<std::string>{"data.ignore=[\"balance\",\"branch\"]"}),
               false);
  });
  expect_error(ErrorKind::kInvalidInput, "has no column \"nobody\"", [&] {
    PartyTable(parse_job(job("bank.csv", "").text, "job.toml", std::vector<std::string>{"vertical.id=nobody"}), false);
  });
}

}  // namespace
}  // namespace muster::trainer
