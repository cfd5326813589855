// The journal is of records: a line "CLIENT BYTES CHECKSUM" and so many bytes, the request as it came over the wire.
// The client of a stage that was closed is "close", and the bytes are the survivors where the stage decides on them.
// Half a record at the end, of a server that was killed while it wrote, was answered to nobody, and is cut off.
#include "muster/federated/secure_round.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/hash.h"
#include "muster/federated/federated_wire.h"

namespace muster::federated {
namespace {

constexpr std::uint64_t kMostJournalBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kClose = ~std::uint64_t{0};

std::string header_of(std::uint64_t client, const std::string& record) {
  const std::string sum = sha256(std::as_bytes(std::span(record))).substr(0, 16);
  return fmt::format("{} {} {}\n", client == kClose ? "close" : std::to_string(client), record.size(), sum);
}

// The stage in which a step is said; and that has to be over before it is answered.
SecureStage stage_of(SecureStep step) {
  switch (step) {
    case SecureStep::kKeys:
      return SecureStage::kKeys;
    case SecureStep::kShares:
      return SecureStage::kShares;
    case SecureStep::kSurvivors:
      return SecureStage::kMasked;
    case SecureStep::kAgreement:
      return SecureStage::kAgreement;
    case SecureStep::kUnmask:
    case SecureStep::kLeave:
      break;
  }
  return SecureStage::kUnmask;
}

}  // namespace

SecureRound::SecureRound(SecureSetup setup, std::vector<std::uint64_t> asked, std::string authorities,
                         std::filesystem::path journal)
    : path_(std::move(journal)), server_(std::move(setup), std::move(asked), std::move(authorities)) {
  file_ = FileDescriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!file_.valid()) throw_system_error("cannot open", path_);
  sync_folder(path_.parent_path());
  replay();
}

void SecureRound::replay() {
  const std::string all = read_text(path_, kMostJournalBytes);
  std::size_t at = 0;
  while (at < all.size()) {
    const std::size_t line = all.find('\n', at);
    std::istringstream words(all.substr(at, line == std::string::npos ? 0 : line - at));
    std::string who;
    std::size_t bytes = 0;
    std::string sum;
    if (!(words >> who >> bytes >> sum) || bytes > all.size() - line - 1) break;
    const std::string record = all.substr(line + 1, bytes);
    std::uint64_t client = kClose;
    if (who != "close") std::from_chars(who.data(), who.data() + who.size(), client);
    if (header_of(client, record) != all.substr(at, line + 1 - at)) break;
    at = line + 1 + bytes;
    v1::SecureStepRequest request;
    if (client == kClose) {
      std::istringstream survivors(record);
      for (std::uint64_t survivor = 0; survivors >> survivor;)
        server_.take_masked(survivor);
      server_.close_stage();
    } else if (request.ParseFromString(record)) {
      take(client, from_wire(request));
    } else {
      throw Error(ErrorKind::kDamaged, "is no journal of a round", path_.string(),
                  "Remove the folder it lies in: the round is then done again by clients that join anew.");
    }
  }
  if (::ftruncate(file_.get(), static_cast<off_t>(at)) != 0) throw_system_error("cannot cut", path_);
}

void SecureRound::keep(std::uint64_t client, const std::string& record) {
  MUSTER_FAILPOINT("federated.secure.before_it_is_kept");
  const std::string all = header_of(client, record) + record;
  const off_t before = ::lseek(file_.get(), 0, SEEK_END);
  const ssize_t written = ::write(file_.get(), all.data(), all.size());
  if (written != static_cast<ssize_t>(all.size()) || ::fsync(file_.get()) != 0) {
    const int error = written >= 0 && written < static_cast<ssize_t>(all.size()) ? ENOSPC : errno;
    if (before < 0 || ::ftruncate(file_.get(), before) != 0) throw_system_error("cannot cut", path_);
    errno = error;
    throw_system_error("cannot write", path_);
  }
  MUSTER_FAILPOINT("federated.secure.after_it_is_kept");
}

void SecureRound::take(std::uint64_t client, const SecureMessage& message) {
  switch (message.step) {
    case SecureStep::kKeys:
      server_.take_keys(message.keys);
      break;
    case SecureStep::kShares:
      server_.take_shares(client, message.shares);
      break;
    case SecureStep::kAgreement:
      server_.take_agreement(client, message.signature);
      break;
    case SecureStep::kUnmask:
      server_.take_unmasking(client, message.unmask);
      break;
    case SecureStep::kLeave:
      server_.refuse(client, message.reason);
      break;
    case SecureStep::kSurvivors:
      break;
  }
}

SecureAnswer SecureRound::step(std::uint64_t client, const SecureMessage& message) {
  using Verdict = SecureAnswer::Verdict;
  if (message.says && message.step == SecureStep::kKeys && message.keys.client != client)
    return {.verdict = Verdict::kRefused, .reason = "says keys for somebody else"};
  // Only what may change something is kept: what is late, or of who is out, changes nothing.
  const bool now = message.step == SecureStep::kLeave || server_.stage() == stage_of(message.step);
  if (message.says && message.step != SecureStep::kSurvivors && now && server_.stage() != SecureStage::kOver &&
      server_.takes_part(client, server_.stage())) {
    const std::vector<std::uint64_t> awaited = server_.awaited();
    if (message.step == SecureStep::kLeave || std::ranges::find(awaited, client) != awaited.end()) {
      v1::SecureStepRequest request;
      to_wire("", message, request);
      keep(client, request.SerializeAsString());
      take(client, message);
    }
  }
  return answer_to(client, message.step);
}

SecureAnswer SecureRound::answer_to(std::uint64_t client, SecureStep step) const {
  using Verdict = SecureAnswer::Verdict;
  if (const auto out = server_.refused().find(client); out != server_.refused().end())
    return {.verdict = Verdict::kRefused, .reason = out->second};
  if (server_.failed()) return {.verdict = Verdict::kOver, .reason = server_.failure()};
  const SecureStage stage = stage_of(step);
  if (step == SecureStep::kUnmask) {
    const bool here = server_.has_unmasked(client);
    return {.verdict = here ? Verdict::kGoOn : Verdict::kOver, .reason = here ? "" : "the sum is unmasked without it"};
  }
  if (server_.stage() <= stage) return {.verdict = Verdict::kWait, .reason = "others are waited for"};
  SecureAnswer answer{.verdict = Verdict::kGoOn};
  const auto next = static_cast<SecureStage>(static_cast<int>(stage) + 1);
  // Who has a part in what follows has said its own in time.
  if (!server_.takes_part(client, stage == SecureStage::kMasked ? SecureStage::kAgreement : next))
    return {.verdict = Verdict::kOver, .reason = "the round goes on without it"};
  switch (step) {
    case SecureStep::kKeys:
      answer.keys = server_.keys();
      break;
    case SecureStep::kShares:
      answer.shares = server_.shares_for(client);
      break;
    case SecureStep::kSurvivors:
      answer.survivors = server_.survivors();
      break;
    default:
      answer.agreements = server_.agreements();
      break;
  }
  return answer;
}

void SecureRound::close_stage() {
  std::string survivors;
  if (server_.stage() == SecureStage::kMasked) {
    for (const std::uint64_t one : server_.masked())
      survivors += fmt::format("{} ", one);
  }
  keep(kClose, survivors);
  server_.close_stage();
}

}  // namespace muster::federated
