// Worker's part for the state of loops of one's own: the optimizer's travels as LibTorch saves it, and a checkpoint is
// that with the module's. The first worker alone reads and writes files; whether it could is told to all.
#include <filesystem>
#include <functional>
#include <optional>
#include <sstream>
#include <string>

#include <torch/torch.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/trainer/worker.h"
#include "muster/trainer/worker_place.h"

namespace muster::trainer {
namespace {

constexpr const char* kFile = "checkpoint.pt";
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;
constexpr std::int64_t kNothing = -1;
constexpr std::int64_t kFailed = -2;

// State and options: older releases of LibTorch save options as well, and do not load them.
void write_optimizer(torch::serialize::OutputArchive& all, torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive state(all.compilation_unit());
  optimizer.save(state);
  all.write("state", state);
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    torch::serialize::OutputArchive options(all.compilation_unit());
    optimizer.param_groups()[i].options().serialize(options);
    all.write(fmt::format("options{}", i), options);
  }
}

void read_optimizer(torch::serialize::InputArchive& all, torch::optim::Optimizer& optimizer) {
  torch::serialize::InputArchive state;
  all.read("state", state);
  optimizer.load(state);
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    torch::serialize::InputArchive options;
    all.read(fmt::format("options{}", i), options);
    optimizer.param_groups()[i].options().serialize(options);
  }
}

std::string text_of(torch::serialize::OutputArchive& archive) {
  std::ostringstream stream;
  archive.save_to(stream);
  return stream.str();
}

void read_text_into(torch::serialize::InputArchive& archive, const std::string& text) {
  std::istringstream stream(text);
  archive.load_from(stream);
}

std::string checkpoint_text(torch::nn::Module& module, torch::optim::Optimizer& optimizer, std::uint64_t step) {
  torch::serialize::OutputArchive all;
  torch::serialize::OutputArchive model(all.compilation_unit());
  module.save(model);
  all.write("model", model);
  torch::serialize::OutputArchive state(all.compilation_unit());
  write_optimizer(state, optimizer);
  all.write("optimizer", state);
  all.write("step", c10::IValue(static_cast<std::int64_t>(step)));
  return text_of(all);
}

// Names, types and shapes. LibTorch gives a parameter what the file has, whatever its shape.
std::string form_of(const torch::nn::Module& module) {
  std::string form;
  for (const auto& tensors : {module.named_parameters(), module.named_buffers()})
    for (const auto& item : tensors)
      form += fmt::format("{} {} ({})\n", item.key(), torch::toString(item.value().scalar_type()),
                          fmt::join(item.value().sizes(), ", "));
  return form;
}

// The step.
std::int64_t load_checkpoint(const std::filesystem::path& path, torch::nn::Module& module,
                             torch::optim::Optimizer& optimizer) {
  const std::string text = read_text(path, kMostBytes);
  torch::serialize::InputArchive all;
  try {
    read_text_into(all, text);
  } catch (const std::exception&) {
    throw Error(ErrorKind::kDamaged, "is no checkpoint of a program, or was cut", path.string(),
                "Remove it, to begin anew, or put a copy in its place.");
  }
  try {
    const std::string form = form_of(module);
    torch::serialize::InputArchive part;
    all.read("model", part);
    module.load(part);
    if (form_of(module) != form)
      throw Error(ErrorKind::kMismatch, "is of a model with other shapes", path.string(),
                  "Use the program that has written it, or another folder.");
    torch::serialize::InputArchive state;
    all.read("optimizer", state);
    read_optimizer(state, optimizer);
    c10::IValue step;
    all.read("step", step);
    return step.toInt();
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::kMismatch,
                fmt::format("is of another model or optimizer: {}", error.what_without_backtrace()), path.string(),
                "Use the program that has written it, or another folder.");
  }
}

// What the first worker does, and its result for all of them; its error is thrown by it, and the others say whose it
// is.
std::int64_t by_the_first(comm::Group group, const Deadline& deadline, const char* what,
                          const std::function<std::int64_t()>& act) {
  std::int64_t result = kFailed;
  if (group.rank() == 0) {
    try {
      result = act();
    } catch (...) {
      group.broadcast(std::span(&result, 1), 0, deadline);
      throw;
    }
  }
  group.broadcast(std::span(&result, 1), 0, deadline);
  if (result == kFailed)
    throw Error(ErrorKind::kPeerLost, fmt::format("the first worker could not {}, and says why", what));
  return result;
}

}  // namespace

void Worker::broadcast_optimizer(torch::optim::Optimizer& optimizer) const {
  comm::Group group = this->group();
  std::string text;
  if (group.rank() == 0) {
    torch::serialize::OutputArchive archive;
    write_optimizer(archive, optimizer);
    text = text_of(archive);
  }
  auto bytes = static_cast<std::int64_t>(text.size());
  group.broadcast(std::span(&bytes, 1), 0, place_->deadline());
  text.resize(static_cast<std::size_t>(bytes));
  group.broadcast(std::span(reinterpret_cast<std::uint8_t*>(text.data()), text.size()), 0, place_->deadline());
  if (group.rank() == 0) return;
  try {
    torch::serialize::InputArchive archive;
    read_text_into(archive, text);
    read_optimizer(archive, optimizer);
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::kMismatch,
                fmt::format("the optimizer of worker 0 does not fit that of worker {}: {}", group.rank(),
                            error.what_without_backtrace()),
                {}, "Make the same optimizer, of the same model, on all workers.");
  }
}

void Worker::checkpoint(const std::filesystem::path& folder, torch::nn::Module& module,
                        torch::optim::Optimizer& optimizer, std::uint64_t step) const {
  by_the_first(group(), place_->deadline(), "write a checkpoint", [&] {
    make_folder(folder);
    write_atomically(folder / kFile, checkpoint_text(module, optimizer, step));
    return std::int64_t{0};
  });
}

std::optional<std::uint64_t> Worker::resume(const std::filesystem::path& folder, torch::nn::Module& module,
                                            torch::optim::Optimizer& optimizer) const {
  const std::int64_t step = by_the_first(group(), place_->deadline(), "read the checkpoint", [&] {
    const std::filesystem::path path = folder / kFile;
    std::error_code none;
    return std::filesystem::exists(path, none) ? load_checkpoint(path, module, optimizer) : kNothing;
  });
  if (step == kNothing) return std::nullopt;
  broadcast_parameters(module);
  broadcast_optimizer(optimizer);
  return static_cast<std::uint64_t>(step);
}

}  // namespace muster::trainer
