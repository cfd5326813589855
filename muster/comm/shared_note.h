// A text in shared memory for those who come after everybody who knew it was lost.
//
// Two pages take turns: a writer fills the one that does not count and numbers it last, so a death while it writes
// leaves the text before. A reader takes the one with the higher number, and looks at the number again afterwards.
// Thread safety: one writer at a time; readers from any thread of any process, also while it writes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster::comm {

class SharedNote {
 public:
  static constexpr std::size_t kMost = 4096 - 24;  // bytes of a text
  struct Page {
    // Words, so that reading what is being written over is no race; `number` tells afterwards that it was.
    using Word = std::atomic<std::uint64_t>;
    Word number;  // 0 while it is written, and before it was
    Word length;
    Word ever;  // of the first page: 1 once a note was written, from when on one of the numbers is not 0
    std::array<Word, kMost / sizeof(Word)> text;
  };
  using Pages = std::array<Page, 2>;
  static_assert(sizeof(Page) == 4096);

  // A view; `pages` are shared memory. All zero is a note that has not been written.
  explicit SharedNote(Pages& pages) : pages_(pages) {}

  // Throws kInvalidInput for more than kMost bytes; then the text before stays.
  void write(std::string_view text) const;
  std::string read() const;  // empty: none was written

 private:
  std::uint64_t last_number() const;

  Pages& pages_;
};

}  // namespace muster::comm
