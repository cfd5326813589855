// The calls of a choice go to its kind. What follows from the keys of a strategy's options: their names, and their
// values as workers compare them. So an option that is a key is compared without a line of its own.
#include "muster/strategies/strategy_choice.h"

#include <fmt/format.h>

#include "muster/base/config.h"
#include "muster/strategies/strategy_kind.h"

namespace muster::strategies {
namespace {

// The keys are bound to the options they are read from, so those of a copy are looked at.
template <typename Look>
void for_each_key(StrategyChoice choice, const Look& look) {
  Section section("parallel", "");
  choice.add_keys(section);
  for (const Field& field : section.fields())
    look(field);
}

}  // namespace

StrategyChoice::StrategyChoice(std::unique_ptr<AnyKind> kind) : kind_(std::move(kind)) {
}
StrategyChoice::StrategyChoice(const StrategyChoice& other) : kind_(other.kind_->clone()) {
}
StrategyChoice::StrategyChoice(StrategyChoice&&) noexcept = default;
StrategyChoice& StrategyChoice::operator=(StrategyChoice other) noexcept {
  kind_ = std::move(other.kind_);
  return *this;
}
StrategyChoice::~StrategyChoice() = default;

std::string StrategyChoice::name() const {
  return std::string(kind_->name());
}

StrategyChoice StrategyChoice::with_defaults() const {
  return StrategyChoice(kind_->with_defaults());
}

Traits StrategyChoice::traits() const {
  return kind_->traits();
}

void StrategyChoice::add_keys(Section& parallel) {
  kind_->add_keys(parallel);
}

std::vector<std::string> StrategyChoice::free_keys() const {
  return kind_->free_keys();
}

void StrategyChoice::check(const JobFacts& job) const {
  kind_->check(job);
}

std::vector<Doubt> StrategyChoice::doubts(std::uint64_t steps) const {
  return kind_->doubts(steps);
}

ServerProcesses StrategyChoice::server_processes() const {
  return kind_->server_processes();
}

StateMemory StrategyChoice::memory(const StateFigures& figures) const {
  return kind_->memory(figures);
}

std::unique_ptr<Strategy> StrategyChoice::make(StrategyOptions needs) const {
  return kind_->make(std::move(needs));
}

std::vector<std::string> StrategyChoice::keys() const {
  std::vector<std::string> names;
  for_each_key(*this, [&](const Field& field) { names.push_back(field.key()); });
  return names;
}

std::vector<std::pair<std::string, std::string>> StrategyChoice::describe() const {
  std::vector<std::pair<std::string, std::string>> entries{{"strategy", name()}};
  for_each_key(*this, [&](const Field& field) {
    entries.emplace_back(fmt::format("{}.{}", name(), field.key()), field.to_toml().value_or("none"));
  });
  for (const auto& [key, value] : kind_->more())
    entries.emplace_back(fmt::format("{}.{}", name(), key), value);
  return entries;
}

}  // namespace muster::strategies
