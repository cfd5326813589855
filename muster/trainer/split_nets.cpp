// Gradients land in flat memory, and the stages of a commit (compute/slice_update.h) turn version k into k + 1. The cut
// between parties is a leaf of autograd on either side: what one gets as its gradient is where the other begins.
#include "muster/trainer/split_nets.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <torch/torch.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/compute/exemption.h"
#include "muster/compute/module_binding.h"
#include "muster/compute/slice_update.h"
#include "muster/compute/threads.h"
#include "muster/data/loader.h"
#include "muster/federated/vertical/checked_tensors.h"
#include "muster/model/safetensors.h"
#include "muster/model/zoo/mlp.h"
#include "muster/trainer/batch_tensors.h"
#include "muster/trainer/build.h"

namespace muster::trainer {
namespace {

constexpr std::chrono::hours kReadLimit{1};  // rows lie in memory

// LibTorch's exceptions as ours.
template <typename Body>
auto with_our_errors(const Body& body) {
  try {
    return body();
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::kCompute, error.what_without_backtrace(), "vertical training");
  }
}

void seed_weights(const ResolvedJob& resolved) {
  compute::set_threads(static_cast<int>(resolved.job.threads));
  torch::manual_seed(
      derive_seed({.seed = static_cast<std::uint64_t>(resolved.job.seed), .purpose = Purpose::kModelInit}));
}

std::shared_ptr<model::Net> new_bottom(const ResolvedJob& resolved, const data::Dataset& rows) {
  return zoo::mlp({.inputs = static_cast<std::int64_t>(rows.spec().elements()),
                   .hidden = resolved.job.vertical.bottom,
                   .classes = resolved.job.vertical.width});
}

// The label holder's two nets.
struct TopParts : torch::nn::Module {
  TopParts(std::shared_ptr<model::Net> own, std::shared_ptr<model::Net> upper)
      : bottom(register_module("bottom", std::move(own))), top(register_module("top", std::move(upper))) {}
  const std::shared_ptr<model::Net> bottom;
  const std::shared_ptr<model::Net> top;
};

std::shared_ptr<TopParts> new_top(const ResolvedJob& resolved, const data::Dataset& rows,
                                  std::span<const std::uint64_t> widths) {
  const data::SampleSpec& spec = rows.spec();
  std::int64_t inputs = resolved.job.vertical.width;
  for (const std::uint64_t width : widths)
    inputs += static_cast<std::int64_t>(width);
  seed_weights(resolved);
  auto bottom = new_bottom(resolved, rows);
  auto top =
      zoo::mlp({.inputs = inputs,
                .hidden = resolved.job.model.hidden,
                .classes = spec.target == data::TargetKind::kValues ? static_cast<std::int64_t>(spec.target_elements())
                                                                    : spec.classes});
  return std::make_shared<TopParts>(std::move(bottom), std::move(top));
}

// A module with the state of the job's optimizer.
class OptimizedNet {
 public:
  OptimizedNet(const ResolvedJob& resolved, std::shared_ptr<torch::nn::Module> module)
      : lr_(resolved.lr),
        clip_norm_(resolved.job.optimizer.clip_norm),
        binding_(std::move(module)),
        optimizer_(compute::make_optimizer(optimizer_options(resolved))) {
    const model::FlatLayout& layout = binding_.layout();
    const auto memory = std::make_shared<std::array<std::vector<float>, 2>>();
    for (int version = 0; version < 2; ++version) {
      (*memory)[version].resize(layout.size());
      parameters_[version] = (*memory)[version];
      for (int slot = 0; slot < optimizer_->slots(); ++slot)
        state_[version][slot].resize(layout.size());
      updates_[version].resize(layout.tensors().size());
    }
    binding_.read_parameters(parameters_[0]);
    first_.assign(parameters_[0].begin(), parameters_[0].end());
    gradient_.resize(layout.size());
    present_.resize(layout.tensors().size());
    records_.resize(layout.blocks().size());
    norms_.resize(layout.blocks().size());
    const double decay = compute::weight_decay(optimizer_options(resolved));
    const compute::Exemption exemption = compute::parse_exemption(resolved.job.optimizer.exempt);
    for (const model::TensorSlot& slot : layout.tensors()) {
      const bool exempt = compute::is_exempt(exemption, slot);
      rules_.push_back({.weight_decay = exempt ? 0 : decay, .adapt = !exempt});
    }
    binding_.attach({parameters_[0], parameters_[1]}, memory);
    reset();
  }

  void reset() {
    std::ranges::copy(first_, parameters_[0].begin());
    for (std::vector<float>& slot : state_[0])
      std::ranges::fill(slot, 0.0F);
    std::ranges::fill(updates_[0], 0);
    show_first();
  }

  // What backward gives between the two is one step. A step that was begun may be begun anew.
  void begin_step() {
    abandon();
    binding_.begin_lane({gradient_, present_, {}});
    in_step_ = true;
  }
  void end_step() {
    MUSTER_CHECK(in_step_, "a step that was begun");
    binding_.collect();
    in_step_ = false;
    const compute::LaneGradient lane{gradient_.data(), present_.data()};
    const model::FlatLayout& layout = binding_.layout();
    const compute::UpdateRule rule{
        .optimizer = optimizer_.get(), .lr = lr_, .clip_norm = clip_norm_, .tensors = rules_};
    const compute::BlockRange all{0, layout.blocks().size()};
    compute::examine_slice(layout, lane, all, records_);
    const compute::Verdict verdict = compute::judge_step(records_, clip_norm_);
    if (!verdict.apply)
      throw Error(ErrorKind::kCompute, "the gradient is not finite", "vertical training",
                  "Lower optimizer.lr, or set optimizer.clip_norm.");
    const compute::Version current = version(shown_);
    std::span<const compute::Norms> norms;
    if (optimizer_->needs_norms()) {
      compute::measure_slice(layout, lane, rule, verdict, all, current, norms_);
      norms = norms_;
    }
    compute::update_slice(layout, lane, rule, verdict, all, current, version(1 - shown_), norms);
    shown_ = 1 - shown_;
    binding_.show(shown_);
  }
  void abandon() {
    if (std::exchange(in_step_, false)) binding_.abandon_lane();
  }

  // For a file of state; they are good until the next step.
  std::vector<model::TensorView> state() const {
    std::vector<model::TensorView> tensors;
    const auto add = [&](std::string name, model::Dtype dtype, std::size_t count, std::span<const std::byte> data) {
      tensors.push_back({std::move(name), dtype, {static_cast<std::int64_t>(count)}, data});
    };
    add("parameters", model::Dtype::kF32, parameters_[shown_].size(),
        std::as_bytes(std::span<const float>(parameters_[shown_])));
    add("updates", model::Dtype::kI64, updates_[shown_].size(), std::as_bytes(std::span(updates_[shown_])));
    for (int slot = 0; slot < optimizer_->slots(); ++slot)
      add(fmt::format("state.{}", slot), model::Dtype::kF32, state_[shown_][slot].size(),
          std::as_bytes(std::span(state_[shown_][slot])));
    return tensors;
  }
  // Throws Error{kMismatch | kNotFound} for a file of another net or optimizer.
  void load(const model::SafetensorsFile& file) {
    file.read("parameters", std::as_writable_bytes(parameters_[0]));
    file.read("updates", std::as_writable_bytes(std::span(updates_[0])));
    for (int slot = 0; slot < optimizer_->slots(); ++slot)
      file.read(fmt::format("state.{}", slot), std::as_writable_bytes(std::span(state_[0][slot])));
    show_first();
  }

  // From now on reset() goes back to these weights.
  void load_model(const std::filesystem::path& path) {
    const model::SafetensorsFile file(path);
    for (const model::TensorSlot& slot : binding_.layout().tensors())
      file.read(slot.name, std::as_writable_bytes(parameters_[0].subspan(slot.offset, slot.count)));
    first_.assign(parameters_[0].begin(), parameters_[0].end());
    reset();
  }
  void save_model(const std::filesystem::path& path) const {
    std::vector<model::TensorView> tensors;
    for (const model::TensorSlot& slot : binding_.layout().tensors())
      tensors.push_back({slot.name, model::Dtype::kF32, slot.shape,
                         std::as_bytes(std::span<const float>(parameters_[shown_]).subspan(slot.offset, slot.count))});
    model::write_safetensors(path, tensors, {{"format", "pt"}});
  }

 private:
  // What a step does not change has to be the same in either version.
  void show_first() {
    abandon();
    std::ranges::copy(parameters_[0], parameters_[1].begin());
    state_[1] = state_[0];
    updates_[1] = updates_[0];
    shown_ = 0;
    binding_.show(0);
  }

  compute::Version version(int which) {
    compute::Version made{.parameters = parameters_[which], .state = {}, .updates = updates_[which]};
    for (int slot = 0; slot < optimizer_->slots(); ++slot)
      made.state[slot] = state_[which][slot];
    return made;
  }

  const double lr_;
  const std::optional<double> clip_norm_;
  compute::ModuleBinding binding_;
  const std::unique_ptr<const compute::Optimizer> optimizer_;
  std::vector<compute::TensorRule> rules_;
  std::vector<float> first_;
  std::array<std::span<float>, 2> parameters_;  // memory that the binding keeps
  std::array<std::array<std::vector<float>, compute::kMaxSlots>, 2> state_;
  std::array<std::vector<std::uint64_t>, 2> updates_;
  int shown_ = 0;
  bool in_step_ = false;
  std::vector<float> gradient_;
  std::vector<std::uint8_t> present_;
  std::vector<compute::BlockSum> records_;
  std::vector<compute::Norms> norms_;
};

data::Batch take_batch(data::Loader& loader, std::span<const std::uint64_t> rows) {
  return loader.take(loader.submit({rows.begin(), rows.end()}), Deadline::after(kReadLimit));
}

std::vector<float> numbers_of(const torch::Tensor& tensor) {
  const torch::Tensor contiguous = tensor.contiguous();
  const float* const first = contiguous.data_ptr<float>();
  return {first, first + contiguous.numel()};
}

class SplitBottom final : public federated::BottomNet {
 public:
  SplitBottom(const ResolvedJob& resolved, std::shared_ptr<const data::Dataset> rows)
      : width_(static_cast<std::uint64_t>(resolved.job.vertical.width)), loader_(rows, {.threads = 0}) {
    seed_weights(resolved);
    net_ = new_bottom(resolved, *rows);
    optimized_ = std::make_unique<OptimizedNet>(resolved, net_);
  }

  std::uint64_t width() const override { return width_; }
  void reset() override {
    given_ = torch::Tensor();
    optimized_->reset();
  }
  void save(const std::filesystem::path& path) const override { federated::write_checked(path, optimized_->state()); }
  void load(const std::filesystem::path& path) override {
    given_ = torch::Tensor();
    optimized_->load(federated::open_checked(path));
  }
  void save_model(const std::filesystem::path& path) const override { optimized_->save_model(path); }
  void load_model(const std::filesystem::path& path) { optimized_->load_model(path); }

  std::vector<float> forward(std::span<const std::uint64_t> rows, bool train) override {
    return with_our_errors([&] {
      data::Batch batch = take_batch(loader_, rows);
      const torch::AutoGradMode gradients(train);
      if (train) optimized_->begin_step();
      given_ = net_->forward(input_tensor(batch).clone());  // backward looks at it, when the batch is gone
      loader_.recycle(std::move(batch));
      return numbers_of(given_.detach());
    });
  }

  void backward(std::span<const float> gradient) override {
    MUSTER_CHECK(given_.defined() && gradient.size() == static_cast<std::size_t>(given_.numel()),
                 "the gradient of what was given");
    with_our_errors([&] {
      torch::Tensor of_given = torch::empty(given_.sizes());
      std::memcpy(of_given.data_ptr<float>(), gradient.data(), gradient.size_bytes());
      given_.backward(of_given);
      given_ = torch::Tensor();
      optimized_->end_step();
    });
  }

 private:
  const std::uint64_t width_;
  data::Loader loader_;
  std::shared_ptr<model::Net> net_;
  std::unique_ptr<OptimizedNet> optimized_;
  torch::Tensor given_;
};

class SplitTop final : public federated::TopNet {
 public:
  SplitTop(const ResolvedJob& resolved, std::shared_ptr<const data::Dataset> rows,
           std::span<const std::uint64_t> widths)
      : widths_(widths.begin(), widths.end()),
        spec_(rows->spec()),
        task_(build_task(resolved.job, rows->spec())),
        loader_(rows, {.threads = 0}),
        parts_(new_top(resolved, *rows, widths)),
        optimized_(resolved, parts_) {}

  void reset() override {
    forget();
    optimized_.reset();
  }

  // Of an epoch that is under way the figures so far are state as the weights are.
  void save(const std::filesystem::path& path) const override {
    std::vector<model::TensorView> tensors = optimized_.state();
    for (const auto& [name, values] : figures())
      if (!values->empty())
        tensors.push_back(
            {name, model::Dtype::kF64, {static_cast<std::int64_t>(values->size())}, std::as_bytes(std::span(*values))});
    federated::write_checked(path, tensors);
  }
  void load(const std::filesystem::path& path) override {
    const model::SafetensorsFile file = federated::open_checked(path);
    optimized_.load(file);
    forget();
    for (const auto& [name, values] : figures()) {
      const model::TensorEntry* const entry = file.header().find(name);
      if (entry == nullptr) continue;
      values->resize(entry->bytes() / sizeof(double));
      file.read(name, std::as_writable_bytes(std::span(*values)));
    }
  }
  void save_model(const std::filesystem::path& path) const override { optimized_.save_model(path); }
  // From now on it answers, and measures nothing.
  void predict(const std::filesystem::path& path, OnAnswers on_answers) {
    optimized_.load_model(path);
    on_answers_ = std::move(on_answers);
  }

  std::vector<std::vector<float>> step(std::span<const std::uint64_t> rows,
                                       std::span<const std::vector<float>> activations, bool train) override {
    return with_our_errors([&] {
      data::Batch batch = take_batch(loader_, rows);
      const torch::AutoGradMode gradients(train);
      if (train) optimized_.begin_step();
      const std::vector<torch::Tensor> others = tensors_of(activations, static_cast<std::int64_t>(rows.size()), train);
      std::vector<torch::Tensor> all{parts_->bottom->forward(input_tensor(batch))};
      all.insert(all.end(), others.begin(), others.end());
      const torch::Tensor answer = parts_->top->forward(torch::relu(torch::cat(all, 1)));
      std::vector<std::vector<float>> result;
      if (train) {
        const torch::Tensor loss = task_->loss(answer, target_tensor(batch));
        const double value = loss.item<double>();
        if (!std::isfinite(value))
          throw Error(ErrorKind::kCompute, "the loss is not finite", "vertical training",
                      "Lower optimizer.lr, or set optimizer.clip_norm.");
        losses_.push_back(value * static_cast<double>(rows.size()));
        losses_.push_back(static_cast<double>(rows.size()));
        loss.backward();
        for (const torch::Tensor& other : others)
          result.push_back(numbers_of(other.grad()));
        optimized_.end_step();
      } else if (on_answers_) {
        const bool classes = spec_.target == data::TargetKind::kClass;
        on_answers_(rows, numbers_of(classes ? answer.slice(1, 0, spec_.classes).softmax(1) : answer));
      } else {
        std::vector<double> of_batch(task_->batch_figures());
        std::vector<double> of_samples(task_->sample_figures() * rows.size());
        task_->measure(answer, target_tensor(batch), of_batch, of_samples);
        batches_.insert(batches_.end(), of_batch.begin(), of_batch.end());
        samples_.insert(samples_.end(), of_samples.begin(), of_samples.end());
      }
      loader_.recycle(std::move(batch));
      return result;
    });
  }

  federated::EpochFigures end_epoch() override {
    federated::EpochFigures figures;
    if (on_answers_) return figures;
    double count = 0;
    for (std::size_t i = 0; i + 1 < losses_.size(); i += 2) {
      figures.train_loss += losses_[i];
      count += losses_[i + 1];
    }
    figures.train_loss /= count;
    const Evaluation evaluation = task_->judge(batches_, samples_);
    figures.test_loss = evaluation.loss;
    for (const Metric& metric : evaluation.metrics)
      figures.metrics.emplace_back(metric.name, metric.value);
    forget();
    return figures;
  }

 private:
  std::vector<torch::Tensor> tensors_of(std::span<const std::vector<float>> activations, std::int64_t rows,
                                        bool train) const {
    MUSTER_CHECK(activations.size() == widths_.size(), "activations of each party");
    std::vector<torch::Tensor> tensors;
    for (std::size_t i = 0; i < widths_.size(); ++i) {
      torch::Tensor tensor = torch::empty({rows, static_cast<std::int64_t>(widths_[i])});
      MUSTER_CHECK(activations[i].size() == static_cast<std::size_t>(tensor.numel()), "a number for each activation");
      std::memcpy(tensor.data_ptr<float>(), activations[i].data(), activations[i].size() * sizeof(float));
      tensors.push_back(tensor.requires_grad_(train));
    }
    return tensors;
  }

  std::array<std::pair<const char*, const std::vector<double>*>, 3> figures() const {
    return {{{"losses", &losses_}, {"batches", &batches_}, {"samples", &samples_}}};
  }
  std::array<std::pair<const char*, std::vector<double>*>, 3> figures() {
    return {{{"losses", &losses_}, {"batches", &batches_}, {"samples", &samples_}}};
  }
  void forget() {
    for (const auto& [name, values] : figures())
      values->clear();
  }

  const std::vector<std::uint64_t> widths_;
  const data::SampleSpec spec_;
  const std::shared_ptr<const Task> task_;
  data::Loader loader_;
  const std::shared_ptr<TopParts> parts_;
  OptimizedNet optimized_;
  // Of the epoch so far: sum of losses and rows of each step; the task's figures of the test rows.
  std::vector<double> losses_;
  std::vector<double> batches_;
  std::vector<double> samples_;
  OnAnswers on_answers_;
};

}  // namespace

std::unique_ptr<federated::BottomNet> make_bottom_net(const ResolvedJob& resolved,
                                                      std::shared_ptr<const data::Dataset> rows) {
  return with_our_errors([&] { return std::make_unique<SplitBottom>(resolved, std::move(rows)); });
}

std::unique_ptr<federated::TopNet> make_top_net(const ResolvedJob& resolved, std::shared_ptr<const data::Dataset> rows,
                                                std::span<const std::uint64_t> widths) {
  return with_our_errors([&] { return std::make_unique<SplitTop>(resolved, std::move(rows), widths); });
}

std::unique_ptr<federated::BottomNet> load_bottom_net(const ResolvedJob& resolved,
                                                      std::shared_ptr<const data::Dataset> rows,
                                                      const std::filesystem::path& model) {
  return with_our_errors([&] {
    auto net = std::make_unique<SplitBottom>(resolved, std::move(rows));
    net->load_model(model);
    return net;
  });
}

std::unique_ptr<federated::TopNet> load_top_net(const ResolvedJob& resolved, std::shared_ptr<const data::Dataset> rows,
                                                std::span<const std::uint64_t> widths,
                                                const std::filesystem::path& model, OnAnswers on_answers) {
  return with_our_errors([&] {
    auto net = std::make_unique<SplitTop>(resolved, std::move(rows), widths);
    net->predict(model, std::move(on_answers));
    return net;
  });
}

}  // namespace muster::trainer
