// That a run has failed, where people and programs look for it: a row of metrics.jsonl, a line of log.txt, the model
// card. No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace muster::trainer {

// Of a run whose workers are gone; `step` is the last one that was committed. What cannot be written is left out: the
// failure itself has been told.
void write_failure(const std::filesystem::path& run, std::uint64_t step, const std::string& reason);

// Why the run's last life failed, as write_failure() has left it in the card; empty when it did not.
std::string read_failure(const std::filesystem::path& run);

}  // namespace muster::trainer
