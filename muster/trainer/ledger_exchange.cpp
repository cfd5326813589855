// News are pieces of files, one after the other: how long the name is, where in the file it belongs, and its bytes. In
// a meeting every host tells what it has; whoever has most of a file gives what the others lack to all.
#include "muster/trainer/ledger_exchange.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/trainer/shared_text.h"

namespace muster::trainer {
namespace {

constexpr std::uint64_t kLedgerPiece = std::uint64_t{4} << 20;
constexpr const char* kOtherLedger = "what another host has of the ledger";

struct PieceHeader {
  std::uint64_t id = 0;
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
  std::uint64_t name = 0;  // bytes of it, which come first
};

void append_bytes(std::vector<std::uint8_t>& to, const void* from, std::size_t bytes) {
  const auto* const begin = static_cast<const std::uint8_t*>(from);
  to.insert(to.end(), begin, begin + bytes);
}

std::span<const std::uint8_t> cut_off(std::span<const std::uint8_t>& from, std::uint64_t bytes) {
  if (bytes > from.size()) throw Error(ErrorKind::kMismatch, "a piece of another host's ledger is cut short");
  const std::span<const std::uint8_t> taken = from.first(bytes);
  from = from.subspan(bytes);
  return taken;
}

std::string parts_text(const std::vector<data::LedgerPart>& parts) {
  Json list = Json::array();
  for (const data::LedgerPart& part : parts)
    list.push_back({{"id", part.id}, {"name", part.name}, {"bytes", part.bytes}});
  return Json{{"parts", list}}.dump();
}

std::vector<data::LedgerPart> read_parts(const std::string& text) {
  const Json json = parse_json(text, kOtherLedger);
  if (!json.contains("parts") || !json.at("parts").is_array())
    throw Error(ErrorKind::kDamaged, "names no files", kOtherLedger);
  std::vector<data::LedgerPart> parts;
  for (const Json& part : json.at("parts")) {
    parts.push_back({json_get<std::uint64_t>(part, "id", kOtherLedger),
                     json_get<std::string>(part, "name", kOtherLedger),
                     json_get<std::uint64_t>(part, "bytes", kOtherLedger)});
  }
  return parts;
}

// A file, and how much of it each host has.
struct Held {
  data::LedgerPart part;
  std::vector<std::uint64_t> bytes;  // by host

  std::uint64_t most() const { return *std::max_element(bytes.begin(), bytes.end()); }
  std::uint64_t least() const { return *std::min_element(bytes.begin(), bytes.end()); }
  std::size_t holder() const {
    return static_cast<std::size_t>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
  }
};

}  // namespace

void LedgerExchange::settle(const std::filesystem::path& folder, const strategies::Members& members) {
  if (!parts_) parts_.emplace(folder);
  const bool first = members.host_index() == 0;
  const std::vector<data::LedgerPart> own = first ? parts_->list() : std::vector<data::LedgerPart>();
  comm::Group group = members.group;
  std::map<std::uint64_t, Held> all;
  for (std::size_t host = 0; host < members.hosts(); ++host) {
    std::string text = host == members.host && first ? parts_text(own) : std::string();
    share_text(group, text, members.job.first_rank(host));
    for (const data::LedgerPart& part : read_parts(text)) {
      Held& held = all.emplace(part.id, Held{part, std::vector<std::uint64_t>(members.hosts(), 0)}).first->second;
      held.bytes[host] = part.bytes;
    }
  }
  told_.clear();
  std::vector<std::uint8_t> piece;
  for (const auto& [id, held] : all) {
    told_[id] = held.most();
    const bool gives = first && held.holder() == members.host;
    const auto mine =
        std::find_if(own.begin(), own.end(), [&](const data::LedgerPart& part) { return part.id == held.part.id; });
    for (std::uint64_t at = held.least(); at < held.most(); at += piece.size()) {
      piece.resize(std::min(kLedgerPiece, held.most() - at));
      if (gives) piece = parts_->read(*mine, at, at + piece.size());
      group.broadcast(std::span(piece), members.job.first_rank(held.holder()), Deadline::after(kDiskPatience));
      // Of what it has already append() takes no notice.
      const std::uint64_t has = held.bytes[members.host];
      if (first && has < held.most() && at + piece.size() > has) parts_->append(held.part, at, piece);
    }
  }
}

std::vector<std::uint8_t> LedgerExchange::news() {
  std::vector<std::uint8_t> news;
  if (!parts_) return news;
  for (const data::LedgerPart& part : parts_->list()) {
    std::uint64_t& told = told_[part.id];
    if (part.copy || part.bytes <= told) continue;
    const PieceHeader header{part.id, told, part.bytes - told, part.name.size()};
    const std::vector<std::uint8_t> bytes = parts_->read(part, told, part.bytes);
    append_bytes(news, &header, sizeof header);
    append_bytes(news, part.name.data(), part.name.size());
    append_bytes(news, bytes.data(), bytes.size());
    told = part.bytes;
  }
  return news;
}

void LedgerExchange::keep(std::span<const std::uint8_t> news) {
  if (!parts_) throw Error(ErrorKind::kMismatch, "another host sends its ledger before the workers have met");
  while (!news.empty()) {
    PieceHeader header;
    std::memcpy(&header, cut_off(news, sizeof header).data(), sizeof header);
    const std::span<const std::uint8_t> name = cut_off(news, header.name);
    data::LedgerPart part;
    part.id = header.id;
    part.name.assign(name.begin(), name.end());
    parts_->append(part, header.at, cut_off(news, header.bytes));
  }
}

}  // namespace muster::trainer
