// A writer that tests kill: store_process count|add|hold ADDRESS, where ADDRESS is etcd://... or an SQLite file.
// count: counts up without an end, and prints each number once it is stored. add: adds 1 to a number 40 times. hold:
// keeps an entry of its session.
#include <unistd.h>

#include <cstdio>
#include <string>

#include "muster/control/etcd_options.h"
#include "muster/control/store.h"

namespace {

using muster::control::Store;

std::unique_ptr<Store> open(const std::string& address) {
  if (address.starts_with("etcd://")) {
    muster::control::EtcdOptions options = muster::control::parse_etcd_url(address);
    options.lease = std::chrono::seconds(2);
    return muster::control::make_etcd_store(options);
  }
  return muster::control::make_sqlite_store(address, {.timeout = std::chrono::seconds(60)});
}

void count(Store& store) {
  const auto before = store.get("count");
  for (int value = before ? std::stoi(before->value) + 1 : 1;; ++value) {
    store.commit({.writes = {{"count", std::to_string(value)}, {"twin", std::to_string(value)}}});
    std::printf("%d\n", value);
    std::fflush(stdout);
  }
}

void add(Store& store) {
  for (int done = 0; done < 40;) {
    const auto entry = store.get("count");
    done += store.compare_and_put("count", entry->revision, std::to_string(std::stoi(entry->value) + 1)).has_value();
  }
}

[[noreturn]] void hold(Store& store) {
  store.commit({.writes = {{"mine", "x", true}}});
  while (true)
    ::pause();
}

}  // namespace

int main(int, char** argv) {
  const auto store = open(argv[2]);
  if (std::string(argv[1]) == "count")
    count(*store);
  else if (std::string(argv[1]) == "add")
    add(*store);
  else
    hold(*store);
  return 0;
}
