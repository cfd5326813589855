// The hidden name under which a file or folder is written until it is whole and gets its own.
//
// By chance and not by process number: writers on several hosts, or in several containers, share folders and may have
// the same number. Whether a writer still lives its lock (flock) says, never the name.
#pragma once

#include <string>
#include <string_view>

namespace muster {

// ".NAME.DIGITS.tmp", another one at every call: the digits are 64 random bits and never just 0. Create it so that it
// must be new (O_EXCL, mkdir). Throws kIo if the kernel gives no random numbers.
std::string draft_name(std::string_view name);

}  // namespace muster
