// What was there before is known only before anything is made. A folder in which somebody else has put something
// meanwhile stays: only empty ones can be removed by themselves.
#include "muster/coordinator/job_folder.h"

#include <system_error>

namespace muster::coordinator {

void JobFolder::remove() const {
  if (!made) return;
  std::error_code code;
  std::filesystem::remove_all(path, code);
  for (const std::filesystem::path& folder : around) {
    if (!std::filesystem::remove(folder, code) || code) return;
  }
}

JobFolder make_job_folder(const std::filesystem::path& runs, const std::function<std::filesystem::path()>& make) {
  JobFolder folder;
  std::error_code code;
  for (std::filesystem::path outer = runs; !outer.empty() && !std::filesystem::exists(outer, code);
       outer = outer.parent_path())
    folder.around.push_back(outer);
  folder.path = make();
  folder.made = true;
  return folder;
}

}  // namespace muster::coordinator
