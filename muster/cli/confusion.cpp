// Counts first, three forms of printing them after; recall and precision come from rows and columns of the same counts.
// Texts only: files are the caller's affair.
#include "muster/cli/confusion.h"

#include <algorithm>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/text.h"
#include "muster/cli/csv_text.h"

namespace muster::cli {
namespace {

constexpr std::size_t kMostListed = 50;
constexpr std::size_t kMostNamed = 100;

double part(std::uint64_t some, std::uint64_t all) {
  return all == 0 ? 0 : static_cast<double>(some) / static_cast<double>(all);
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      default:
        safe += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return safe;
}

// White for none, dark for all of a row; mistakes in red, so that a few of them are seen.
std::string colour(double share, bool right) {
  const auto fade = [&](int full) { return static_cast<int>(255 + (full - 255) * std::min(1.0, share)); };
  return right ? fmt::format("#{:02x}{:02x}{:02x}", fade(20), fade(70), fade(140))
               : fmt::format("#{:02x}{:02x}{:02x}", 255 - static_cast<int>(40 * share), fade(20), fade(20));
}

}  // namespace

void Confusion::add(std::int64_t target, std::int64_t answer) {
  MUSTER_CHECK(target >= 0 && static_cast<std::size_t>(target) < classes_, "a class beyond the classes");
  if (answer < 0 || static_cast<std::size_t>(answer) >= classes_) return;
  ++counts_[static_cast<std::size_t>(target) * classes_ + static_cast<std::size_t>(answer)];
}

std::uint64_t Confusion::of_target(std::size_t target) const {
  std::uint64_t sum = 0;
  for (std::size_t answer = 0; answer < classes_; ++answer)
    sum += count(target, answer);
  return sum;
}

std::uint64_t Confusion::of_answer(std::size_t answer) const {
  std::uint64_t sum = 0;
  for (std::size_t target = 0; target < classes_; ++target)
    sum += count(target, answer);
  return sum;
}

double Confusion::recall(std::size_t target) const {
  return part(count(target, target), of_target(target));
}

double Confusion::precision(std::size_t answer) const {
  return part(count(answer, answer), of_answer(answer));
}

std::string class_name(const data::SampleSpec& spec, std::int64_t label) {
  const auto place = static_cast<std::size_t>(label);
  return place < spec.class_names.size() ? spec.class_names[place] : std::to_string(label);
}

std::string confusion_text(const Confusion& confusion, const data::SampleSpec& spec) {
  std::string text =
      fmt::format("{:<20} {:>9} {:>9} {:>9}  {}\n", "class", "samples", "precision", "recall", "most often taken for");
  const std::size_t shown = std::min(confusion.classes(), kMostListed);
  for (std::size_t target = 0; target < shown; ++target) {
    std::size_t other = target;
    for (std::size_t answer = 0; answer < confusion.classes(); ++answer) {
      if (answer == target || confusion.count(target, answer) == 0) continue;
      if (other == target || confusion.count(target, answer) > confusion.count(target, other)) other = answer;
    }
    text += fmt::format("{:<20} {:>9} {:>9.4f} {:>9.4f}  {}\n",
                        excerpt(class_name(spec, static_cast<std::int64_t>(target)), 20),
                        grouped(confusion.of_target(target)), confusion.precision(target), confusion.recall(target),
                        other == target ? "-"
                                        : fmt::format("{} ({})", class_name(spec, static_cast<std::int64_t>(other)),
                                                      grouped(confusion.count(target, other))));
  }
  if (shown < confusion.classes()) text += fmt::format("... and {} more\n", confusion.classes() - shown);
  return text;
}

std::string confusion_csv(const Confusion& confusion, const data::SampleSpec& spec) {
  std::string text = "class";
  for (std::size_t answer = 0; answer < confusion.classes(); ++answer)
    text += "," + csv_field(class_name(spec, static_cast<std::int64_t>(answer)));
  text += "\n";
  for (std::size_t target = 0; target < confusion.classes(); ++target) {
    text += csv_field(class_name(spec, static_cast<std::int64_t>(target)));
    for (std::size_t answer = 0; answer < confusion.classes(); ++answer)
      text += fmt::format(",{}", confusion.count(target, answer));
    text += "\n";
  }
  return text;
}

std::string confusion_svg(const Confusion& confusion, const data::SampleSpec& spec) {
  const std::size_t classes = confusion.classes();
  const bool named = classes <= kMostNamed;
  const std::size_t cell = named ? 44 : std::max<std::size_t>(1, 1000 / classes);
  const std::size_t margin = named ? 150 : 10;
  const std::size_t extent = margin + cell * classes + 10;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{0}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"{0}\" height=\"{0}\" fill=\"white\"/>\n",
      extent);
  for (std::size_t target = 0; target < classes; ++target) {
    const std::uint64_t all = confusion.of_target(target);
    const std::size_t y = margin + cell * target;
    for (std::size_t answer = 0; answer < classes; ++answer) {
      const std::uint64_t count = confusion.count(target, answer);
      if (count == 0) continue;
      const double share = part(count, all);
      const std::size_t x = margin + cell * answer;
      svg += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", x, y, cell, cell,
                         colour(target == answer ? share : std::min(1.0, 4 * share), target == answer));
      if (named)
        svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"{}\">{}</text>\n", x + cell / 2,
                           y + cell / 2 + 4, share > (target == answer ? 0.5 : 0.15) ? "white" : "black", count);
    }
    if (!named) continue;
    const std::string name = escaped(excerpt(class_name(spec, static_cast<std::int64_t>(target)), 20));
    const std::size_t middle = y + cell / 2 + 4;
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", margin - 8, middle, name);
    svg += fmt::format("<text x=\"{0}\" y=\"{1}\" transform=\"rotate(-60 {0} {1})\">{2}</text>\n", middle, margin - 8,
                       name);
  }
  svg += fmt::format("<rect x=\"{0}\" y=\"{0}\" width=\"{1}\" height=\"{1}\" fill=\"none\" stroke=\"#888\"/>\n", margin,
                     cell * classes);
  svg += fmt::format("<text x=\"10\" y=\"20\">rows: what it is; columns: what the model says</text>\n</svg>\n");
  return svg;
}

}  // namespace muster::cli
