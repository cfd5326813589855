// A list of pairs [NUMBER, REASON], written whole: it changes once for each client, at its end. What a client says as
// its reason is cut to what a person reads.
#include "muster/federated/left_clients.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/federated/is_there.h"

namespace muster::federated {
namespace {

constexpr std::uint64_t kMostLeftBytes = std::uint64_t{1} << 30;
constexpr std::size_t kLongestReason = 200;

}  // namespace

LeftClients::LeftClients(std::filesystem::path path) : path_(std::move(path)) {
  if (!is_there(path_)) return;
  for (const Json& pair : parse_json(read_text(path_, kMostLeftBytes), path_.string())) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_unsigned() || !pair[1].is_string())
      throw Error(ErrorKind::kDamaged, "is no list of clients that have left", path_.string(), "Remove it.");
    left_[pair[0].get<std::uint64_t>()] = pair[1].get<std::string>();
  }
}

void LeftClients::write(const std::map<std::uint64_t, std::string>& left) const {
  Json pairs = Json::array();
  for (const auto& [client, reason] : left)
    pairs.push_back({client, reason});
  write_atomically(path_, pairs.dump(-1, ' ', false, Json::error_handler_t::replace));
}

bool LeftClients::add(std::uint64_t client, const std::string& reason) {
  if (contains(client)) return false;
  std::map<std::uint64_t, std::string> next = left_;
  next[client] = excerpt(reason, kLongestReason);
  write(next);
  left_ = std::move(next);
  return true;
}

bool LeftClients::remove(std::uint64_t client) {
  if (!contains(client)) return false;
  std::map<std::uint64_t, std::string> next = left_;
  next.erase(client);
  write(next);
  left_ = std::move(next);
  return true;
}

}  // namespace muster::federated
