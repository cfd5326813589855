// Parties of vertical training whose arithmetic can be followed: nets that are sums (sum_nets.h), tables whose values
// follow from the ids, and a wire that loses answers.
#pragma once

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "muster/federated/vertical/column_party.h"
#include "muster/federated/vertical/label_holder.h"
#include "sum_nets.h"
#include "support/errors.h"
#include "support/sandbox.h"

namespace muster::federated {

inline TableMark mark_of(const std::vector<std::string>& ids) {
  return {.rows = ids.size(), .columns = 0, .ids = digest_of_ids(ids), .content = {}};
}

// A party's table: ids, and a value that follows from the id, in an order of its own.
struct TableOfIds {
  std::vector<std::string> ids;
  Values values(const Alignment& alignment, float factor) const {
    Values aligned;
    for (const std::uint64_t row : alignment.rows)
      aligned.push_back(factor * std::stof(ids.at(row)) / 100);
    return aligned;
  }
};

inline TableOfIds ids_from(int first, int last, int stride) {
  TableOfIds table;
  const int count = last - first;
  for (int i = 0; i < count; ++i)
    table.ids.push_back(std::to_string(first + (i * stride) % count));
  return table;
}

// What parties call: the label holder of now, if there is one; and calls whose answers may be lost.
class Wire final : public VerticalCalls {
  template <typename Call>
  auto pass(const Call& call) {
    ++inside_;
    const struct Leave {
      std::atomic<int>& inside;
      ~Leave() { --inside; }
    } leave{inside_};
    VerticalCalls* const calls = calls_;
    if (calls == nullptr) throw Error(ErrorKind::kPeerLost, "nobody is there", "the wire");
    auto answer = call(*calls);
    if (lose_ > 0 && ++calls_made_ % lose_ == 0) throw Error(ErrorKind::kPeerLost, "the answer is lost", "the wire");
    return answer;
  }

 public:
  void connect(VerticalCalls* calls) { calls_ = calls; }
  void lose_every(std::uint64_t nth) { lose_ = nth; }

  PartyOrder meet(const std::string& name, const PartyWish& wish, std::chrono::milliseconds wait) override {
    return pass([&](VerticalCalls& calls) { return calls.meet(name, wish, wait); });
  }
  PointsPart read_points(const std::string& name, std::uint64_t session, std::uint64_t offset,
                         std::chrono::milliseconds wait) override {
    return pass([&](VerticalCalls& calls) { return calls.read_points(name, session, offset, wait); });
  }
  PointsTaken send_points(const std::string& name, std::uint64_t session, PointsKind kind, std::uint64_t total,
                          std::uint64_t offset, std::span<const std::byte> data) override {
    return pass([&](VerticalCalls& calls) { return calls.send_points(name, session, kind, total, offset, data); });
  }
  PlacesPart read_places(const std::string& name, std::uint64_t session, std::uint64_t offset,
                         std::chrono::milliseconds wait) override {
    return pass([&](VerticalCalls& calls) { return calls.read_places(name, session, offset, wait); });
  }
  StepAnswer exchange(const std::string& name, std::uint64_t session, std::uint64_t step,
                      std::span<const float> activations, std::chrono::milliseconds wait) override {
    last_step_ = std::max<std::uint64_t>(last_step_, step);
    return pass([&](VerticalCalls& calls) { return calls.exchange(name, session, step, activations, wait); });
  }
  void give_up(const std::string& name, const std::string& seat, const std::string& reason) override {
    pass([&](VerticalCalls& calls) {
      calls.give_up(name, seat, reason);
      return true;
    });
  }
  std::uint64_t last_step() const { return last_step_; }
  // Until nobody is in a call any more.
  void disconnect() {
    calls_ = nullptr;
    while (inside_ > 0)
      std::this_thread::yield();
  }

 private:
  std::atomic<VerticalCalls*> calls_ = nullptr;
  std::atomic<std::uint64_t> lose_ = 0;
  std::atomic<std::uint64_t> calls_made_ = 0;
  std::atomic<std::uint64_t> last_step_ = 0;
  std::atomic<int> inside_ = 0;
};

class Parties : public ::testing::Test {
 protected:
  Parties() : labels_(ids_from(0, 60, 7)), names_{"bank", "shop"} {
    tables_["bank"] = ids_from(10, 70, 11);
    tables_["shop"] = ids_from(5, 55, 3);
  }

  LabelHolderOptions holder_options() const {
    LabelHolderOptions options;
    options.run = "run";
    options.folder = folder_ / "labels";
    options.parties = names_;
    options.test_fraction = 0.2;
    options.batch = 8;
    options.epochs = 5;
    options.seed = 3;
    options.checkpoint_steps = 4;
    options.patience = std::chrono::seconds(60);
    return options;
  }
  std::unique_ptr<LabelHolder> holder(const LabelHolderOptions& options, const Clock& clock = system_clock()) const {
    return std::make_unique<LabelHolder>(
        options, labels_.ids,
        [this](const Alignment& alignment, std::span<const std::uint64_t> widths) {
          return std::make_unique<SumTop>(labels_.values(alignment, 3), widths.size());
        },
        clock);
  }
  ColumnPartyOptions party_options(const std::string& name) const {
    return {.name = name, .state = folder_ / "state", .width = kWidth, .patience = std::chrono::seconds(60)};
  }
  std::unique_ptr<ColumnParty> party(const std::string& name, VerticalCalls& calls) const {
    return party(party_options(name), calls);
  }
  std::unique_ptr<ColumnParty> party(const ColumnPartyOptions& options, VerticalCalls& calls) const {
    const std::string& name = options.name;
    const TableOfIds& table = tables_.at(name);
    return std::make_unique<ColumnParty>(calls, options, table.ids, [&table, name](const Alignment& a) {
      return std::make_unique<SumBottom>(table.values(a, name == "bank" ? 1 : 2));
    });
  }
  std::filesystem::path state(const std::string& name) const { return folder_ / "state" / "run" / name; }
  std::string model_of(const std::string& name) const {
    return testing::slurp((name == "labels" ? folder_ / "labels" : state(name)) / "model.safetensors");
  }

  // What all parties' weights are when one program computes everything, without any protocol.
  std::map<std::string, std::string> plainly() {
    const PartyFiles labels(folder_ / "labels");
    const Alignment alignment = *labels.alignment(mark_of(labels_.ids));
    SumTop top(labels_.values(alignment, 3), names_.size());
    std::vector<SumBottom> bottoms;
    for (const std::string& name : names_) {
      const TableOfIds& table = tables_.at(name);
      const Alignment own = *PartyFiles(state(name)).alignment(mark_of(table.ids));
      bottoms.emplace_back(table.values(own, name == "bank" ? 1 : 2));
    }
    const VerticalPlan plan = plan_of(alignment);
    for (std::uint64_t step = 0; step < plan.steps(); ++step) {
      const VerticalPlan::Place place = plan.at(step);
      std::vector<std::vector<float>> activations;
      for (SumBottom& bottom : bottoms)
        activations.push_back(bottom.forward(place.rows, place.train));
      const auto gradients = top.step(place.rows, activations, place.train);
      for (std::size_t i = 0; place.train && i < bottoms.size(); ++i)
        bottoms[i].backward(gradients[i]);
      if (place.ends_epoch) top.end_epoch();
    }
    std::map<std::string, std::string> models;
    top.save_model(folder_ / "plain");
    models["labels"] = testing::slurp(folder_ / "plain");
    for (std::size_t i = 0; i < bottoms.size(); ++i) {
      bottoms[i].save_model(folder_ / "plain");
      models[names_[i]] = testing::slurp(folder_ / "plain");
    }
    return models;
  }
  VerticalPlan plan_of(const Alignment& alignment) const {
    const LabelHolderOptions options = holder_options();
    return {alignment.train_rows, alignment.rows.size() - alignment.train_rows,
            options.batch,        options.epochs,
            options.seed,         options.checkpoint_steps};
  }
  void expect_the_plain_weights() {
    for (const auto& [name, model] : plainly())
      EXPECT_EQ(model_of(name), model) << name;
  }

  // The party in a thread; `on` false stops it.
  std::thread thread_of(const std::string& name, const std::atomic<bool>& on) {
    return std::thread([this, name, &on] {
      try {
        party(name, wire_)->run([&] { return on.load(); });
      } catch (const Error& error) {
        const std::lock_guard<std::mutex> lock(mutex_);
        errors_[name] = error.what();
      }
    });
  }
  std::string error_of_party(const std::string& name) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return errors_[name];
  }

  static bool always() { return true; }

  const TableOfIds labels_;
  const std::vector<std::string> names_;
  std::map<std::string, TableOfIds> tables_;
  const testing::TemporaryFolder folder_;
  Wire wire_;
  std::mutex mutex_;
  std::map<std::string, std::string> errors_;
};

}  // namespace muster::federated
