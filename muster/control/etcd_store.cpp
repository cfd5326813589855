// The store on etcd: keys are PREFIX/KEY, revisions are etcd's own, a commit is one etcd transaction.
//
// A call whose answer was lost is made again, and must not count twice: every commit also writes an id of its own to
// this object's mark (PREFIX~/ID), on the condition that the mark is as the commit before has left it. When the
// conditions do not hold, the mark tells whether that is because the first try was made after all. The mark is under
// the session's lease, so that nothing piles up.
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "muster/base/failpoint.h"
#include "muster/base/store_key.h"
#include "muster/control/access_token.h"
#include "muster/control/etcd_client.h"
#include "muster/control/etcd_session.h"
#include "muster/control/store.h"

namespace muster::control {
namespace {

constexpr std::size_t kMostEtcdValueBytes = 1 << 20;
constexpr int kNewSessions = 3;  // that a commit may need: one can end while another is made

// The first key after all that begin with `prefix`.
std::string end_of_prefix(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff)
    prefix.pop_back();
  if (prefix.empty()) return std::string(1, '\0');  // etcd: to the last key there is
  prefix.back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return prefix;
}

void add_condition(etcdserverpb::TxnRequest& request, const std::string& key, std::uint64_t revision) {
  etcdserverpb::Compare& compare = *request.add_compare();
  compare.set_result(etcdserverpb::Compare::EQUAL);
  compare.set_target(etcdserverpb::Compare::MOD);
  compare.set_key(key);
  compare.set_mod_revision(static_cast<std::int64_t>(revision));
}

class EtcdStore final : public Store {
 public:
  explicit EtcdStore(const EtcdOptions& options)
      : options_(options),
        root_(options.prefix + "/"),
        mark_(fmt::format("{}~/{}", options.prefix, random_hex(8))),
        client_(options),
        session_(client_, options.lease) {}

  std::optional<Entry> get(std::string_view key) override {
    require_store_key(key);
    etcdserverpb::RangeRequest request;
    request.set_key(root_ + std::string(key));
    const etcdserverpb::RangeResponse reply = client_.range(request, deadline());
    if (reply.kvs().empty()) return std::nullopt;
    return entry_of(reply.kvs(0));
  }

  std::vector<Entry> list(std::string_view prefix) override {
    etcdserverpb::RangeRequest request;
    request.set_key(root_ + std::string(prefix));
    request.set_range_end(end_of_prefix(root_ + std::string(prefix)));
    request.set_sort_order(etcdserverpb::RangeRequest::ASCEND);
    const etcdserverpb::RangeResponse reply = client_.range(request, deadline());
    std::vector<Entry> entries;
    for (const etcdserverpb::KeyValue& found : reply.kvs())
      entries.push_back(entry_of(found));
    return entries;
  }

  std::uint64_t revision() override {
    etcdserverpb::RangeRequest request;
    request.set_key(root_);
    request.set_count_only(true);
    return static_cast<std::uint64_t>(client_.range(request, deadline()).header().revision());
  }

  std::optional<std::uint64_t> commit(const Transaction& transaction) override {
    for (const Transaction::Condition& condition : transaction.conditions)
      require_store_key(condition.key);
    for (const Transaction::Write& write : transaction.writes) {
      require_store_key(write.key);
      if (write.value) require_store_value(write.key, *write.value, kMostEtcdValueBytes);
    }
    const MutexLock lock(committing_);
    const Deadline until = deadline();
    const std::string id = std::to_string(++commits_);
    bool again = false;  // an earlier try of this commit may have been made
    for (int sessions = 0; sessions < kNewSessions; ++sessions) {
      const std::int64_t lease = session_.lease(until);
      etcdserverpb::TxnResponse reply;
      MUSTER_FAILPOINT("control.store.before_commit");
      const EtcdClient::Answer answer = send(request_of(transaction, id, lease), reply, until);
      MUSTER_FAILPOINT("control.store.after_commit");
      again = again || answer.attempts > 1;
      // The lease has ended; with it went the mark, and nothing was written.
      if (answer.status.error_code() == grpc::StatusCode::NOT_FOUND) {
        session_.forget(lease);
        marked_ = 0;
        if (again) break;
        continue;
      }
      if (!answer.status.ok()) throw etcd_error(answer.status, client_.where());
      if (reply.succeeded()) return marked(reply.header().revision());
      const etcdserverpb::RangeResponse& mark = reply.responses(0).response_range();
      const std::uint64_t now = mark.kvs().empty() ? 0 : static_cast<std::uint64_t>(mark.kvs(0).mod_revision());
      if (now != 0 && mark.kvs(0).value() == id) return marked(mark.kvs(0).mod_revision());
      if (now == marked_) return std::nullopt;
      marked_ = now;
      if (again) break;
    }
    throw Error(ErrorKind::kTimeout, "it is not known whether etcd has made a change", client_.where(),
                "Look at what is there now.");
  }

  bool has_sessions() const override { return true; }
  std::chrono::nanoseconds session_left() const override { return session_.left(); }

 private:
  Deadline deadline() const { return Deadline::after(options_.timeout); }

  Entry entry_of(const etcdserverpb::KeyValue& found) const {
    return {found.key().substr(root_.size()), found.value(), static_cast<std::uint64_t>(found.mod_revision())};
  }

  std::uint64_t marked(std::int64_t revision) MUSTER_REQUIRES(committing_) {
    return marked_ = static_cast<std::uint64_t>(revision);
  }

  etcdserverpb::TxnRequest request_of(const Transaction& transaction, const std::string& id, std::int64_t lease) const
      MUSTER_REQUIRES(committing_) {
    etcdserverpb::TxnRequest request;
    for (const Transaction::Condition& condition : transaction.conditions)
      add_condition(request, root_ + condition.key, condition.revision);
    add_condition(request, mark_, marked_);
    for (const Transaction::Write& write : transaction.writes) {
      if (!write.value) {
        request.add_success()->mutable_request_delete_range()->set_key(root_ + write.key);
        continue;
      }
      etcdserverpb::PutRequest& put = *request.add_success()->mutable_request_put();
      put.set_key(root_ + write.key);
      put.set_value(*write.value);
      if (write.of_session) put.set_lease(lease);
    }
    etcdserverpb::PutRequest& mark = *request.add_success()->mutable_request_put();
    mark.set_key(mark_);
    mark.set_value(id);
    mark.set_lease(lease);
    request.add_failure()->mutable_request_range()->set_key(mark_);
    return request;
  }

  EtcdClient::Answer send(const etcdserverpb::TxnRequest& request, etcdserverpb::TxnResponse& reply,
                          const Deadline& until) {
    return client_.call(
        [&](grpc::ClientContext& context, const std::shared_ptr<grpc::Channel>& channel) {
          reply.Clear();
          return etcdserverpb::KV::NewStub(channel)->Txn(&context, request, &reply);
        },
        until);
  }

  const EtcdOptions options_;
  const std::string root_;
  const std::string mark_;
  EtcdClient client_;
  EtcdSession session_;
  Mutex committing_;  // one commit of this object at a time
  std::uint64_t commits_ MUSTER_GUARDED_BY(committing_) = 0;
  std::uint64_t marked_ MUSTER_GUARDED_BY(committing_) = 0;  // the revision of the mark
};

}  // namespace

std::unique_ptr<Store> make_etcd_store(const EtcdOptions& options) {
  return std::make_unique<EtcdStore>(options);
}

}  // namespace muster::control
