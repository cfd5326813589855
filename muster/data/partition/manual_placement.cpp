// A parser that names the line of whatever it refuses. At the end every shard has exactly one owner, else the file is
// refused: a hole in it would be samples that nobody trains on.
#include "muster/data/partition/manual_placement.h"

#include <charconv>
#include <limits>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/text.h"

namespace muster::data {
namespace {

constexpr std::uint64_t kMostBytes = 16'000'000;
constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// What stands before `separator`, which is removed with it. All of `rest` if there is none.
std::string_view take_until(std::string_view& rest, char separator) {
  const std::size_t end = rest.find(separator);
  const std::string_view taken = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  return taken;
}

class Parser {
 public:
  Parser(std::uint64_t shards, std::span<const Member> members, const std::string& where)
      : shards_(shards), members_(members), where_(where) {
    for (std::uint32_t member = 0; member < members.size(); ++member)
      numbers_.emplace(members[member].name, member);
    placement_.member_of.assign(shards, kNobody);
  }

  Placement parse(std::string_view text) {
    while (!text.empty()) {
      ++line_;
      std::string_view line = take_until(text, '\n');
      line = trimmed(take_until(line, '#'));
      if (!line.empty()) parse_line(line);
    }
    for (std::uint64_t shard = 0; shard < shards_; ++shard) {
      if (placement_.member_of[shard] == kNobody) {
        throw Error(ErrorKind::kInvalidInput, fmt::format("{} is placed on nobody; there are {}", shard, shards_),
                    where_);
      }
    }
    return std::move(placement_);
  }

 private:
  [[noreturn]] void refuse(const std::string& message, const std::string& remedy = {}) const {
    throw Error(ErrorKind::kInvalidInput, message, fmt::format("{}:{}", where_, line_), remedy);
  }

  void parse_line(std::string_view line) {
    const std::size_t colon = line.rfind(':');
    if (colon == std::string_view::npos) refuse("has no \"NAME: NUMBERS\"");
    const std::string name(trimmed(line.substr(0, colon)));
    const auto member = numbers_.find(name);
    if (member == numbers_.end()) {
      std::vector<std::string> names;
      for (const Member& known : members_)
        names.push_back(known.name);
      refuse(fmt::format("\"{}\" is no member{}", excerpt(name, 60), did_you_mean(name, names)));
    }
    std::string_view rest = line.substr(colon + 1);
    while (!trimmed(rest).empty()) {
      std::string_view range = trimmed(take_until(rest, ','));
      const bool single = range.find('-') == std::string_view::npos;
      const std::uint64_t begin = number(trimmed(take_until(range, '-')));
      const std::uint64_t end = single ? begin : number(trimmed(range));
      if (end < begin) refuse(fmt::format("the range {}-{} goes backwards", begin, end));
      for (std::uint64_t shard = begin; shard <= end; ++shard)
        place(shard, member->second);
    }
  }

  std::uint64_t number(std::string_view text) const {
    std::uint64_t value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure != std::errc() || end != text.data() + text.size()) {
      refuse(fmt::format("\"{}\" is no number", excerpt(text, 60)), "Write numbers and ranges: 0-7, 12.");
    }
    if (value >= shards_) refuse(fmt::format("there is no {}; numbers are below {}", value, shards_));
    return value;
  }

  void place(std::uint64_t shard, std::uint32_t member) {
    std::uint32_t& holder = placement_.member_of[shard];
    if (holder != kNobody) refuse(fmt::format("{} is placed on \"{}\" already", shard, members_[holder].name));
    holder = member;
  }

  const std::uint64_t shards_;
  const std::span<const Member> members_;
  const std::string& where_;
  std::map<std::string, std::uint32_t> numbers_;
  std::size_t line_ = 0;
  Placement placement_;
};

}  // namespace

Placement parse_manual_placement(std::string_view text, std::uint64_t shards, std::span<const Member> members,
                                 const std::string& where) {
  return Parser(shards, members, where).parse(text);
}

Placement read_manual_placement(const std::filesystem::path& path, std::uint64_t shards,
                                std::span<const Member> members) {
  return parse_manual_placement(read_text(path, kMostBytes), shards, members, path.string());
}

}  // namespace muster::data
