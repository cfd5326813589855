// Your own data source: a file of records, read one by one as training asks for them, so it may be larger than memory.
// A record is a label and 32 readings of a sensor, which tell a sine, a square or a saw-tooth wave.
#include <fcntl.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "muster/base/files.h"
#include "muster/muster.h"

constexpr std::size_t kReadings = 32;

struct Record {
  std::int16_t label = 0;
  std::array<std::int16_t, kReadings> readings{};
};

class SensorLog final : public muster::Dataset {
 public:
  explicit SensorLog(const std::string& path) : log_(muster::open_for_reading(path)), path_(path) {
    if (log_.size % sizeof(Record) != 0)
      throw muster::Error(muster::ErrorKind::kDamaged, "does not end with a whole record", path_, "Copy it again.");
  }
  std::uint64_t size() const override { return log_.size / sizeof(Record); }
  const muster::SampleSpec& spec() const override { return spec_; }

  // From any thread, and always the same for the same id. kDamaged says: this one sample can never be read. It ends the
  // job, unless a muster::data::Tolerant stands around this set, which puts the next good one in its place.
  std::int64_t read(std::uint64_t id, std::span<float> features) const override {
    Record record;
    muster::read_exactly(log_, id * sizeof(Record), std::as_writable_bytes(std::span(&record, 1)), path_);
    if (record.label < 0 || record.label >= spec_.classes)
      throw muster::Error(muster::ErrorKind::kDamaged, "has no such label", path_ + ", record " + std::to_string(id));
    for (std::size_t i = 0; i < kReadings; ++i)
      features[i] = static_cast<float>(record.readings[i]) / 1000;
    return record.label;
  }

  // Not needed, only faster on a cold disk: what training will ask for next.
  void will_read(std::span<const std::uint64_t> ids) const override {
    for (const std::uint64_t id : ids)
      posix_fadvise(log_.descriptor.get(), static_cast<off_t>(id * sizeof(Record)), sizeof(Record),
                    POSIX_FADV_WILLNEED);
  }

 private:
  muster::OpenFile log_;
  std::string path_;
  muster::SampleSpec spec_{.shape = {kReadings}, .classes = 3, .class_names = {"sine", "square", "saw-tooth"}};
};

// Stands for whatever makes your files.
void write_log(const std::string& path) {
  std::ofstream out(path, std::ios::binary);
  for (int n = 0; n < 3000; ++n) {
    Record record{.label = static_cast<std::int16_t>(n % 3)};
    for (std::size_t i = 0; i < kReadings; ++i) {
      const double at = std::fmod(static_cast<double>(i) / 16 + 0.37 * n, 1.0);  // of a wave
      const double wave = n % 3 == 0 ? std::sin(at * 6.2832) : n % 3 == 1 ? (at < 0.5 ? 1.0 : -1.0) : 1 - 2 * at;
      record.readings[i] = static_cast<std::int16_t>(1000 * wave);
    }
    out.write(reinterpret_cast<const char*>(&record), sizeof(record));
  }
}

int main(int argc, char** argv) try {
  auto worker = muster::join(argc, argv);
  write_log("sensor.log");
  // Everything else works on any data set: here a tenth of the samples is held out by a draw.
  const auto parts = muster::data::split(std::make_shared<SensorLog>("sensor.log"), 0.1, 1);
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(kReadings, 64), torch::nn::ReLU(), torch::nn::Linear(64, 3));
  auto session = muster::synchronize(worker, net, muster::Adam{.lr = 0.01}, {.batch = 100});
  while (session.cursor().epoch < 5) {
    for (auto& lane : session.lanes(parts.train))
      lane.backward(torch::nn::functional::cross_entropy(net->forward(lane.data), lane.target));
  }
  const auto forward = [&](const torch::Tensor& x) { return net->forward(x); };
  const auto result = muster::evaluate(*net, forward, parts.validation);
  std::printf("accuracy on samples never trained on: %.4f\n", result->metric("accuracy"));
  return result->metric("accuracy") > 0.95 ? 0 : 1;
} catch (const muster::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
