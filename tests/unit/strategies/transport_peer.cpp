// One end of a transport in a process of its own, for tests that kill it:
//   transport_peer serve KIND           prints its address, and echoes all calls but those that ask for a lease
//   transport_peer hold KIND ADDRESS    makes as many calls as it may, says so, and stays
//   transport_peer hammer KIND ADDRESS  says when it is connected, and makes calls without end; a wrong answer is an
//   end
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <string>

#include "unit/strategies/transports.h"

namespace {

using namespace muster;
using namespace muster::strategies;

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

[[noreturn]] void serve(const std::string& kind) {
  const auto inbox = make_inbox(kind);
  say(inbox->address());
  while (true)
    if (const auto call = inbox->next(soon()); call && !std::holds_alternative<LeaseRequest>(call->request.verb))
      echo(*inbox, *call);
}

[[noreturn]] void hold(Connection& connection) {
  const std::vector<std::byte> body(1000, std::byte{'k'});
  while (connection.try_start(numbered(), body, {})) {
  }
  say("held");
  while (true)
    ::pause();
}

int hammer(Connection& connection) {
  say("connected");
  struct Under {
    Connection::Call call;
    std::size_t size;
    std::vector<std::byte> reply;
  };
  const std::vector<std::byte> body = bytes_of(30'000, 1);
  std::deque<Under> calls;
  for (std::size_t i = 0;; ++i) {
    const std::size_t size = i * 7919 % body.size();
    Under& next = calls.emplace_back(Under{0, size, std::vector<std::byte>(size)});
    next.call = connection.start(numbered(), std::span(body).first(size), next.reply, soon());
    if (calls.size() < 3) continue;
    const Under& first = calls.front();
    if (connection.wait(first.call, soon()).bytes != first.size) return 3;
    if (!std::equal(first.reply.begin(), first.reply.end(), body.begin())) return 4;
    calls.pop_front();
  }
}

}  // namespace

int main(int count, char** words) {
  const std::string what = count > 2 ? words[1] : "";
  if (what == "serve") serve(words[2]);
  if (count != 4) return 2;
  const auto connection = connect(words[2], words[3]);
  if (what == "hold") hold(*connection);
  return hammer(*connection);
}
