// What workers and parameter servers leave in the folder of their job's store for the process that watches them: how
// far they are, where they have no arena to say it in, and why they failed.
//
// Nothing here throws: words that cannot be left or read are missed by nobody but a reader.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace muster::launch {

// A note takes the place of the one before; whoever reads sees one or the other. Empty: there is none.
void leave_note(const std::filesystem::path& store, const std::string& note);
std::string read_note(const std::filesystem::path& store);

// Of the worker that was the `attempt`th with this rank. False: another one has left the same before, and will have
// told people. What is read is said by the first rank of those who said something.
bool leave_reason(const std::filesystem::path& store, int rank, int attempt, const std::string& reason);
std::string read_reason(const std::filesystem::path& store);
std::string read_reason(const std::filesystem::path& store, int rank, int attempt);

// Why the parameter server that was the `attempt`th with this number failed.
void leave_server_reason(const std::filesystem::path& store, std::uint32_t number, std::uint32_t attempt,
                         const std::string& reason);
std::string read_server_reason(const std::filesystem::path& store, std::uint32_t number, std::uint32_t attempt);

}  // namespace muster::launch
