// A plot is a frame with scales and marks on it. Figures are printed with few digits: a plot is looked at.
// Names and values come from users and are escaped.
#include "muster/cli/tune/study_plots.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "muster/base/text.h"
#include "muster/tuning/pareto.h"

namespace muster::cli {
namespace {

using tuning::Trial;

constexpr double kWidth = 720;
constexpr double kHeight = 320;
constexpr double kLeft = 70;
constexpr double kRight = 20;
constexpr double kTop = 34;
constexpr double kBottom = 44;
constexpr double kSlice = 240;  // width of one slice

struct Extent {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();

  void take(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  // 0 at the least, 1 at the most; the middle where there is one value only.
  double share(double value) const { return most > least ? (value - least) / (most - least) : 0.5; }
};

class Picture {
 public:
  Picture(double width, double height, std::string_view title) {
    text_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        width, height);
    words(12, 20, title, "start", 14);
  }

  void line(double x1, double y1, double x2, double y2, std::string_view colour = "#999", double width = 1) {
    text_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"{}\"/>\n", x1, y1,
        x2, y2, colour, width);
  }
  void dot(double x, double y, std::string_view colour, std::string_view tip) {
    text_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"><title>{}</title></circle>\n", x, y,
                         colour, escaped(tip));
  }
  void path(const std::vector<std::pair<double, double>>& points, std::string_view colour, double width,
            std::string_view tip) {
    if (points.size() < 2) return;
    text_ += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" points=\"", colour, width);
    for (const auto& [x, y] : points)
      text_ += fmt::format("{:.1f},{:.1f} ", x, y);
    text_ += fmt::format("\"><title>{}</title></polyline>\n", escaped(tip));
  }
  void bar(double x, double y, double width, double height, std::string_view colour) {
    text_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", x, y,
                         width, height, colour);
  }
  void words(double x, double y, std::string_view text, std::string_view anchor = "start", int size = 12) {
    text_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\">{}</text>\n", x, y,
                         anchor, size, escaped(text));
  }

  std::string finish() && { return std::move(text_) + "</svg>\n"; }

 private:
  std::string text_;
};

// Left and upper edge, width and height of what is plotted.
struct Frame {
  double x = kLeft;
  double y = kTop;
  double width = kWidth - kLeft - kRight;
  double height = kHeight - kTop - kBottom;

  double at_x(double share) const { return x + share * width; }
  double at_y(double share) const { return y + (1 - share) * height; }
};

void draw_frame(Picture& picture, const Frame& frame, const Extent& ys, std::string_view below) {
  picture.line(frame.x, frame.y, frame.x, frame.y + frame.height);
  picture.line(frame.x, frame.y + frame.height, frame.x + frame.width, frame.y + frame.height);
  for (const double share : {0.0, 0.5, 1.0}) {
    const double value = ys.most > ys.least ? ys.least + share * (ys.most - ys.least) : ys.least;
    picture.words(frame.x - 6, frame.at_y(share) + 4, fmt::format("{:.4g}", value), "end");
  }
  picture.words(frame.x + frame.width / 2, frame.y + frame.height + 34, below, "middle");
}

std::vector<const Trial*> trials_with_outcome(const tuning::History& history) {
  std::vector<const Trial*> trials;
  for (const Trial& trial : history.trials()) {
    if (trial.outcome() != nullptr) trials.push_back(&trial);
  }
  return trials;
}

Extent extent_of(const std::vector<const Trial*>& trials, std::size_t objective) {
  Extent extent;
  for (const Trial* trial : trials)
    extent.take(trial->outcome()->at(objective));
  return extent;
}

// From pale (worst) to dark (best).
std::string colour_of(double goodness) {
  const auto mix = [&](double pale, double dark) {
    return static_cast<int>(std::lround(pale + (dark - pale) * goodness));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(200, 13), mix(215, 60), mix(235, 130));
}

double goodness_of(const Trial& trial, const Extent& extent, tuning::Goal goal) {
  const double share = extent.share(trial.outcome()->front());
  return goal == tuning::Goal::kMaximise ? share : 1 - share;
}

std::string tip_of(const Trial& trial) {
  return fmt::format("trial {}: {:.5g}; {}", trial.number, trial.outcome()->front(), trial.values.text());
}

Picture nothing_yet(std::string_view title) {
  Picture picture(kWidth, 80, title);
  picture.words(12, 50, "no trial has a result yet");
  return picture;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string plot_history(const tuning::StudyPlan& plan, const tuning::History& history) {
  const std::string title = fmt::format("{} of each trial, and the best so far", plan.objectives.front().metric);
  std::vector<const Trial*> trials;
  for (const std::uint64_t number : history.ended()) {
    if (history.at(number).outcome() != nullptr) trials.push_back(&history.at(number));
  }
  if (trials.empty()) return nothing_yet(title).finish();
  const tuning::Goal goal = plan.objectives.front().goal;
  const Extent ys = extent_of(trials, 0);
  Picture picture(kWidth, kHeight, title);
  const Frame frame;
  draw_frame(picture, frame, ys, "trials, in the order in which they ended");
  Extent xs;
  xs.take(0);
  xs.take(static_cast<double>(trials.size() - 1));
  std::vector<std::pair<double, double>> best;
  std::optional<double> so_far;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const double value = trials[i]->outcome()->front();
    const double x = frame.at_x(xs.share(static_cast<double>(i)));
    if (!so_far || tuning::loss(value, goal) < tuning::loss(*so_far, goal)) {
      if (so_far) best.emplace_back(x, frame.at_y(ys.share(*so_far)));
      so_far = value;
    }
    best.emplace_back(x, frame.at_y(ys.share(*so_far)));
    picture.dot(x, frame.at_y(ys.share(value)), "#8fb0d9", tip_of(*trials[i]));
  }
  picture.path(best, "#c0392b", 2, "the best so far");
  return std::move(picture).finish();
}

std::string plot_parallel(const tuning::StudyPlan& plan, const tuning::History& history) {
  const std::string title = "Values of each trial and what came of them; dark is good";
  std::vector<const Trial*> trials = trials_with_outcome(history);
  if (trials.empty()) return nothing_yet(title).finish();
  const auto& parameters = plan.space.parameters();
  const tuning::Goal goal = plan.objectives.front().goal;
  const Extent ys = extent_of(trials, 0);
  // The good ones last, so that they lie on top.
  std::ranges::stable_sort(trials, {}, [&](const Trial* trial) { return goodness_of(*trial, ys, goal); });
  const double width = std::max(kWidth, 130.0 * static_cast<double>(parameters.size() + 1));
  Picture picture(width, kHeight, title);
  Frame frame;
  frame.width = width - kLeft - 90;
  const auto axis = [&](std::size_t i) {
    return frame.at_x(static_cast<double>(i) / static_cast<double>(parameters.size()));
  };
  for (const Trial* trial : trials) {
    std::vector<std::pair<double, double>> points;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (const tuning::Value* value = trial->values.find(parameters[i].name))
        points.emplace_back(axis(i), frame.at_y(parameters[i].to_unit(*value)));
    }
    points.emplace_back(axis(parameters.size()), frame.at_y(ys.share(trial->outcome()->front())));
    picture.path(points, colour_of(goodness_of(*trial, ys, goal)), 1.2, tip_of(*trial));
  }
  for (std::size_t i = 0; i <= parameters.size(); ++i) {
    const bool is_objective = i == parameters.size();
    picture.line(axis(i), frame.y, axis(i), frame.y + frame.height, "#444");
    const std::string low =
        is_objective ? fmt::format("{:.4g}", ys.least) : excerpt(tuning::to_text(parameters[i].from_unit(0.0)), 14);
    const std::string high =
        is_objective ? fmt::format("{:.4g}", ys.most) : excerpt(tuning::to_text(parameters[i].from_unit(1.0)), 14);
    picture.words(axis(i), frame.y + frame.height + 15, low, "middle", 11);
    picture.words(axis(i), frame.y - 3, high, "middle", 11);
    picture.words(axis(i), frame.y + frame.height + 34,
                  is_objective ? plan.objectives.front().metric : parameters[i].name, "middle");
  }
  return std::move(picture).finish();
}

std::string plot_slices(const tuning::StudyPlan& plan, const tuning::History& history) {
  const std::string title = fmt::format("{} by the value of each key", plan.objectives.front().metric);
  const std::vector<const Trial*> trials = trials_with_outcome(history);
  if (trials.empty()) return nothing_yet(title).finish();
  const auto& parameters = plan.space.parameters();
  const tuning::Goal goal = plan.objectives.front().goal;
  const Extent ys = extent_of(trials, 0);
  Picture picture(kLeft + kSlice * static_cast<double>(parameters.size()), kHeight, title);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Frame frame;
    frame.x = kLeft + kSlice * static_cast<double>(i);
    frame.width = kSlice - 60;
    draw_frame(picture, frame, ys, parameters[i].name);
    picture.words(frame.x, frame.y + frame.height + 15, excerpt(tuning::to_text(parameters[i].from_unit(0.0)), 14),
                  "start", 11);
    picture.words(frame.x + frame.width, frame.y + frame.height + 15,
                  excerpt(tuning::to_text(parameters[i].from_unit(1.0)), 14), "end", 11);
    for (const Trial* trial : trials) {
      const tuning::Value* value = trial->values.find(parameters[i].name);
      if (value == nullptr) continue;
      picture.dot(frame.at_x(parameters[i].to_unit(*value)), frame.at_y(ys.share(trial->outcome()->front())),
                  colour_of(0.3 + 0.7 * goodness_of(*trial, ys, goal)), tip_of(*trial));
    }
  }
  return std::move(picture).finish();
}

std::string plot_importance(const std::vector<tuning::Importance>& shares) {
  const std::string title = "How much of the variance each key explains alone (fANOVA on a random forest)";
  const double row = 26;
  Picture picture(kWidth, kTop + row * static_cast<double>(std::max<std::size_t>(1, shares.size())) + 14, title);
  if (shares.empty()) picture.words(12, 50, "too few results, or all alike");
  std::vector<tuning::Importance> sorted = shares;
  std::ranges::stable_sort(sorted, std::greater<>(), &tuning::Importance::share);
  const double from = 220;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const double y = kTop + row * static_cast<double>(i) + 6;
    picture.words(from - 8, y + 14, sorted[i].name, "end");
    picture.bar(from, y, sorted[i].share * (kWidth - from - 70), row - 8, "#3b6ea8");
    picture.words(from + sorted[i].share * (kWidth - from - 70) + 6, y + 14,
                  fmt::format("{:.1f} %", 100 * sorted[i].share));
  }
  return std::move(picture).finish();
}

std::string plot_front(const tuning::StudyPlan& plan, const tuning::History& history) {
  const std::string title = "All trials, and those that no other one beats in both";
  const std::vector<const Trial*> trials = trials_with_outcome(history);
  if (trials.empty() || plan.objectives.size() != 2) return nothing_yet(title).finish();
  const Extent xs = extent_of(trials, 0);
  const Extent ys = extent_of(trials, 1);
  Picture picture(kWidth, kHeight, title);
  const Frame frame;
  draw_frame(picture, frame, ys,
             fmt::format("{} (left to right), {} (up)", plan.objectives[0].metric, plan.objectives[1].metric));
  const auto place = [&](const Trial& trial) {
    return std::pair(frame.at_x(xs.share(trial.outcome()->at(0))), frame.at_y(ys.share(trial.outcome()->at(1))));
  };
  for (const Trial* trial : trials)
    picture.dot(place(*trial).first, place(*trial).second, "#8fb0d9", tip_of(*trial));
  std::vector<std::pair<double, double>> front;
  for (const std::uint64_t number : tuning::pareto_front(history, plan.goals()))
    front.push_back(place(history.at(number)));
  picture.path(front, "#c0392b", 2, "the Pareto front");
  for (const auto& [x, y] : front)
    picture.dot(x, y, "#c0392b", "on the front");
  return std::move(picture).finish();
}

}  // namespace muster::cli
