// The book is there only once its state has come: until then a server has its number and nothing to say. A state that
// is refused leaves the book as it was.
#include "muster/strategies/parameter_server/server_chunks.h"

#include <utility>

#include "muster/base/error.h"

namespace muster::strategies {

void BookStore::write(std::uint32_t chunk, std::span<const std::byte> state) {
  if (chunk != chunk_) throw Error(ErrorKind::kDamaged, "there is one book");
  if (book_) return book_->write(state);
  Book fresh(plan_);
  fresh.write(state);
  book_.emplace(std::move(fresh));
}

ServerChunks::ServerChunks(const ServerPlan& plan, std::span<std::byte> memory, OwnUpdate own)
    : parameters_(plan, memory, std::move(own)),
      book_chunk_(static_cast<std::uint32_t>(parameters_.chunks().size())),
      count_(plan.chunk_count()),
      book_(plan, book_chunk_),
      tables_(plan) {
}

}  // namespace muster::strategies
