#include "muster/trainer/run_failure.h"

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
