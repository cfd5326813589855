// Slurm's compressed lists. Brackets hold numbers and ranges, whose leading zeros are a part of the name; a name may
// have several brackets ("rack[1-2]node[01-04]"), which count like the digits of a number, the last one fastest.
#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/launch/surroundings.h"

namespace muster::launch {
namespace {

constexpr std::size_t kMostNodes = 65'536;
constexpr std::size_t kLongestList = 1 << 20;

Error no_list(const std::string& text, const std::string& why) {
  return Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is no list of nodes: {}", excerpt(text, 200), why), {},
               "It is what Slurm says in SLURM_STEP_NODELIST, as \"n[1-3,7],login\".");
}

std::uint64_t number_of(const std::string& digits, const std::string& whole) {
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || code != std::errc() || end != digits.data() + digits.size())
    throw no_list(whole, fmt::format("\"{}\" is no number", excerpt(digits, 40)));
  return value;
}

// Of the inside of one bracket: "1-3,07".
std::vector<std::string> expand_bracket(const std::string& inside, const std::string& whole) {
  std::vector<std::string> result;
  for (std::size_t begin = 0; begin <= inside.size();) {
    const std::size_t comma = std::min(inside.find(',', begin), inside.size());
    const std::string part = inside.substr(begin, comma - begin);
    const std::size_t dash = part.find('-');
    const std::string first = part.substr(0, dash);
    const std::uint64_t least = number_of(first, whole);
    const std::uint64_t most = dash == std::string::npos ? least : number_of(part.substr(dash + 1), whole);
    if (most < least || most - least >= kMostNodes - result.size()) throw no_list(whole, "a range that is none");
    for (std::uint64_t number = least; number <= most; ++number)
      result.push_back(fmt::format("{:0{}}", number, first.size()));
    begin = comma + 1;
  }
  return result;
}

// Of one name with any number of brackets.
std::vector<std::string> expand_name(const std::string& name, const std::string& whole) {
  std::vector<std::string> result{""};
  const auto append = [&](const std::vector<std::string>& tails) {
    if (result.size() * tails.size() > kMostNodes) throw no_list(whole, "too many nodes");
    std::vector<std::string> longer;
    for (const std::string& head : result)
      for (const std::string& tail : tails)
        longer.push_back(head + tail);
    result = std::move(longer);
  };
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t open = std::min(name.find('[', begin), name.size());
    if (open > begin) append({name.substr(begin, open - begin)});
    if (open == name.size()) break;
    const std::size_t close = name.find(']', open);
    if (close == std::string::npos) throw no_list(whole, "a bracket is not closed");
    append(expand_bracket(name.substr(open + 1, close - open - 1), whole));
    begin = close + 1;
  }
  return result;
}

}  // namespace

std::vector<std::string> expand_node_list(const std::string& text) {
  if (text.size() > kLongestList) throw no_list(text, "it is too long");
  std::vector<std::string> nodes;
  std::string name;
  int depth = 0;
  const auto end_name = [&] {
    if (name.empty()) throw no_list(text, "an empty name");
    for (std::string& node : expand_name(name, text))
      nodes.push_back(std::move(node));
    if (nodes.size() > kMostNodes) throw no_list(text, "too many nodes");
    name.clear();
  };
  for (const char c : text) {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (depth < 0 || depth > 1) throw no_list(text, "brackets do not match");
    if (c == ',' && depth == 0)
      end_name();
    else
      name += c;
  }
  end_name();
  return nodes;
}

std::vector<int> expand_task_counts(const std::string& text) {
  std::vector<int> counts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, comma - begin);
    const std::size_t open = part.find("(x");
    const std::uint64_t tasks = number_of(part.substr(0, open), text);
    std::uint64_t times = 1;
    if (open != std::string::npos) {
      if (part.back() != ')') throw no_list(text, "a bracket is not closed");
      times = number_of(part.substr(open + 2, part.size() - open - 3), text);
    }
    if (tasks > kMostNodes || times > kMostNodes - counts.size()) throw no_list(text, "too many tasks");
    counts.insert(counts.end(), times, static_cast<int>(tasks));
    begin = comma + 1;
  }
  return counts;
}

}  // namespace muster::launch
