// Who the clients of a server are: names with their numbers, for as long as the run lasts.
//
// A file of lines "NUMBER NAME", each on disk before its client is told: a name has one number, a number one name,
// whatever dies. Half a line at the end, of a server that was killed while it wrote, is cut off. Thread safety: one
// thread at a time. No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/files.h"

namespace muster::federated {

// Letters, digits and -._ , at most 64 of them, and the name of a file.
bool is_client_name(std::string_view name);

class Enrolments {
 public:
  // Opens or makes the file. Throws Error{kDamaged | kIo | kResource}.
  Enrolments(std::filesystem::path path, std::uint64_t most);

  std::optional<std::uint64_t> number_of(const std::string& name) const;
  // Of a number that is taken. REQUIRES: it is.
  const std::string& name_of(std::uint64_t number) const { return names_.at(number); }
  std::size_t size() const { return names_.size(); }

  // The number that the name has, or a new one: `wanted`, else the lowest that is free. Throws Error{kInvalidInput}: a
  // name that is none (letters, digits and -._ , at most 64), a number of somebody else's or beyond the last, no number
  // free; kIo, kResource.
  std::uint64_t enrol(const std::string& name, std::optional<std::uint64_t> wanted);

 private:
  void read();
  void add(std::uint64_t number, const std::string& name);

  const std::filesystem::path path_;
  const std::uint64_t most_;
  FileDescriptor file_;
  std::map<std::uint64_t, std::string> names_;
  std::map<std::string, std::uint64_t> numbers_;
  std::uint64_t lowest_free_ = 0;
};

}  // namespace muster::federated
