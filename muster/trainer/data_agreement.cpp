// As session_agreement.h, for files: what is compared are values; what is told are places and hosts, so that somebody
// can go there.
#include "muster/trainer/data_agreement.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/host_name.h"
#include "muster/base/json.h"
#include "muster/comm/supervisor_sign.h"
#include "muster/control/depot_client.h"
#include "muster/data/fingerprint.h"
#include "muster/trainer/run_inputs.h"
#include "muster/trainer/session_agreement.h"

namespace muster::trainer {
namespace {

constexpr const char* kFilesKey = "agreement/files";
constexpr std::size_t kShownDigits = 16;
constexpr const char* kShardsKey = "data.path";
constexpr std::chrono::seconds kOpenTime{60};

std::string to_text(const std::string& host, const DataPrint& print) {
  Json entries = Json::array();
  for (const PrintedInput& input : print)
    entries.push_back({input.what, input.place, input.print});
  return Json({{"host", host}, {"print", entries}}).dump(-1, ' ', false, Json::error_handler_t::replace);
}

DataPrint print_of(const Json& json, const std::string& where) {
  DataPrint print;
  const auto entries = json.find("print");
  if (entries == json.end() || !entries->is_array()) throw Error(ErrorKind::kDamaged, "has no print", where);
  for (const Json& entry : *entries) {
    const bool strings = entry.is_array() && entry.size() == 3 &&
                         std::all_of(entry.begin(), entry.end(), [](const Json& part) { return part.is_string(); });
    if (!strings) throw Error(ErrorKind::kDamaged, "an entry is not three strings", where);
    print.push_back({entry[0], entry[1], entry[2]});
  }
  return print;
}

class WaitingDoor final : public data::PieceDoor {
 public:
  WaitingDoor(std::shared_ptr<data::PieceDoor> door, std::filesystem::path folder,
              std::function<void(const std::string&)> tell)
      : door_(std::move(door)), folder_(std::move(folder)), tell_(std::move(tell)) {}

  data::DepotView open(const Deadline& deadline) override {
    const std::chrono::nanoseconds patience = deadline.remaining();
    for (bool told = false;; told = true) {
      try {
        return door_->open(Deadline::after(patience));
      } catch (const Error& error) {
        const bool may_come = error.kind() == ErrorKind::kNotFound || error.kind() == ErrorKind::kTimeout;
        if (!may_come || !comm::supervisor_lives(folder_)) throw;
        if (!told) tell_(fmt::format("waiting for the data: {}", error.what()));
      }
    }
  }
  std::vector<std::byte> fetch(const data::PieceId& piece, const Deadline& deadline) override {
    return door_->fetch(piece, deadline);
  }
  void expect(std::span<const data::PieceId> pieces) override { door_->expect(pieces); }
  void place_lane(std::size_t lane, std::size_t lanes, std::span<const data::PieceRun> runs) override {
    door_->place_lane(lane, lanes, runs);
  }

 private:
  const std::shared_ptr<data::PieceDoor> door_;
  const std::filesystem::path folder_;
  const std::function<void(const std::string&)> tell_;
};

const PrintedInput* find(const DataPrint& print, const std::string& what) {
  const auto found = std::ranges::find(print, what, &PrintedInput::what);
  return found == print.end() ? nullptr : &*found;
}

std::string in_words(const PrintedInput* input, const std::string& host) {
  if (input == nullptr) return fmt::format("nothing on host {}", host);
  return fmt::format("{} on host {}{}", input->print, host, input->place.empty() ? "" : " at " + input->place);
}

// Nothing if they are the same; places may differ.
std::optional<Error> difference(const std::string& other, const DataPrint& theirs, const std::string& self,
                                const DataPrint& mine) {
  std::vector<std::string> names;
  for (const DataPrint* side : {&mine, &theirs})
    for (const PrintedInput& input : *side)
      if (std::ranges::find(names, input.what) == names.end()) names.push_back(input.what);
  for (const std::string& name : names) {
    const PrintedInput* const here = find(mine, name);
    const PrintedInput* const there = find(theirs, name);
    if (here != nullptr && there != nullptr && here->print == there->print) continue;
    return Error(ErrorKind::kMismatch,
                 fmt::format("the hosts do not read the same: {} is {}, and {}", name, in_words(here, self),
                             in_words(there, other)),
                 here == nullptr ? "" : here->place,
                 "Bring the same files to both hosts, at the place that the job names; then start this one again. "
                 "(\"muster data "
                 "show\" on both says what is there.)");
  }
  return std::nullopt;
}

}  // namespace

DataPrint print_data(const Job& job, const Datasets& sets, const std::shared_ptr<data::PieceDoor>& remote) {
  DataPrint print;
  for (const auto& [key, path] : inputs_of(job)) {
    if (remote && key == kShardsKey) continue;
    const InputStamp stamp = stamp_of(path);
    print.push_back({key, path.string(),
                     fmt::format("{} file{} of {} bytes, {}", stamp.files, stamp.files == 1 ? "" : "s", stamp.bytes,
                                 stamp.hash.substr(0, kShownDigits))});
  }
  if (remote) {
    const data::ShardCatalog catalog = remote->open(Deadline::after(kOpenTime)).catalog;
    print.push_back({kShardsKey, job.data.path,
                     fmt::format("{} shards of {} bytes, {}", catalog.shards.size(), catalog.bytes(), catalog.print)});
    return print;
  }
  const auto add = [&](const char* what, const std::shared_ptr<const data::Dataset>& set) {
    if (set) print.push_back({what, {}, fmt::format("{} samples, {}", set->size(), data::fingerprint(*set))});
  };
  add("the training set", sets.train);
  if (sets.validation != sets.test) add("the validation set", sets.validation);
  add("the test set", sets.test);
  return print;
}

void compare_data(comm::Store& store, const std::string& host, const DataPrint& mine,
                  const std::function<void(const Error&)>& refused) {
  const std::optional<std::string> found = set_or_find(store, kFilesKey, to_text(host, mine));
  if (!found) return;
  const std::string where = fmt::format("\"{}\" in the job's store", kFilesKey);
  const Json json = parse_json(*found, where);
  const std::optional<Error> error =
      difference(json_get<std::string>(json, "host", where), print_of(json, where), host, mine);
  if (!error) return;
  refused(*error);
  throw *error;
}

std::shared_ptr<data::PieceDoor> wait_for_data(std::shared_ptr<data::PieceDoor> door, std::filesystem::path folder,
                                               std::function<void(const std::string&)> tell) {
  return std::make_shared<WaitingDoor>(std::move(door), std::move(folder), std::move(tell));
}

std::shared_ptr<data::PieceDoor> remote_data(const std::optional<strategies::Supervised>& supervised, const Job& job,
                                             std::function<void(const std::string&)> tell) {
  if (job.data.access == "shared" || !supervised || !supervised->host || supervised->host->data.empty()) return nullptr;
  return wait_for_data(control::open_depot(supervised->host->data), supervised->folder, std::move(tell));
}

void agree_on_data(const strategies::Supervised& supervised, const Job& job, const Datasets& sets,
                   const std::shared_ptr<data::PieceDoor>& remote) {
  if (!supervised.host) return;
  const std::string self = fmt::format("{} ({})", supervised.host->number, host_name());
  const auto store = comm::with_interruption(supervised.host->store, supervised.interruption);
  compare_data(*store, self, print_data(job, sets, remote), [&](const Error& error) {
    leave_refusal(*supervised.store, supervised.seat);
    try {
      supervised.host->store->set(control::kOtherDataKey, control::refusal_text(error));
    } catch (const Error&) {
      // Another host has said so before, or nobody can be told: this host ends in any case.
    }
  });
}

}  // namespace muster::trainer
