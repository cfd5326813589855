// The hidden folder in which a checkpoint is written, and the names of both. Internal to muster/model.
//
// A writer holds a lock (flock) on its hidden folder for as long as it writes. The kernel drops it with the process,
// so whoever can take the lock knows that the writer is dead, on whichever host that shares the folder it was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "muster/base/files.h"

namespace muster::model {

// "step-000000001234".
std::string checkpoint_name(std::uint64_t step);
// The step of such a name, or nothing if it is another name.
std::optional<std::uint64_t> step_of(std::string_view name);

// A hidden name beside the final ones, another one at every call: ".step-000000001234.<digits>.tmp" (draft_name).
std::filesystem::path hidden_path(const std::filesystem::path& folder, std::uint64_t step);
bool is_hidden_name(std::string_view name);

// Where a checkpoint stands while another takes its name, on file systems that cannot swap the two.
std::filesystem::path aside_path(const std::filesystem::path& final_path);

// Removes a hidden folder whose writer is dead, or, of one that was put aside for another that never came, gives it its
// name again; leaves it alone when that cannot be told. Never throws.
void remove_if_abandoned(const std::filesystem::path& hidden);
// The same for what AtomicFile left.
void remove_draft_if_abandoned(const std::filesystem::path& draft);

using PointHook = std::function<void(std::string_view when, std::string_view what)>;

// Created empty and locked. Destroyed before publish(), it removes itself.
class HiddenFolder {
 public:
  // Throws kIo or kResource. Of several writers of one step the last to publish wins.
  HiddenFolder(const std::filesystem::path& folder, std::uint64_t step, const PointHook& at);
  HiddenFolder(const HiddenFolder&) = delete;
  HiddenFolder& operator=(const HiddenFolder&) = delete;
  ~HiddenFolder();

  // Calls `produce` with a sink that appends to the new file `name`; the file is durable afterwards.
  using Sink = std::function<void(std::span<const std::byte>)>;
  void write_file(const std::string& name, const std::function<void(const Sink&)>& produce);

  // Renames the folder to `final_path`, replacing a folder there, and makes that durable. Whoever dies on the way
  // leaves the old one or the new one.
  void publish(const std::filesystem::path& final_path);

 private:
  void replace(const std::filesystem::path& final_path);

  std::filesystem::path path_;
  PointHook at_;
  FileDescriptor lock_;
  bool published_ = false;
};

}  // namespace muster::model
