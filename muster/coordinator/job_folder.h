// The folder of a job's record, as its coordinator knows it before anybody is started: a job that loads for minutes can
// be seen and commanded from its first second. One that was made for a job in which nothing was trained goes with it.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

namespace muster::coordinator {

struct JobFolder {
  std::filesystem::path path{};  // empty: the workers say later which one it is
  bool made = false;             // for this job
  // Folders around it that were made with it, from the inside out.
  std::vector<std::filesystem::path> around{};

  // Removes what was made for the job; of the folders around it those in which nothing else is. Does not throw.
  void remove() const;
};

// `make` makes the folder inside of `runs`, and that one if it is not there; gives its path. Throws what `make` throws.
JobFolder make_job_folder(const std::filesystem::path& runs, const std::function<std::filesystem::path()>& make);

}  // namespace muster::coordinator
