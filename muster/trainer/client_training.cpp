// A client's steps are those of a session with one lane: gradients land in flat memory, and the stages of a commit
// (compute/slice_update.h) turn version k into k + 1. What federated algorithms add (a pull, a correction) they add to
// the gradient in between.
#include "muster/trainer/client_training.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/heap.h"
#include "muster/base/random.h"
#include "muster/compute/exemption.h"
#include "muster/compute/module_binding.h"
#include "muster/compute/slice_update.h"
#include "muster/compute/threads.h"
#include "muster/compute/tuning.h"
#include "muster/data/loader.h"
#include "muster/data/permutation.h"
#include "muster/federated/accountant.h"
#include "muster/model/safetensors.h"
#include "muster/trainer/batch_tensors.h"
#include "muster/trainer/build.h"
#include "muster/trainer/class_weights.h"
#include "muster/trainer/evaluation_batch.h"
#include "muster/trainer/frozen_parts.h"
#include "muster/trainer/initial_state.h"
#include "muster/trainer/job_check.h"
#include "muster/trainer/job_fit.h"
#include "muster/trainer/task.h"

namespace muster::trainer {
namespace {

constexpr std::chrono::hours kReadTimeout{1};  // reading is done by the caller itself: looked at between samples

std::shared_ptr<model::Net> begin_model(const ResolvedJob& resolved, const data::SampleSpec& spec) {
  compute::set_threads(static_cast<int>(resolved.job.threads));
  keep_freed_memory();
  std::shared_ptr<model::Net> net = build_fitting_model(resolved, spec);
  about_key(resolved, "model.init", [&] { return initialize_model(resolved.job, *net); });
  return net;
}

class ClientTraining final : public federated::LocalTraining {
 public:
  ClientTraining(const ResolvedJob& resolved, const Datasets& sets)
      : seed_(static_cast<std::uint64_t>(resolved.job.seed)),
        batch_(resolved.batch),
        lr_(resolved.lr),
        clip_norm_(resolved.job.optimizer.clip_norm),
        train_(sets.train),
        test_(sets.test ? sets.test : sets.validation),
        task_(about_key(resolved, "loss.task",
                        [&] {
                          return build_task(resolved.job, sets.train->spec(),
                                            trainer::class_weights(parse_class_weights(resolved.job.loss.class_weights),
                                                                   *sets.train));
                        })),
        net_(begin_model(resolved, sets.train->spec())),
        frozen_(tuning(resolved.job), *net_),
        binding_(net_),
        optimizer_(compute::make_optimizer(optimizer_options(resolved))),
        rules_(make_rules(resolved)),
        loader_(sets.train, {.threads = 0}) {
    if (!test_)
      throw resolved.invalid("data.test_path", "there is no test set to judge the rounds by",
                             "Hold a part back (data.test_fraction), or name a test set.");
    test_loader_ = std::make_unique<data::Loader>(test_, data::LoaderOptions{.threads = 0});
    if (resolved.job.federated.noise > 0) refuse_statistics(resolved, "federated.noise");
    if (resolved.job.federated.sample_noise > 0) refuse_statistics(resolved, "federated.sample_noise");
    const std::size_t floats = binding_.layout().size();
    const auto memory = std::make_shared<std::array<std::vector<float>, 2>>();
    for (int version = 0; version < 2; ++version) {
      (*memory)[version].resize(floats);
      versions_[version] = (*memory)[version];
      for (int slot = 0; slot < optimizer_->slots(); ++slot)
        state_[version][slot].resize(floats);
      updates_[version].resize(binding_.layout().tensors().size());
    }
    binding_.read_parameters(versions_[0]);
    first_buffers_.resize(binding_.buffer_layout().bytes);
    binding_.read_buffers(first_buffers_);
    buffers_ = first_buffers_;
    for (const compute::BufferSlot& slot : binding_.buffer_layout().slots) {
      if (slot.dtype == model::Dtype::kF32) buffer_floats_ += slot.bytes / sizeof(float);
    }
    first_.assign(versions_[0].begin(), versions_[0].end());
    gradient_.resize(floats);
    present_.resize(binding_.layout().tensors().size());
    records_.resize(binding_.layout().blocks().size());
    norms_.resize(binding_.layout().blocks().size());
    binding_.attach({versions_[0], versions_[1]}, memory);
  }

  std::size_t parameters() const override { return binding_.layout().size(); }
  std::size_t size() const override { return parameters() + buffer_floats_; }

  std::uint64_t batch() const override { return batch_; }
  std::vector<federated::TensorPlace> tensors() const override {
    std::vector<federated::TensorPlace> places;
    for (const model::TensorSlot& slot : binding_.layout().tensors())
      places.push_back({slot.name, slot.shape, slot.offset});
    std::uint64_t offset = parameters();
    for (const compute::BufferSlot& slot : binding_.buffer_layout().slots) {
      if (slot.dtype != model::Dtype::kF32 || slot.bytes == 0) continue;
      places.push_back({slot.name, slot.shape, offset});
      offset += slot.bytes / sizeof(float);
    }
    return places;
  }

  void first_values(std::span<float> model) override {
    std::ranges::copy(first_, model.begin());
    gather_buffers(first_buffers_, model.subspan(parameters()));
  }

  federated::LocalResult train(const federated::LocalTask& task, std::span<const float> model,
                               std::span<float> update) override {
    try {
      begin(model);
      net_->train();
      frozen_.enter_epoch(0);
      federated::LocalResult result{.lr = lr_ * task.rate};
      federated::SecretStream secret(task.key);
      for (std::int64_t epoch = 0; task.privacy.noise > 0 && epoch < task.epochs; ++epoch)
        train_epoch_in_private(task, static_cast<std::uint64_t>(epoch), model, secret, result);
      for (std::int64_t epoch = 0; !(task.privacy.noise > 0) && epoch < task.epochs; ++epoch)
        train_epoch(task, static_cast<std::uint64_t>(epoch), model, result);
      for (std::size_t i = 0; i < parameters(); ++i)
        update[i] = versions_[shown_][i] - model[i];
      binding_.read_buffers(buffers_);
      const std::span<float> of_buffers = update.subspan(parameters());
      gather_buffers(buffers_, of_buffers);
      for (std::size_t i = 0; i < of_buffers.size(); ++i)
        of_buffers[i] -= model[parameters() + i];
      return result;
    } catch (const c10::Error& error) {
      throw Error(ErrorKind::kCompute, error.what_without_backtrace(),
                  fmt::format("client {}, round {}", task.client, task.round + 1));
    }
  }

  std::size_t evaluation_pieces() const override { return (test_->size() + kEvaluationBatch - 1) / kEvaluationBatch; }
  std::size_t figures_of_piece() const override {
    return task_->batch_figures() + task_->sample_figures() * kEvaluationBatch;
  }

  void measure(std::span<const float> model, std::size_t piece, std::span<double> figures) override {
    begin(model);
    std::vector<std::uint64_t> ids;
    for (std::uint64_t id = piece * kEvaluationBatch; id < std::min(test_->size(), (piece + 1) * kEvaluationBatch);
         ++id)
      ids.push_back(id);
    measure_batch(*test_loader_, std::move(ids), figures);
  }

  federated::Figures evaluate(std::span<const std::uint64_t> ids, std::span<const float> model) override {
    begin(model);
    std::vector<double> batches;
    std::vector<double> samples;
    std::vector<double> figures(figures_of_piece());
    for (std::size_t first = 0; first < ids.size(); first += kEvaluationBatch) {
      const auto of_batch = ids.subspan(first, std::min<std::size_t>(kEvaluationBatch, ids.size() - first));
      measure_batch(loader_, {of_batch.begin(), of_batch.end()}, figures);
      split_figures(figures, of_batch.size(), batches, samples);
    }
    return to_figures(task_->judge(batches, samples));
  }

  federated::Figures judge(std::span<const double> figures) override {
    std::vector<double> batches;
    std::vector<double> samples;
    for (std::size_t piece = 0; piece < evaluation_pieces(); ++piece)
      split_figures(figures.subspan(piece * figures_of_piece(), figures_of_piece()),
                    std::min(kEvaluationBatch, test_->size() - piece * kEvaluationBatch), batches, samples);
    return to_figures(task_->judge(batches, samples));
  }

  void save(std::span<const float> model, const std::filesystem::path& path) override {
    begin(model);
    binding_.read_buffers(buffers_);
    std::vector<model::TensorView> tensors;
    for (const model::TensorSlot& slot : binding_.layout().tensors())
      tensors.push_back({slot.name, model::Dtype::kF32, slot.shape,
                         std::as_bytes(std::span<const float>(versions_[0]).subspan(slot.offset, slot.count))});
    for (const compute::BufferSlot& slot : binding_.buffer_layout().slots)
      tensors.push_back(
          {slot.name, slot.dtype, slot.shape, std::span<const std::byte>(buffers_).subspan(slot.offset, slot.bytes)});
    model::write_safetensors(path, tensors, {{"format", "pt"}});
  }

 private:
  std::vector<compute::TensorRule> make_rules(const ResolvedJob& resolved) const {
    const double decay = compute::weight_decay(optimizer_options(resolved));
    const compute::Exemption exemption = compute::parse_exemption(resolved.job.optimizer.exempt);
    const compute::Tuning tuned = tuning(resolved.job);
    std::vector<compute::TensorRule> rules;
    for (const model::TensorSlot& slot : binding_.layout().tensors()) {
      const bool exempt = compute::is_exempt(exemption, slot);
      const bool trainable = compute::frozen_epochs(tuned, slot.name) != compute::kFrozenForever;
      rules.push_back({exempt ? 0 : decay, !exempt, trainable, compute::lr_factor(tuned, slot.name)});
    }
    return rules;
  }

  // Statistics of batch norm mix the samples of a batch, and have no bound that noise could hide them by.
  void refuse_statistics(const ResolvedJob& resolved, const char* key) const {
    for (const compute::BufferSlot& slot : binding_.buffer_layout().slots) {
      if (slot.name.ends_with("running_var"))
        throw resolved.invalid(key, fmt::format("{}: statistics of batch norm cannot be protected by noise", slot.name),
                               "Use a model without batch norm (model.norm = \"group\"), or no noise.");
    }
  }

  // The figures of a piece: of the batch, then of each sample.
  void split_figures(std::span<const double> piece, std::uint64_t count, std::vector<double>& batches,
                     std::vector<double>& samples) const {
    const auto of_batch = piece.first(task_->batch_figures());
    batches.insert(batches.end(), of_batch.begin(), of_batch.end());
    const auto of_samples = piece.subspan(task_->batch_figures(), task_->sample_figures() * count);
    samples.insert(samples.end(), of_samples.begin(), of_samples.end());
  }

  static federated::Figures to_figures(const Evaluation& evaluation) {
    federated::Figures figures{.loss = evaluation.loss, .samples = evaluation.samples};
    for (const Metric& metric : evaluation.metrics)
      figures.metrics.emplace_back(metric.name, metric.value);
    return figures;
  }

  // Of the model that is bound.
  void measure_batch(data::Loader& loader, std::vector<std::uint64_t> ids, std::span<double> figures) {
    try {
      const torch::NoGradGuard no_grad;
      net_->eval();
      data::Batch batch = loader.take(loader.submit(std::move(ids)), Deadline::after(kReadTimeout));
      std::ranges::fill(figures, 0.0);
      task_->measure(net_->forward(input_tensor(batch)), target_tensor(batch), figures.first(task_->batch_figures()),
                     figures.subspan(task_->batch_figures(), task_->sample_figures() * batch.size()));
      loader.recycle(std::move(batch));
    } catch (const c10::Error& error) {
      throw Error(ErrorKind::kCompute, error.what_without_backtrace(), "evaluation");
    }
  }

  // The round's model, with fresh state of the optimizer.
  void begin(std::span<const float> model) {
    for (int version = 0; version < 2; ++version) {
      // Both: what a step does not change has to be the same in either.
      std::ranges::copy(model.first(parameters()), versions_[version].begin());
      for (std::vector<float>& slot : state_[version])
        std::ranges::fill(slot, 0.0F);
      std::ranges::fill(updates_[version], 0);
    }
    shown_ = 0;
    binding_.show(0);
    buffers_ = first_buffers_;
    scatter_buffers(model.subspan(parameters()), buffers_);
    binding_.write_buffers(buffers_);
  }

  void train_epoch(const federated::LocalTask& task, std::uint64_t epoch, std::span<const float> model,
                   federated::LocalResult& result) {
    const std::uint64_t count = task.samples.size();
    const std::uint64_t steps = (count + batch_ - 1) / batch_;
    const StreamKey key{.seed = seed_,
                        .purpose = Purpose::kPermutation,
                        .epoch = task.round + 1,
                        .step = epoch,
                        .sample = task.client + 1};
    const data::Permutation order(count, key);
    double loss_sum = 0;
    for (std::uint64_t step = 0; step < steps; ++step) {
      // Of nearly equal size: a last batch of one sample would be refused by batch norm.
      std::vector<std::uint64_t> ids;
      for (std::uint64_t i = step * count / steps; i < (step + 1) * count / steps; ++i)
        ids.push_back(task.samples[order(i)]);
      data::Batch batch = loader_.take(loader_.submit(std::move(ids), task.round), Deadline::after(kReadTimeout));
      torch::manual_seed(derive_seed({.seed = seed_,
                                      .purpose = Purpose::kFederated,
                                      .epoch = task.round + 1,
                                      .step = epoch * steps + step,
                                      .lane = 1,
                                      .sample = task.client}));
      loss_sum += train_step(task, model, batch, result) * static_cast<double>(batch.size());
      loader_.recycle(std::move(batch));
    }
    result.loss = loss_sum / static_cast<double>(count);
  }

  // DP-SGD (Abadi et al. 2016): each sample is in a step by itself with probability 1 / steps, which is what the
  // accountant counts on; its gradient is shortened to `clip`, noise of deviation noise * clip is added to the sum, and
  // that is divided by the number of samples that a step has on average, however many it has.
  void train_epoch_in_private(const federated::LocalTask& task, std::uint64_t epoch, std::span<const float> model,
                              federated::SecretStream& secret, federated::LocalResult& result) {
    const std::uint64_t steps = federated::steps_of_epoch(task.samples.size(), batch_);
    const float factor = static_cast<float>(static_cast<double>(steps) / static_cast<double>(task.samples.size()));
    std::vector<float> sum(parameters());
    for (std::uint64_t step = 0; step < steps; ++step) {
      std::ranges::fill(sum, 0.0F);
      for (std::size_t i = 0; i < task.samples.size(); ++i) {
        if (secret.uniform() * static_cast<double>(steps) > 1) continue;
        torch::manual_seed(derive_seed({.seed = seed_,
                                        .purpose = Purpose::kFederated,
                                        .epoch = task.round + 1,
                                        .step = epoch * steps + step,
                                        .lane = 2 + i,
                                        .sample = task.client}));
        add_gradient_of(task.samples[i], task, sum);
      }
      secret.add_normal(task.privacy.noise * task.privacy.clip, sum);
      for (std::size_t i = 0; i < sum.size(); ++i)
        gradient_[i] = factor * sum[i];
      // Which parameters a sample needs would tell of it: all move.
      std::ranges::fill(present_, std::uint8_t{1});
      adjust_gradient(task, model);
      if (update(result.lr)) ++result.steps;
    }
  }

  void add_gradient_of(std::uint64_t sample, const federated::LocalTask& task, std::span<float> sum) {
    data::Batch batch = loader_.take(loader_.submit({sample}, task.round), Deadline::after(kReadTimeout));
    binding_.begin_lane({gradient_, present_, buffers_});
    task_->loss(net_->forward(input_tensor(batch)), target_tensor(batch)).backward();
    binding_.collect();
    loader_.recycle(std::move(batch));
    double squares = 0;
    for_each_gradient([&](std::size_t i) { squares += static_cast<double>(gradient_[i]) * gradient_[i]; });
    const double length = std::sqrt(squares);
    if (!std::isfinite(length))
      return;  // has no direction; that it is left out changes the sum by no more than another
    const double part = length > task.privacy.clip ? task.privacy.clip / length : 1;
    for_each_gradient([&](std::size_t i) { sum[i] += static_cast<float>(part * gradient_[i]); });
  }

  template <typename Use>
  void for_each_gradient(const Use& use) const {
    const auto& tensors = binding_.layout().tensors();
    for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
      for (std::size_t i = tensors[tensor].offset;
           present_[tensor] != 0 && i < tensors[tensor].offset + tensors[tensor].count; ++i)
        use(i);
    }
  }

  double train_step(const federated::LocalTask& task, std::span<const float> model, data::Batch& batch,
                    federated::LocalResult& result) {
    binding_.begin_lane({gradient_, present_, buffers_});
    const torch::Tensor loss = task_->loss(net_->forward(input_tensor(batch)), target_tensor(batch));
    loss.backward();
    binding_.collect();
    adjust_gradient(task, model);
    if (update(result.lr)) ++result.steps;
    return loss.item<double>();
  }

  void adjust_gradient(const federated::LocalTask& task, std::span<const float> model) {
    const auto pull = static_cast<float>(task.prox);
    const std::span<const float> current = versions_[shown_];
    const auto& tensors = binding_.layout().tensors();
    for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
      if (present_[tensor] == 0) continue;
      const std::size_t end = tensors[tensor].offset + tensors[tensor].count;
      for (std::size_t i = tensors[tensor].offset; pull != 0 && i < end; ++i)
        gradient_[i] += pull * (current[i] - model[i]);
      for (std::size_t i = tensors[tensor].offset; !task.correction.empty() && i < end; ++i)
        gradient_[i] += task.correction[i];
    }
  }

  compute::Version version(int which) {
    compute::Version made{.parameters = versions_[which], .state = {}, .updates = updates_[which]};
    for (int slot = 0; slot < optimizer_->slots(); ++slot)
      made.state[slot] = state_[which][slot];
    return made;
  }

  // False: the gradient was not finite, and nothing has changed.
  bool update(double lr) {
    const model::FlatLayout& layout = binding_.layout();
    const compute::UpdateRule rule{.optimizer = optimizer_.get(), .lr = lr, .clip_norm = clip_norm_, .tensors = rules_};
    const compute::LaneGradient lane{gradient_.data(), present_.data()};
    const std::span<const compute::LaneGradient> lanes(&lane, 1);
    const compute::BlockRange all{0, layout.blocks().size()};
    const compute::Version current = version(shown_);
    const compute::Version next = version(1 - shown_);
    if (compute::updates_at_once(rule)) {
      compute::update_slice_at_once(layout, lanes, rule, all, current, next, records_);
      if (!compute::judge_step(records_, clip_norm_).apply) return false;
    } else {
      compute::examine_slice(layout, lane, all, records_);
      const compute::Verdict verdict = compute::judge_step(records_, clip_norm_);
      if (!verdict.apply) return false;
      if (optimizer_->needs_norms()) compute::measure_slice(layout, lane, rule, verdict, all, current, norms_);
      compute::update_slice(
          layout, lane, rule, verdict, all, current, next,
          optimizer_->needs_norms() ? std::span<const compute::Norms>(norms_) : std::span<const compute::Norms>());
    }
    shown_ = 1 - shown_;
    binding_.show(shown_);
    return true;
  }

  // Floating-point buffers, one behind the other, out of and into the bytes of all buffers.
  void gather_buffers(std::span<const std::byte> bytes, std::span<float> out) const {
    for (const compute::BufferSlot& slot : binding_.buffer_layout().slots) {
      if (slot.dtype != model::Dtype::kF32 || slot.bytes == 0) continue;
      std::memcpy(out.data(), bytes.data() + slot.offset, slot.bytes);
      out = out.subspan(slot.bytes / sizeof(float));
    }
  }
  void scatter_buffers(std::span<const float> in, std::span<std::byte> bytes) const {
    for (const compute::BufferSlot& slot : binding_.buffer_layout().slots) {
      if (slot.dtype != model::Dtype::kF32 || slot.bytes == 0) continue;
      std::memcpy(bytes.data() + slot.offset, in.data(), slot.bytes);
      in = in.subspan(slot.bytes / sizeof(float));
    }
  }

  // Constant after construction.
  const std::uint64_t seed_;
  const std::uint64_t batch_;
  const double lr_;
  const std::optional<double> clip_norm_;
  const std::shared_ptr<const data::Dataset> train_;
  const std::shared_ptr<const data::Dataset> test_;
  const std::shared_ptr<const Task> task_;
  const std::shared_ptr<model::Net> net_;
  FrozenParts frozen_;
  compute::ModuleBinding binding_;
  const std::unique_ptr<const compute::Optimizer> optimizer_;
  const std::vector<compute::TensorRule> rules_;
  data::Loader loader_;
  std::unique_ptr<data::Loader> test_loader_;
  std::size_t buffer_floats_ = 0;
  std::vector<float> first_;
  std::vector<std::byte> first_buffers_;
  // Of the client that trains.
  std::array<std::span<float>, 2> versions_;  // memory that the binding keeps
  std::array<std::array<std::vector<float>, compute::kMaxSlots>, 2> state_;
  std::array<std::vector<std::uint64_t>, 2> updates_;
  int shown_ = 0;
  std::vector<std::byte> buffers_;
  std::vector<float> gradient_;
  std::vector<std::uint8_t> present_;
  std::vector<compute::BlockSum> records_;
  std::vector<compute::Norms> norms_;
};

}  // namespace

std::unique_ptr<federated::LocalTraining> make_client_training(const ResolvedJob& resolved, const Datasets& sets) {
  return std::make_unique<ClientTraining>(resolved, sets);
}

}  // namespace muster::trainer
