// A folder of this host's agent that is not there leaves the run's own. Where both are there, the coordinator's record
// says on which host it was served last.
#include "muster/control/commands_folder.h"

#include <system_error>

#include "muster/base/process.h"
#include "muster/control/access_token.h"
#include "muster/control/job_record.h"

namespace muster::control {

std::filesystem::path host_folder(const std::filesystem::path& run) {
  return run / "hosts" / process_space();
}

std::filesystem::path commands_folder(const std::filesystem::path& run) {
  std::error_code code;
  std::filesystem::path own = host_folder(run);
  if (!std::filesystem::exists(store_file(own), code)) return run;
  if (!std::filesystem::exists(store_file(run), code)) return own;
  const JobRecord coordinators(make_sqlite_store(store_file(run), {.create = false}));
  return coordinators.served_in() == process_space() ? run : own;
}

}  // namespace muster::control
