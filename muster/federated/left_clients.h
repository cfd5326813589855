// Who has left a run, and why: clients that take part in nothing more, because the budgets of their samples are spent.
//
// On disk before they are answered, so that a server that was killed does not wait for them. Who asks for work again is
// back. Thread safety: one thread at a time. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace muster::federated {

class LeftClients {
 public:
  // Reads the file, if there is one. Throws Error{kDamaged | kIo}.
  explicit LeftClients(std::filesystem::path path);

  bool contains(std::uint64_t client) const { return left_.contains(client); }
  std::size_t size() const { return left_.size(); }
  // Why one of them has left. REQUIRES: size() > 0.
  const std::string& a_reason() const { return left_.begin()->second; }
  // Durable when they return; false: it was so before. Throw Error{kIo | kResource}.
  bool add(std::uint64_t client, const std::string& reason);
  bool remove(std::uint64_t client);

 private:
  void write(const std::map<std::uint64_t, std::string>& left) const;

  const std::filesystem::path path_;
  std::map<std::uint64_t, std::string> left_;
};

}  // namespace muster::federated
