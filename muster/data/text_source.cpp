// The source text: one file, or the .txt files of a folder one after the other. The last parts are held out: windows
// drawn at random from the middle would have their neighbours in training.
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/data/byte_reader.h"
#include "muster/data/latin1.h"
#include "muster/data/open_alike.h"
#include "muster/data/source_parts.h"
#include "muster/data/text.h"

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
  std::uint64_t train = 0;
  std::uint64_t validation = 0;
  std::uint64_t test = 0;
};

// A text and where its parts end. Sets of their own files stand behind the text that trains.
template <typename Token>
struct Cut {
  std::vector<Token> text;
  Parts parts;
};

std::vector<std::byte> decode(std::vector<std::byte> bytes, const std::string&, bool, std::byte) {
  return bytes;
}
std::vector<char32_t> decode(const std::vector<std::byte>& bytes, const std::string& where, bool latin1, char32_t) {
  if (!latin1) return decode_utf8({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, where);
  std::vector<char32_t> characters(bytes.size());
  std::transform(bytes.begin(), bytes.end(), characters.begin(),
                 [](std::byte byte) { return latin1_character(static_cast<unsigned char>(byte)); });
  return characters;
}

// Appends the files of `path`, each of which is looked at before; gives the number of tokens.
template <typename Token>
std::uint64_t append_files(
    const std::filesystem::path& path, const TextOptions& options, std::vector<Token>& text,
    const std::function<void(std::span<const Token>, const std::string&)>& look = [](auto, const auto&) {}) {
  const std::size_t before = text.size();
  for (const auto& file : text_files(path)) {
    const auto reader = ByteReader::open(file);
    const auto tokens = decode(read_all(*reader, kLargestText, file.string()), file.string(), options.latin1, Token{});
    look(tokens, file.string());
    text.insert(text.end(), tokens.begin(), tokens.end());
  }
  return text.size() - before;
}

template <typename Token>
Cut<Token> read_and_cut(const std::filesystem::path& path, const SourceOptions& options) {
  const auto part = [](std::uint64_t whole, double fraction) {
    return static_cast<std::uint64_t>(std::round(fraction * static_cast<double>(whole)));
  };
  Cut<Token> cut;
  Parts& parts = cut.parts;
  parts.train = append_files(path, options.text, cut.text);
  if (options.test_path.empty()) parts.test = part(parts.train, options.test_fraction);
  parts.train -= parts.test;
  if (options.validation_path.empty()) parts.validation = part(parts.train, options.validation);
  parts.train -= parts.validation;
  // With one of them in the text and the other in a file, the order validation, test is kept by turning the two.
  const std::uint64_t held_out_test = parts.test;
  if (!options.validation_path.empty()) {
    parts.validation = append_files(options.validation_path, options.text, cut.text);
    const auto middle = cut.text.begin() + static_cast<std::ptrdiff_t>(parts.train);
    std::rotate(middle, middle + static_cast<std::ptrdiff_t>(held_out_test), cut.text.end());
  }
  if (!options.test_path.empty()) parts.test = append_files(options.test_path, options.text, cut.text);
  return cut;
}

template <typename Token>
Data windows(const std::filesystem::path& path, const SourceOptions& options) {
  const auto [text, parts] = read_and_cut<Token>(path, options);
  std::shared_ptr<const Tokens> tokens;
  if constexpr (std::is_same_v<Token, char32_t>) {
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
  if (options.validation > 0 || !options.validation_path.empty())
    data.validation = next(parts.validation, "validation");
  data.test = next(parts.test, "test");
  data.description = describe(data.train->size(), data.test->size(), data.train->spec(),
                              fmt::format("{} of {}", options.text.bytes ? "bytes" : "characters", path.string()));
  return data;
}

}  // namespace

Alike alike_text(const SourceOptions& options, const DataForm& form, const std::filesystem::path& path) {
  const char* const unit = options.text.bytes ? "bytes" : "characters";
  std::shared_ptr<const Tokens> tokens;
  if (options.text.bytes) {
    std::vector<std::byte> text;
    append_files(path, options.text, text);
    tokens = std::make_shared<Tokens>(std::span(std::as_const(text)));
  } else {
    std::vector<char32_t> text;
    append_files<char32_t>(path, options.text, text, [&](std::span<const char32_t> part, const std::string& where) {
      check_known(part, form.spec.class_names, where);
    });
    tokens = std::make_shared<Tokens>(std::span(std::as_const(text)), form.spec.class_names);
  }
  Alike alike;
  const std::int64_t window = options.text.window;
  alike.samples = std::make_shared<TextDataset>(tokens, 0, tokens->size(), window);
  if (alike.samples->size() == 0) {
    throw Error(
        ErrorKind::kInvalidInput,
        fmt::format("has {} {}, which is less than a window of {} and its next one", tokens->size(), unit, window),
        path.string());
  }
  alike.name = [name = path.filename().string(), unit, window](std::uint64_t id) {
    const std::uint64_t first = id * static_cast<std::uint64_t>(window);
    return fmt::format("{}: {} {} to {}", name, unit, first, first + static_cast<std::uint64_t>(window) - 1);
  };
  return alike;
}

Data open_text(const SourceOptions& options) {
  const std::filesystem::path path = required_path(options, "the text file, or a folder of .txt files");
  return options.text.bytes ? windows<std::byte>(path, options) : windows<char32_t>(path, options);
}

}  // namespace muster::data
