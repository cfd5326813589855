// Branin, Hartmann-6 and Rosenbrock as they stand in every textbook; two of our own that look like a training job:
// rates by the logarithm, widths, an optimizer with keys that only it has.
#include "muster/cli/bench/search_functions.h"

#include <cmath>

#include <fmt/format.h>

namespace muster::cli {
namespace {

using tuning::Assignment;
using tuning::Parameter;
using tuning::Space;

double real_at(const Assignment& values, std::string_view name) {
  return std::get<double>(*values.find(name));
}
double whole_at(const Assignment& values, std::string_view name) {
  return static_cast<double>(std::get<std::int64_t>(*values.find(name)));
}
const std::string& text_at(const Assignment& values, std::string_view name) {
  return std::get<std::string>(*values.find(name));
}
double squared(double x) {
  return x * x;
}

SearchFunction branin() {
  return {"branin", Space({Parameter::uniform("x", -5, 10), Parameter::uniform("y", 0, 15)}), 0.39788735772973816,
          [](const Assignment& values) {
            const double x = real_at(values, "x");
            const double y = real_at(values, "y");
            return squared(y - 5.1 / (4 * M_PI * M_PI) * x * x + 5 / M_PI * x - 6) +
                   10 * (1 - 1 / (8 * M_PI)) * std::cos(x) + 10;
          }};
}

SearchFunction hartmann6() {
  std::vector<Parameter> parameters;
  for (int i = 0; i < 6; ++i)
    parameters.push_back(Parameter::uniform(fmt::format("x{}", i), 0, 1));
  return {
      "hartmann6", Space(parameters), -3.3223680114155152, [](const Assignment& values) {
        constexpr double kAlpha[4] = {1.0, 1.2, 3.0, 3.2};
        constexpr double kA[4][6] = {
            {10, 3, 17, 3.5, 1.7, 8}, {0.05, 10, 17, 0.1, 8, 14}, {3, 3.5, 1.7, 10, 17, 8}, {17, 8, 0.05, 10, 0.1, 14}};
        constexpr double kP[4][6] = {{1312, 1696, 5569, 124, 8283, 5886},
                                     {2329, 4135, 8307, 3736, 1004, 9991},
                                     {2348, 1451, 3522, 2883, 3047, 6650},
                                     {4047, 8828, 8732, 5743, 1091, 381}};
        double sum = 0.0;
        for (int i = 0; i < 4; ++i) {
          double inner = 0.0;
          for (int j = 0; j < 6; ++j)
            inner += kA[i][j] * squared(real_at(values, fmt::format("x{}", j)) - 1e-4 * kP[i][j]);
          sum -= kAlpha[i] * std::exp(-inner);
        }
        return sum;
      }};
}

SearchFunction rosenbrock() {
  std::vector<Parameter> parameters;
  for (int i = 0; i < 4; ++i)
    parameters.push_back(Parameter::uniform(fmt::format("x{}", i), -2.048, 2.048));
  return {"rosenbrock", Space(parameters), 0.0, [](const Assignment& values) {
            double sum = 0.0;
            for (int i = 0; i < 3; ++i) {
              const double here = real_at(values, fmt::format("x{}", i));
              const double next = real_at(values, fmt::format("x{}", i + 1));
              sum += 100 * squared(next - here * here) + squared(1 - here);
            }
            return sum;
          }};
}

// The best rate depends on batch and optimizer, as it does in a job; the best is adam, 128, 6 layers, 0.1 of dropout.
SearchFunction mixed() {
  return {
      "mixed",
      Space({Parameter::log_uniform("lr", 1e-5, 1.0), Parameter::choice("optimizer", {"sgd", "adam", "lamb"}),
             Parameter::log_integer("batch", 16, 1024), Parameter::integer("layers", 1, 12),
             Parameter::uniform("dropout", 0.0, 0.5, 0.05)}),
      0.0, [](const Assignment& values) {
        const std::string& optimizer = text_at(values, "optimizer");
        const double batch = std::log2(whole_at(values, "batch"));
        const double best_rate = (optimizer == "sgd" ? -1.0 : optimizer == "adam" ? -3.0 : -2.0) + 0.3 * (batch - 7);
        return squared(std::log10(real_at(values, "lr")) - best_rate) + 0.1 * squared(batch - 7) +
               0.02 * squared(whole_at(values, "layers") - 6) + 4 * squared(real_at(values, "dropout") - 0.1) +
               (optimizer == "sgd"    ? 0.3
                : optimizer == "adam" ? 0.0
                                      : 0.15);
      }};
}

// Three optimizers with other keys each; a scale that all have.
SearchFunction conditional() {
  return {"conditional",
          Space({Parameter::choice("optimizer", {"sgd", "adam", "adagrad"}), Parameter::uniform("decay", 0.0, 1.0),
                 Parameter::log_uniform("sgd.lr", 1e-4, 10.0).only_when("optimizer", {"sgd"}),
                 Parameter::uniform("sgd.momentum", 0.0, 1.0).only_when("optimizer", {"sgd"}),
                 Parameter::log_uniform("adam.lr", 1e-6, 0.1).only_when("optimizer", {"adam"}),
                 Parameter::uniform("adam.beta", 0.0, 1.0).only_when("optimizer", {"adam"}),
                 Parameter::integer("adam.warmup", 0, 20).only_when("optimizer", {"adam"}),
                 Parameter::log_uniform("adagrad.lr", 1e-3, 10.0).only_when("optimizer", {"adagrad"})}),
          0.0, [](const Assignment& values) {
            const double decay = squared(real_at(values, "decay") - 0.3);
            const std::string& optimizer = text_at(values, "optimizer");
            if (optimizer == "sgd")
              return 0.1 + decay + 0.5 * squared(std::log10(real_at(values, "sgd.lr")) + 0.5) +
                     2 * squared(real_at(values, "sgd.momentum") - 0.9);
            if (optimizer == "adam")
              return decay + 0.5 * squared(std::log10(real_at(values, "adam.lr")) + 3) +
                     2 * squared(real_at(values, "adam.beta") - 0.7) +
                     0.005 * squared(whole_at(values, "adam.warmup") - 5);
            return 0.2 + decay + 0.2 * squared(std::log10(real_at(values, "adagrad.lr")) + 1);
          }};
}

}  // namespace

std::vector<SearchFunction> search_functions() {
  return {branin(), hartmann6(), rosenbrock(), mixed(), conditional()};
}

}  // namespace muster::cli
