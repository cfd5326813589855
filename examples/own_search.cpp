// A search in a program of one's own: muster::Study proposes, the program tries and tells. No LibTorch, no server; the
// file branin.study survives kill -9, and any number of these programs may work on it at once.
//   own_search [TRIALS [FILE]]
#include <cmath>
#include <cstdio>
#include <numbers>
#include <string>

#include "muster/tuning/study.h"

namespace {

// Branin's function: three minima of 0.397887 each.
double branin(double x, double y) {
  using std::numbers::pi;
  const double a = y - 5.1 / (4 * pi * pi) * x * x + 5 / pi * x - 6;
  return a * a + 10 * (1 - 1 / (8 * pi)) * std::cos(x) + 10;
}

}  // namespace

int main(int argc, char** argv) {
  using muster::tuning::Parameter;
  muster::StudyPlan plan;
  plan.name = "branin";
  plan.space = muster::tuning::Space({Parameter::uniform("x", -5, 10), Parameter::uniform("y", 0, 15)});
  plan.searcher = muster::tuning::searcher_named("tpe");
  plan.budget.trials = argc > 1 ? std::stoul(argv[1]) : 60;

  muster::Study study(argc > 2 ? argv[2] : "branin.study", plan);
  while (const auto trial = study.ask())
    study.tell(*trial, branin(trial->real("x"), trial->real("y")));

  const auto best = study.best();
  std::printf("best of %zu trials: %.4f at %s\n", study.trials().size(), best->result.front(),
              best->values.text().c_str());
  return best->result.front() < 5 ? 0 : 1;
}
