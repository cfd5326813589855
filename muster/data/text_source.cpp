// The source text: one file, or the .txt files of a folder one after the other. The last parts are held out: windows
// drawn at random from the middle would have their neighbours in training.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/data/byte_reader.h"
#include "muster/data/source_parts.h"

namespace muster::data {
namespace {

constexpr std::uint64_t kLargestText = std::uint64_t{64} << 30;

std::vector<std::filesystem::path> text_files(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return {path};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    std::filesystem::path name = entry.path();
    if (name.extension() == ".gz" || name.extension() == ".zst") name.replace_extension();
    if (name.extension() == ".txt") files.push_back(entry.path());
  }
  if (files.empty()) throw Error(ErrorKind::kNotFound, "holds no .txt file, plain, .gz or .zst", path.string());
  std::sort(files.begin(), files.end());
  return files;
}

// Tokens that belong to each part, in the order of the text.
struct Parts {
  std::uint64_t train;
  std::uint64_t validation;
  std::uint64_t test;
};

Parts cut(std::uint64_t size, const SourceOptions& options) {
  const auto part = [](std::uint64_t whole, double fraction) {
    return static_cast<std::uint64_t>(std::round(fraction * static_cast<double>(whole)));
  };
  const std::uint64_t test = part(size, options.test_fraction);
  const std::uint64_t validation = part(size - test, options.validation);
  return {.train = size - test - validation, .validation = validation, .test = test};
}

template <typename Text>
Data windows(const Text& text, const SourceOptions& options, const std::filesystem::path& path) {
  const Parts parts = cut(text.size(), options);
  std::shared_ptr<const Tokens> tokens;
  if constexpr (std::is_same_v<Text, std::vector<char32_t>>) {
    tokens = std::make_shared<Tokens>(std::span(text), parts.train);
  } else {
    tokens = std::make_shared<Tokens>(std::span(text));
  }
  std::uint64_t begin = 0;
  const auto next = [&](std::uint64_t length, const char* name) {
    auto set = std::make_shared<TextDataset>(tokens, begin, begin + length, options.text.window);
    begin += length;
    if (set->size() == 0) {
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("the {} part has {} tokens, which is less than a window of {} and its next token", name,
                              length, options.text.window),
                  path.string(), "Use a longer text, a smaller data.window or another fraction.");
    }
    return set;
  };
  Data data;
  data.train = next(parts.train, "training");
  if (options.validation > 0) data.validation = next(parts.validation, "validation");
  data.test = next(parts.test, "test");
  data.description = describe(data.train->size(), data.test->size(), data.train->spec(),
                              fmt::format("{} of {}", options.text.bytes ? "bytes" : "characters", path.string()));
  return data;
}

}  // namespace

Data open_text(const SourceOptions& options) {
  const std::filesystem::path path = required_path(options, "the text file, or a folder of .txt files");
  std::vector<std::byte> bytes;
  std::vector<char32_t> characters;
  for (const auto& file : text_files(path)) {
    const auto reader = ByteReader::open(file);
    std::vector<std::byte> text = read_all(*reader, kLargestText, file.string());
    if (options.text.bytes) {
      bytes.insert(bytes.end(), text.begin(), text.end());
    } else {
      const auto points = decode_utf8({reinterpret_cast<const char*>(text.data()), text.size()}, file.string());
      characters.insert(characters.end(), points.begin(), points.end());
    }
  }
  return options.text.bytes ? windows(bytes, options, path) : windows(characters, options, path);
}

}  // namespace muster::data
