// Written and read side by side, so that the two can be compared; a key that is missing or of another type is refused
// with its place.
#include "muster/compute/optimizer_json.h"

#include <variant>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::compute {
namespace {

template <typename Options>
Json moments_json(const char* name, const Options& o) {
  return {{"name", name},     {"lr", o.lr},   {"beta1", o.beta1},
          {"beta2", o.beta2}, {"eps", o.eps}, {"weight_decay", o.weight_decay}};
}

struct Writer {
  Json operator()(const Sgd& o) const {
    return {{"name", "sgd"},
            {"lr", o.lr},
            {"momentum", o.momentum},
            {"dampening", o.dampening},
            {"weight_decay", o.weight_decay},
            {"nesterov", o.nesterov}};
  }
  Json operator()(const Adam& o) const { return moments_json("adam", o); }
  Json operator()(const AdamW& o) const { return moments_json("adamw", o); }
  Json operator()(const Lamb& o) const { return moments_json("lamb", o); }
  // What can be told of a function: it cannot be read back.
  Json operator()(const OwnOptimizer& o) const {
    return {{"name", "own: " + o.name}, {"lr", o.lr}, {"weight_decay", o.weight_decay}, {"slots", o.slots}};
  }
  Json operator()(const Lars& o) const {
    return {{"name", "lars"},   {"lr", o.lr},   {"momentum", o.momentum}, {"weight_decay", o.weight_decay},
            {"trust", o.trust}, {"eps", o.eps}, {"nesterov", o.nesterov}};
  }
};

template <typename Options>
Options moments_from(const Json& json, const std::string& where) {
  Options options;
  options.lr = json_get<double>(json, "lr", where);
  options.beta1 = json_get<double>(json, "beta1", where);
  options.beta2 = json_get<double>(json, "beta2", where);
  options.eps = json_get<double>(json, "eps", where);
  options.weight_decay = json_get<double>(json, "weight_decay", where);
  return options;
}

}  // namespace

Json to_json(const OptimizerOptions& options) {
  return std::visit(Writer{}, options);
}

OptimizerOptions optimizer_from_json(const Json& json, const std::string& where) {
  const auto name = json_get<std::string>(json, "name", where);
  if (name == "adam") return moments_from<Adam>(json, where);
  if (name == "adamw") return moments_from<AdamW>(json, where);
  if (name == "lamb") return moments_from<Lamb>(json, where);
  const auto number = [&](const char* key) { return json_get<double>(json, key, where); };
  if (name == "lars") {
    return Lars{number("lr"),    number("momentum"), number("weight_decay"),
                number("trust"), number("eps"),      json_get<bool>(json, "nesterov", where)};
  }
  if (name != "sgd") throw Error(ErrorKind::kDamaged, fmt::format("no optimizer \"{}\"", name), where);
  return Sgd{number("lr"), number("momentum"), number("dampening"), number("weight_decay"),
             json_get<bool>(json, "nesterov", where)};
}

}  // namespace muster::compute
