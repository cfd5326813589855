// TarArchive: files into a .tar.zst, as GNU tar reads it with --zstd. The same files give the same bytes: there are no
// times, users or order of folders in it. Thread safety: one thread at a time.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

namespace muster::launch {

class TarArchive {
 public:
  // It appears under its name by finish(). Throws as AtomicFile.
  explicit TarArchive(const std::filesystem::path& path);
  TarArchive(const TarArchive&) = delete;
  TarArchive& operator=(const TarArchive&) = delete;
  ~TarArchive();

  // `name` is the path in the archive, at most 100 bytes. Throws kInvalidInput (a longer one), as open_for_reading, and
  // as AtomicFile::write.
  void add(const std::filesystem::path& file, const std::string& name, bool executable);
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::launch
