// picture_rate [PICTURES] [FOLDER]: how many pictures are decoded and cropped (random-resized, to 224) in a second of
// processor time, by Muster and by a plain loop: libjpeg's whole picture, the same window, a simple bilinear resize.
// Makes PICTURES (10,000) pictures of about 256 x 256 from a seed in a temporary folder first. FOLDER: uses that one
// and leaves it.
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "muster/base/temporary_folder.h"
#include "muster/data/augment/augmentation.h"
#include "muster/data/pictures/picture_folder.h"
#include "support/picture_files.h"

namespace {

using muster::data::PictureFolder;
using muster::data::Window;

constexpr std::uint32_t kSide = 224;

void make_folder(const std::filesystem::path& folder, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::filesystem::path place = folder / ("class" + std::to_string(i % 10));
    std::filesystem::create_directories(place);
    const auto seed = static_cast<unsigned>(i);
    const auto pixels = muster::testing::make_pixels(240 + seed * 7 % 33, 240 + seed * 13 % 33, 3, seed);
    const auto bytes = muster::testing::to_jpeg(pixels, {.quality = 90});
    std::ofstream(place / (std::to_string(i) + ".jpg"), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
}

// The peer: what a loop around libjpeg looks like when nothing is tuned.
void read_plainly(const std::filesystem::path& path, std::uint64_t id, std::span<float> out) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes(std::filesystem::file_size(path));
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  const std::size_t stride = std::size_t{info.output_width} * 3;
  std::vector<unsigned char> pixels(stride * info.output_height);
  while (info.output_scanline < info.output_height) {
    unsigned char* row = pixels.data() + info.output_scanline * stride;
    jpeg_read_scanlines(&info, &row, 1);
  }
  const muster::data::Extent extent{info.output_width, info.output_height};
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);

  muster::RandomStream draws({.seed = 1, .purpose = muster::Purpose::kAugmentation, .sample = id});
  const Window window = random_window(extent, {kSide, kSide}, {}, draws);
  struct Column {
    std::uint32_t x0, x1;
    float weight;
  };
  std::vector<Column> columns;
  for (std::uint32_t x = 0; x < kSide; ++x) {
    const float fx = std::max(0.0F, (static_cast<float>(x) + 0.5F) * static_cast<float>(window.width) / kSide - 0.5F);
    const auto x0 = static_cast<std::uint32_t>(fx);
    columns.push_back({x0, std::min(x0 + 1, window.width - 1), fx - static_cast<float>(x0)});
  }
  const auto at = [&](std::uint32_t column, std::uint32_t row, std::uint32_t c) {
    return static_cast<float>(pixels[(window.y + row) * stride + (window.x + column) * 3 + c]);
  };
  for (std::uint32_t y = 0; y < kSide; ++y) {
    const float fy = std::max(0.0F, (static_cast<float>(y) + 0.5F) * static_cast<float>(window.height) / kSide - 0.5F);
    const auto y0 = static_cast<std::uint32_t>(fy);
    const std::uint32_t y1 = std::min(y0 + 1, window.height - 1);
    const float wy = fy - static_cast<float>(y0);
    for (std::uint32_t x = 0; x < kSide; ++x) {
      const Column& column = columns[x];
      const float wx = column.weight;
      for (std::uint32_t c = 0; c < 3; ++c) {
        const float top = at(column.x0, y0, c) * (1 - wx) + at(column.x1, y0, c) * wx;
        const float bottom = at(column.x0, y1, c) * (1 - wx) + at(column.x1, y1, c) * wx;
        out[(std::size_t{c} * kSide + y) * kSide + x] = ((top * (1 - wy) + bottom * wy) / 255.0F - 0.5F) / 0.25F;
      }
    }
  }
}

// A second of processor time: what others do on the machine shows in caches alone.
template <typename Read>
double rate(std::uint64_t count, const Read& read) {
  const std::clock_t begin = std::clock();
  for (std::uint64_t id = 0; id < count; ++id)
    read(id);
  return static_cast<double>(count) * CLOCKS_PER_SEC / static_cast<double>(std::clock() - begin);
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t count = argc > 1 ? std::stoull(argv[1]) : 10000;
  std::optional<muster::TemporaryFolder> temporary;
  std::filesystem::path folder;
  if (argc > 2) {
    folder = argv[2];
  } else {
    temporary.emplace("picture-rate");
    folder = temporary->path();
  }
  if (!std::filesystem::exists(folder / "class0")) make_folder(folder, count);

  const muster::data::PictureOptions options{.random_window = muster::data::RandomWindow{}, .seed = 1};
  const PictureFolder pictures(muster::data::PictureList(folder), options,
                               {.mean = {0.5F, 0.5F, 0.5F}, .stddev = {0.25F, 0.25F, 0.25F}});
  const std::uint64_t size = pictures.size();
  std::vector<float> features(pictures.spec().elements());
  // Turns of both, so that a neighbour's load falls on both; the median of the turns' ratios.
  constexpr int kTurns = 5;
  std::vector<double> ours;
  std::vector<double> plain;
  std::vector<double> ratios;
  for (int turn = 0; turn < kTurns; ++turn) {
    const std::uint64_t begin = size * static_cast<std::uint64_t>(turn) / kTurns;
    const std::uint64_t part = size * static_cast<std::uint64_t>(turn + 1) / kTurns - begin;
    plain.push_back(
        rate(part, [&](std::uint64_t i) { read_plainly(pictures.list().path(begin + i), begin + i, features); }));
    ours.push_back(rate(part, [&](std::uint64_t i) { pictures.read_in_epoch(begin + i, 0, features); }));
    ratios.push_back(ours.back() / plain.back());
  }
  const auto median = [](std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  std::cout << nlohmann::json{{"bench", "data"},
                              {"source", "pictures"},
                              {"threads", 1},
                              {"samples_per_cpu_s", median(ours)},
                              {"peer", "plain libjpeg loop"},
                              {"peer_samples_per_cpu_s", median(plain)},
                              {"ratio", median(ratios)}}
            << "\n";

  for (const char* word : {"flip:1", "crop:8", "rotate:15", "jitter:0.4", "cutout:56"}) {
    const std::vector<std::string> words{word};
    const auto augmentation = muster::data::parse_augmentation(words);
    const muster::data::Normalization normalization{.mean = {0.5F, 0.5F, 0.5F}, .stddev = {0.25F, 0.25F, 0.25F}};
    muster::RandomStream draws({.purpose = muster::Purpose::kAugmentation});
    const double per_s = rate(500, [&](std::uint64_t) {
      augment(features, {3, kSide, kSide}, augmentation, normalization, draws);
    });
    std::cout << nlohmann::json{{"bench", "augment"}, {"step", word}, {"samples_per_cpu_s", per_s}} << "\n";
  }
}
