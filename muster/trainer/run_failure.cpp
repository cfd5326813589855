// Every place is tried, and a place that fails does not keep the others from being told:
// the disk may be what failed.
#include "muster/trainer/run_failure.h"

#include <system_error>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/observe/metrics_log.h"
#include "muster/trainer/model_card.h"

namespace muster::trainer {
namespace {

template <typename Action>
void attempt(const Action& action) {
  try {
    action();
  } catch (const Error&) {
    // The disk may be what failed.
  }
}

}  // namespace

void write_failure(const std::filesystem::path& run, std::uint64_t step, const std::string& reason) {
  // One that was removed is not to come back with nothing but this in it.
  std::error_code code;
  if (!std::filesystem::is_directory(run, code)) return;
  attempt([&] {
    observe::MetricsLog(run / "metrics.jsonl").write({{"event", "failed"}, {"step", step}, {"reason", reason}});
  });
  attempt([&] {
    Log log(LogLevel::kOff);
    log.open_file(run / "log.txt");
    log.error(fmt::format("the run failed after step {}: {}", step, reason));
  });
  attempt([&] {
    ModelCard card = ModelCard::read(run);
    card.failure = fmt::format("failed after step {}: {}", step, reason);
    card.write(run);
  });
}

std::string read_failure(const std::filesystem::path& run) {
  try {
    return ModelCard::read(run).failure;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace muster::trainer
