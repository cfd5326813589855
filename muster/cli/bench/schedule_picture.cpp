// Forward is light and backward dark; a stage's second chunk and those after it are greener, so that one sees lanes
// come round again. A box that is wide enough has its lane's number.
#include "muster/cli/bench/schedule_picture.h"

#include <algorithm>

#include <fmt/format.h>

namespace muster::cli {
namespace {

constexpr double kWidth = 900;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kRow = 24;
constexpr double kTitle = 26;
constexpr double kGap = 14;
constexpr double kScale = 34;  // height of the scale of time below all traces
constexpr double kLeastForNumber = 13;
constexpr int kTicks = 5;

std::string words(double x, double y, const std::string& text, const char* anchor, const char* colour = "#222") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\">{}</text>\n", x, y, anchor, colour,
                     text);
}

std::string colour_of(const Computed& box, std::size_t stages) {
  const int chunk = static_cast<int>(std::min<std::size_t>(box.part / stages, 3));
  return box.forward ? fmt::format("#{:02x}{:02x}{:02x}", 158, 190 + 15 * chunk, 232 - 30 * chunk)
                     : fmt::format("#{:02x}{:02x}{:02x}", 38, 84 + 28 * chunk, 150 - 26 * chunk);
}

}  // namespace

std::string draw_schedules(const std::vector<ScheduleTrace>& traces) {
  double longest = 0;
  double height = kScale;
  for (const ScheduleTrace& trace : traces) {
    for (const Computed& box : trace.computed)
      longest = std::max(longest, box.end);
    height += kTitle + kRow * static_cast<double>(trace.stages) + kGap;
  }
  const double per_ms = longest > 0 ? (kWidth - kLeft - kRight) / longest : 0;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      kWidth, height);
  double top = 0;
  for (const ScheduleTrace& trace : traces) {
    svg += words(12, top + 18, trace.title, "start");
    top += kTitle;
    for (std::size_t stage = 0; stage < trace.stages; ++stage)
      svg += words(kLeft - 8, top + kRow * static_cast<double>(stage) + 16, fmt::format("stage {}", stage), "end");
    for (const Computed& box : trace.computed) {
      const double x = kLeft + box.begin * per_ms;
      const double y = top + kRow * static_cast<double>(box.stage);
      const double width = (box.end - box.begin) * per_ms;
      svg += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\" fill=\"{}\" stroke=\"#fff\" "
          "stroke-width=\"0.5\"><title>lane {}, part {}, {}: {:.2f} to {:.2f} ms</title></rect>\n",
          x, y + 2, width, kRow - 4, colour_of(box, trace.stages), box.lane, box.part,
          box.forward ? "forward" : "backward", box.begin, box.end);
      if (width >= kLeastForNumber)
        svg += words(x + width / 2, y + 16, std::to_string(box.lane), "middle", box.forward ? "#222" : "#fff");
    }
    top += kRow * static_cast<double>(trace.stages) + kGap;
  }
  for (int tick = 0; tick <= kTicks; ++tick) {
    const double ms = longest * tick / kTicks;
    svg += words(kLeft + ms * per_ms, top + 12, fmt::format("{:.0f}", ms), tick == kTicks ? "end" : "middle", "#666");
  }
  svg += words(kLeft, top + 28, "milliseconds; light: forward, dark: backward, with the number of the lane", "start",
               "#666");
  return svg + "</svg>\n";
}

}  // namespace muster::cli
