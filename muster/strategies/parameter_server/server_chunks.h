// All chunks of one server behind one face, whichever of the three kinds they are: parts of the layout (shard.h), the
// book (book.h), partitions of tables (table_shard.h). Their numbers follow each other in this order.
//
// Thread safety: one thread.
#pragma once

#include <optional>
#include <type_traits>

#include "muster/strategies/parameter_server/book.h"
#include "muster/strategies/parameter_server/chunk_store.h"
#include "muster/strategies/parameter_server/shard.h"
#include "muster/strategies/parameter_server/table_shard.h"

namespace muster::strategies {

// The book as a chunk.
class BookStore final : public ChunkStore {
 public:
  BookStore(const ServerPlan& plan, std::uint32_t chunk) : plan_(plan), chunk_(chunk) {}

  // REQUIRES: has(chunk of the book).
  Book& book() { return *book_; }
  const Book& book() const { return *book_; }

  bool has(std::uint32_t chunk) const override { return chunk == chunk_ && book_.has_value(); }
  std::vector<std::byte> read(std::uint32_t) const override { return book_->read(); }
  void write(std::uint32_t chunk, std::span<const std::byte> state) override;
  void drop(std::uint32_t) override { book_.reset(); }
  std::uint64_t version(std::uint32_t) const override { return book_->version(); }
  std::uint64_t next_update(std::uint32_t, std::uint32_t) const override { return 0; }  // nobody updates it so

 private:
  const ServerPlan& plan_;
  const std::uint32_t chunk_;
  std::optional<Book> book_;
};

class ServerChunks final : public ChunkStore {
 public:
  // As of Shard.
  ServerChunks(const ServerPlan& plan, std::span<std::byte> memory, OwnUpdate own);

  std::uint32_t count() const { return count_; }
  std::uint32_t book_chunk() const { return book_chunk_; }
  // REQUIRES, here and below: chunk < count().
  ChunkKind kind(std::uint32_t chunk) const {
    return chunk < book_chunk_    ? ChunkKind::kParameters
           : chunk == book_chunk_ ? ChunkKind::kBook
                                  : ChunkKind::kPartition;
  }
  Shard& parameters() { return parameters_; }
  BookStore& book() { return book_; }
  TableShard& tables() { return tables_; }

  bool has(std::uint32_t chunk) const override { return store(*this, chunk).has(chunk); }
  std::vector<std::byte> read(std::uint32_t chunk) const override { return store(*this, chunk).read(chunk); }
  void write(std::uint32_t chunk, std::span<const std::byte> state) override {
    store(*this, chunk).write(chunk, state);
  }
  void drop(std::uint32_t chunk) override { store(*this, chunk).drop(chunk); }
  std::uint64_t version(std::uint32_t chunk) const override { return store(*this, chunk).version(chunk); }
  std::uint64_t next_update(std::uint32_t chunk, std::uint32_t client) const override {
    return store(*this, chunk).next_update(chunk, client);
  }

 private:
  template <typename Self>
  static std::conditional_t<std::is_const_v<Self>, const ChunkStore, ChunkStore>& store(Self& self,
                                                                                        std::uint32_t chunk) {
    switch (self.kind(chunk)) {
      case ChunkKind::kParameters:
        return self.parameters_;
      case ChunkKind::kBook:
        return self.book_;
      case ChunkKind::kPartition:
        break;
    }
    return self.tables_;
  }

  Shard parameters_;
  const std::uint32_t book_chunk_;
  const std::uint32_t count_;
  BookStore book_;
  TableShard tables_;
};

}  // namespace muster::strategies
