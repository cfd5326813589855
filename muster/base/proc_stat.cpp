// Fields are counted from behind the program's name, which stands in parentheses and may itself hold spaces and
// parentheses.
#include "muster/base/proc_stat.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string_view>

#include "muster/base/files.h"

namespace muster {

std::optional<ProcStat> read_proc_stat(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return std::nullopt;
  std::array<char, 1024> buffer;
  const ssize_t length = ::read(file.get(), buffer.data(), buffer.size());
  if (length <= 0) return std::nullopt;
  const std::string_view text(buffer.data(), static_cast<std::size_t>(length));
  // The program's name is in parentheses and may hold anything; fields are counted from behind its end, where the
  // state is field 3.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= text.size()) return std::nullopt;
  ProcStat stat;
  stat.state = text[name_end + 2];
  std::uint64_t ticks = 0;  // of the user's code and of the kernel's
  std::size_t at = name_end + 2;
  for (int field = 4; field <= 22; ++field) {
    at = text.find(' ', at + 1);
    if (at == std::string_view::npos) return std::nullopt;
    std::uint64_t value = 0;
    std::from_chars(text.data() + at + 1, text.data() + text.size(), value);
    if (field == 4) stat.parent = static_cast<std::int32_t>(value);
    if (field == 5) stat.group = static_cast<std::int32_t>(value);
    if (field == 14 || field == 15) ticks += value;
    if (field == 20) stat.threads = value;
    if (field == 22) stat.start_time = value;
  }
  static const std::uint64_t kTicksPerSecond = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  stat.processor = std::chrono::nanoseconds(ticks * (1000000000 / kTicksPerSecond));
  return stat;
}

}  // namespace muster
