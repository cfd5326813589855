// Number last, read number again: a reader that was overtaken takes the other page. No lock, because a process that is
// killed while it holds one would never give it back.
#include "muster/comm/shared_note.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"

namespace muster::comm {

std::uint64_t SharedNote::last_number() const {
  return std::max(pages_[0].number.load(), pages_[1].number.load());
}

void SharedNote::write(std::string_view text) const {
  if (text.size() > kMost)
    throw Error(ErrorKind::kInvalidInput, fmt::format("a note of {} bytes; {} are possible", text.size(), kMost),
                "arena");
  const std::uint64_t number = last_number() + 1;
  Page& page = pages_[number % 2];
  page.number.store(0);
  MUSTER_FAILPOINT("roster.note.before_write");
  page.length.store(text.size());
  for (std::size_t begin = 0; begin < text.size(); begin += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + begin, std::min(sizeof(word), text.size() - begin));
    page.text[begin / sizeof(word)].store(word, std::memory_order_release);
  }
  MUSTER_FAILPOINT("roster.note.before_publish");
  page.number.store(number);
  pages_[0].ever.store(1);
}

std::string SharedNote::read() const {
  for (;;) {
    const std::uint64_t number = last_number();
    if (number == 0) {
      if (pages_[0].ever.load() == 0) return {};
      continue;  // the first page was being written when it was looked at, and then the second
    }
    const Page& page = pages_[number % 2];
    std::string text(std::min<std::uint64_t>(page.length.load(), kMost), '\0');
    for (std::size_t begin = 0; begin < text.size(); begin += sizeof(std::uint64_t)) {
      const std::uint64_t word = page.text[begin / sizeof(word)].load(std::memory_order_acquire);
      std::memcpy(text.data() + begin, &word, std::min(sizeof(word), text.size() - begin));
    }
    // Written over meanwhile: there is a newer one.
    if (page.number.load() == number) return text;
  }
}

}  // namespace muster::comm
