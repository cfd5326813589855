// A coordinator and nothing else, for tests that kill it: coordinator_process RUN_FOLDER.
#include <unistd.h>

#include "muster/base/log.h"
#include "muster/control/access_token.h"
#include "muster/control/control_server.h"

int main(int, char** argv) {
  namespace control = muster::control;
  control::JobRecord record(control::make_sqlite_store(control::store_file(argv[1])));
  record.take_over(muster::this_process());
  record.begin({"job", argv[1], ""}, {1, 4, 2, false});
  muster::Log log(muster::LogLevel::kOff);
  const control::ControlServer server(record, argv[1], {.status = [] { return control::JobStatus{}; }}, log);
  while (true)
    ::pause();
}
