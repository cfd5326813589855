// muster bench blocks: the table of times that a search of blocks weighs against accuracy. Each choice at each open
// place runs on what comes out of the place before it; rounds go through all of them in turns, and medians count.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/cli/bench/bench.h"
#include "muster/cli/bench/blocks.h"
#include "muster/compute/threads.h"
#include "muster/model/make_model.h"
#include "muster/model/zoo/fbnet_block.h"
#include "muster/model/zoo/latency_table.h"
#include "muster/model/zoo/makers.h"
#include "muster/trainer/build.h"
#include "muster/trainer/datasets.h"

namespace muster::cli {
namespace {

constexpr int kCalls = 5;  // timed in a turn, behind one that is not

struct BlocksBench {
  std::string job;
  std::vector<std::string> assignments;
  std::vector<std::string> nets;
  std::int64_t batch = 1;
  std::int64_t rounds = 31;
  std::string out;
  bool json = false;
};

// Something that is timed again and again.
struct Timed {
  std::function<void()> run;
  std::vector<double> turns_ms{};
};

void take_turns(std::vector<Timed>& all, std::int64_t rounds) {
  const torch::NoGradGuard no_grad;
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (Timed& one : all) {
      one.run();
      const auto start = system_clock().now();
      for (int call = 0; call < kCalls; ++call)
        one.run();
      one.turns_ms.push_back(microseconds_since(start) / 1e3 / kCalls);
    }
  }
}

// All parts of the table's net, with what each is given.
class Parts {
 public:
  Parts(const zoo::BlockNet& net, const torch::Tensor& input, std::int64_t classes, const zoo::LayerOptions& layers) {
    const torch::NoGradGuard no_grad;
    const auto stem =
        std::make_shared<zoo::ConvNorm>(zoo::convolution(input.size(1), net.stem, 3, net.stem_stride), layers, true);
    torch::Tensor now = add_rest(stem, input);
    for (const zoo::BlockPlace& place : net.places) {
      const std::int64_t inputs = now.size(1);
      const auto block = [&](const zoo::BlockChoice& choice) {
        return std::make_shared<zoo::FbNetBlock>(choice, inputs, place.channels, place.stride, layers);
      };
      if (place.choice) {
        now = add_rest(block(*place.choice), now);
        continue;
      }
      std::vector<int>& row = choices_.emplace_back();
      torch::Tensor next;
      for (const auto& choice : zoo::choices_at(place, inputs)) {
        row.push_back(choice ? static_cast<int>(timed_.size()) : -1);
        if (choice) next = add(block(*choice), now);
      }
      now = next;
    }
    const auto head = std::make_shared<zoo::ConvNorm>(zoo::convolution(now.size(1), net.head, 1, 1), layers, true);
    now = add_rest(head, now);
    rest_.push_back(static_cast<int>(timed_.size()));
    timed_.push_back({[fc = torch::nn::Linear(net.head, classes), now]() mutable {
      fc(torch::adaptive_avg_pool2d(now, {1, 1}).flatten(1));
    }});
  }

  std::vector<Timed>& timed() { return timed_; }
  void fill(zoo::LatencyTable& table) const {
    for (const int part : rest_)
      table.rest_ms += ms(part);
    for (const std::vector<int>& row : choices_) {
      std::vector<double>& times = table.choices_ms.emplace_back();
      for (const int part : row)
        times.push_back(part < 0 ? 0 : ms(part));
    }
  }

 private:
  template <typename Module>
  torch::Tensor add(const std::shared_ptr<Module>& module, const torch::Tensor& input) {
    module->eval();
    timed_.push_back({[module, input] { module->forward(input); }});
    return module->forward(input);
  }
  template <typename Module>
  torch::Tensor add_rest(const std::shared_ptr<Module>& module, const torch::Tensor& input) {
    rest_.push_back(static_cast<int>(timed_.size()));
    return add(module, input);
  }
  double ms(int part) const { return median(timed_[static_cast<std::size_t>(part)].turns_ms); }

  std::vector<Timed> timed_;
  std::vector<int> rest_;
  std::vector<std::vector<int>> choices_;  // -1: no block
};

void measure_nets(const BlocksBench& bench, const model::ModelOptions& options, const torch::Tensor& input) {
  std::vector<Timed> all;
  for (const std::string& name : bench.nets) {
    model::ModelOptions named = options;
    named.name = name;
    const std::shared_ptr<model::Net> net = model::make_model(named, 1);
    net->eval();
    all.push_back({[net, input] { net->forward(input); }});
  }
  take_turns(all, bench.rounds);
  for (std::size_t i = 0; i < all.size(); ++i)
    print_row({{"bench", "blocks"}, {"net", bench.nets[i]}, {"batch", bench.batch}, {"ms", median(all[i].turns_ms)}},
              bench.json);
}

void print_table(const zoo::LatencyTable& table) {
  const Json json = table.json();
  fmt::print("{}: pictures of {}, {} at once, {} thread(s); milliseconds\n", json["net"].get<std::string>(),
             json["input"].dump(), table.batch, table.threads);
  fmt::print("{:>6}  {:.4f}\n", "rest", table.rest_ms);
  for (const Json& place : json["places"]) {
    fmt::print("{:>6}", place["place"].get<std::int64_t>());
    for (const auto& [choice, ms] : place["choices"].items())
      fmt::print("  {} {:.4f}", choice, ms.get<double>());
    fmt::print("\n");
  }
}

void run_bench(const BlocksBench& bench) {
  const trainer::ResolvedJob resolved = trainer::load_job(bench.job, bench.assignments);
  const trainer::Datasets sets = trainer::open_data(resolved.job);
  const data::SampleSpec& spec = sets.train->spec();
  if (spec.shape.size() != 3 || spec.input != data::InputKind::kFloats)
    throw resolved.invalid("data.source", "blocks are for pictures");
  compute::set_threads(static_cast<int>(resolved.job.threads));
  torch::manual_seed(1);
  std::vector<std::int64_t> shape{bench.batch};
  shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
  const torch::Tensor input = torch::randn(shape);
  const model::ModelOptions options = trainer::model_options(resolved.job, spec);
  if (!bench.nets.empty()) return measure_nets(bench, options, input);
  if (!zoo::is_block_net(options.name))
    throw resolved.invalid("model.name", "is no net of blocks",
                           "For example fbnet-8-16s2-16-32s2-32-128, with open places (docs/architecture-search.md).");
  zoo::LatencyTable table;
  table.net = zoo::parse_block_net(options.name);
  if (zoo::open_places(table.net).empty())
    throw resolved.invalid("model.name", "no place of this net is open", "--net NAME measures whole nets.");
  table.input = spec.shape;
  table.batch = bench.batch;
  table.threads = resolved.job.threads;
  Parts parts(table.net, input, spec.classes, zoo::layers_of(options));
  take_turns(parts.timed(), bench.rounds);
  parts.fill(table);
  if (!bench.out.empty()) write_atomically(bench.out, table.json().dump() + "\n");
  if (bench.json) {
    fmt::print("{}\n", table.json().dump());
  } else {
    print_table(table);
  }
}

}  // namespace

void add_blocks_bench(CLI::App& bench) {
  CLI::App* command = bench.add_subcommand("blocks", "What each choice of a net of blocks takes: for muster search.");
  auto flags = std::make_shared<BlocksBench>();
  command->add_option("job", flags->job, "The job file; its model has open places")->required();
  command->add_option("--set", flags->assignments, "section.key=value, over the job file")->allow_extra_args(false);
  command->add_option("--net", flags->nets, "Measure this whole net instead; may be given several times")
      ->allow_extra_args(false);
  command->add_option("--batch", flags->batch, "Pictures at once")->capture_default_str()->check(CLI::Range(1, 65536));
  command->add_option("--rounds", flags->rounds, "Turns of each part; the median counts")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  command->add_option("--out", flags->out, "Where the table goes, for muster search --latency");
  command->add_flag("--json", flags->json, "JSON instead of text");
  command->footer(
      "Forward, without gradients, with the job's threads. Measure while nothing else runs.\n"
      "\nExamples:\n"
      "  muster bench blocks search.toml --out times.json\n"
      "  muster bench blocks search.toml --net fbnet-8-16k3e3s2-128 --net fbnet-8-16k5e6s2-128");
  command->callback([flags] { run_bench(*flags); });
}

}  // namespace muster::cli
