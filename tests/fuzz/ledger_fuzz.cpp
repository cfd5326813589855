// Any bytes in a ledger's file give a report or a muster::Error; so do records with any fields and right checksums,
// which mutation alone would never find. A ledger that passes has as many samples as its whole epochs need.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <span>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/temporary_folder.h"
#include "muster/data/ledger_check.h"
#include "muster/data/ledger_format.h"

namespace {

using muster::data::LedgerRecord;

// The input as small numbers, so that records have something to do with each other.
class Numbers {
 public:
  explicit Numbers(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  bool empty() const { return at_ >= bytes_.size(); }
  std::uint64_t take() {
    const std::uint8_t byte = empty() ? 0 : bytes_[at_++];
    return byte == 255 ? UINT64_MAX : byte == 254 ? std::uint64_t{1} << 40 : byte % 8;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
};

std::vector<std::byte> records_of(std::span<const std::uint8_t> input) {
  Numbers numbers(input);
  const std::uint64_t samples = numbers.take();
  std::vector<std::byte> file = muster::data::encode_ledger_header(0, samples, 1);
  std::uint32_t chain = muster::data::ledger_checksum(0, std::span(file).first(32));
  for (std::uint64_t number = 0; !numbers.empty(); ++number) {
    LedgerRecord record;
    record.kind = static_cast<muster::data::LedgerKind>(numbers.take());
    record.generation = numbers.take();
    record.epoch = numbers.take();
    record.step = numbers.take();
    record.lane = numbers.take();
    record.number = number;
    std::vector<std::uint64_t> ids(numbers.take() % 8);
    for (std::uint64_t& id : ids)
      id = numbers.take();
    const auto bytes = muster::data::encode_ledger_record(record, ids, chain);
    file.insert(file.end(), bytes.begin(), bytes.end());
  }
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const muster::TemporaryFolder folder("muster-fuzz-");
  if (size == 0) return 0;
  const std::span<const std::uint8_t> rest(data + 1, size - 1);
  const auto raw = std::as_bytes(rest);
  const std::vector<std::byte> bytes =
      data[0] % 2 == 0 ? records_of(rest) : std::vector<std::byte>(raw.begin(), raw.end());
  std::ofstream file(folder.path() / "worker-000-0000.ledger", std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  try {
    const muster::data::LedgerReport report = muster::data::check_ledger(folder.path());
    if (!report.violation && report.whole_epochs * report.epoch_samples > bytes.size()) std::abort();
  } catch (const muster::Error&) {
  }
  return 0;
}
