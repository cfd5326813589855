// Whether a file of before is there. A disk that does not answer is an error and never a "no": what a ledger, a list or
// a state has said would be forgotten, and written over.
#pragma once

#include <filesystem>

namespace muster::federated {

// Throws Error{kIo | kResource}, naming the path, when the system cannot say.
bool is_there(const std::filesystem::path& path);

}  // namespace muster::federated
