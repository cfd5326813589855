// The parser of a safetensors header: a strict state machine fed by the JSON library's events, so that
// nothing is built that the format does not have and a repeated name is seen (a document tree would keep the
// last one silently).
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/model/safetensors.h"

namespace muster::model {
namespace {

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  std::uint64_t bytes;
};

constexpr DtypeRow kDtypes[] = {
    {Dtype::kF64, "F64", 8}, {Dtype::kI64, "I64", 8},   {Dtype::kF32, "F32", 4}, {Dtype::kI32, "I32", 4},
    {Dtype::kF16, "F16", 2}, {Dtype::kBf16, "BF16", 2}, {Dtype::kI16, "I16", 2}, {Dtype::kI8, "I8", 1},
    {Dtype::kU8, "U8", 1},   {Dtype::kBool, "BOOL", 1},
};

const DtypeRow& row_of(Dtype dtype) {
  return kDtypes[static_cast<std::size_t>(dtype)];
}

// A name from a file, fit for a message: short and without control characters.
std::string in_quotes(std::string_view name) {
  constexpr std::size_t kLongest = 80;
  std::string text = "\"";
  for (const char c : name.substr(0, kLongest))
    text += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  if (name.size() > kLongest) {
    // Not in the middle of a character: drop continuation bytes and the byte that leads them.
    while (text.size() > 1 && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80)
      text.pop_back();
    if (static_cast<unsigned char>(text.back()) >= 0xC0) text.pop_back();
    text += "...";
  }
  return text + '"';
}

// Where the parser stands. Every event that the state does not expect ends the parse with a reason.
enum class State {
  kStart,
  kNames,          // inside the outer object
  kMetadata,       // inside __metadata__
  kEntryStart,     // after a tensor's name
  kEntry,          // inside a tensor's object
  kDtype,          // after "dtype"
  kShapeStart,     // after "shape"
  kShape,          // inside its array
  kOffsetsStart,   // after "data_offsets"
  kOffsets,        // inside its array
  kMetadataStart,  // after "__metadata__"
  kEnd,
};

class HeaderEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderEvents(SafetensorsHeader& header) : header_(header) {}

  const std::string& reason() const { return reason_; }
  bool ended() const { return state_ == State::kEnd; }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  // The library reports negative integers here and all others as unsigned.
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return unexpected("a number that is no 64-bit integer");
  }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t number) override {
    if (state_ == State::kShape) {
      if (entry_.shape.size() == kMostDimensions) return refuse("has more than {} dimensions", kMostDimensions);
      if (number > INT64_MAX) return refuse("has an extent of {}, which is too large", number);
      entry_.shape.push_back(static_cast<std::int64_t>(number));
      return true;
    }
    if (state_ == State::kOffsets) {
      if (offsets_ == 2) return refuse("has more than two data_offsets");
      (offsets_++ == 0 ? entry_.begin : entry_.end) = number;
      return true;
    }
    return unexpected("a number");
  }

  bool string(string_t& text) override {
    if (state_ == State::kDtype) {
      const auto* const row = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                           [&](const DtypeRow& candidate) { return candidate.name == text; });
      if (row == std::end(kDtypes)) return refuse("has the unknown dtype {}", in_quotes(text));
      entry_.dtype = row->dtype;
      state_ = State::kEntry;
      return true;
    }
    if (state_ == State::kMetadata) {
      header_.metadata.insert_or_assign(metadata_key_, std::move(text));
      return true;
    }
    return unexpected("a text");
  }

  bool start_object(std::size_t) override {
    switch (state_) {
      case State::kStart:
        state_ = State::kNames;
        return true;
      case State::kMetadataStart:
        state_ = State::kMetadata;
        return true;
      case State::kEntryStart:
        state_ = State::kEntry;
        return true;
      default:
        return unexpected("an object");
    }
  }

  bool key(string_t& name) override {
    if (state_ == State::kNames) return tensor_name(name);
    if (state_ == State::kMetadata) {
      if (header_.metadata.size() == kMostTensors) {
        reason_ = fmt::format("more than {} metadata members", kMostTensors);
        return false;
      }
      if (header_.metadata.contains(name)) {
        reason_ = fmt::format("metadata {} is there twice", in_quotes(name));
        return false;
      }
      metadata_key_ = std::move(name);
      return true;
    }
    return entry_member(name);
  }

  bool end_object() override {
    if (state_ == State::kEntry) return entry_complete();
    state_ = state_ == State::kMetadata ? State::kNames : State::kEnd;
    return true;
  }

  bool start_array(std::size_t) override {
    switch (state_) {
      case State::kShapeStart:
        state_ = State::kShape;
        return true;
      case State::kOffsetsStart:
        state_ = State::kOffsets;
        return true;
      default:
        return unexpected("an array");
    }
  }

  bool end_array() override {
    if (state_ == State::kOffsets && offsets_ != 2) return refuse("has fewer than two data_offsets");
    state_ = State::kEntry;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception& error) override {
    // The library repeats what it read last, which may be megabytes: only its first words.
    reason_ = fmt::format("the header is not valid JSON at byte {} ({})", position, in_quotes(error.what()));
    return false;
  }

 private:
  template <typename... Values>
  bool refuse(fmt::format_string<Values...> text, Values&&... values) {
    reason_ = fmt::format("tensor {} {}", in_quotes(entry_.name), fmt::format(text, std::forward<Values>(values)...));
    return false;
  }

  bool unexpected(std::string_view what) {
    if (state_ == State::kStart) {
      reason_ = fmt::format("the header is {}, not an object", what);
      return false;
    }
    if (state_ == State::kMetadata || state_ == State::kMetadataStart) {
      reason_ = fmt::format("{} in __metadata__, which holds only texts", what);
      return false;
    }
    return refuse("has {} where the format has none", what);
  }

  bool tensor_name(string_t& name) {
    if (name == "__metadata__") {
      if (metadata_seen_) {
        reason_ = "__metadata__ is there twice";
        return false;
      }
      metadata_seen_ = true;
      state_ = State::kMetadataStart;
      return true;
    }
    if (header_.tensors.size() == kMostTensors) {
      reason_ = fmt::format("more than {} tensors", kMostTensors);
      return false;
    }
    entry_ = TensorEntry{};
    entry_.name = std::move(name);
    has_dtype_ = has_shape_ = has_offsets_ = false;
    offsets_ = 0;
    if (header_.index.contains(entry_.name)) return refuse("is there twice");
    state_ = State::kEntryStart;
    return true;
  }

  bool entry_member(const string_t& name) {
    if (name == "dtype") return member(name, has_dtype_, State::kDtype);
    if (name == "shape") return member(name, has_shape_, State::kShapeStart);
    if (name == "data_offsets") return member(name, has_offsets_, State::kOffsetsStart);
    return refuse("has the unknown member {}", in_quotes(name));
  }

  bool member(const string_t& name, bool& seen, State next) {
    if (seen) return refuse("has {} twice", name);
    seen = true;
    state_ = next;
    return true;
  }

  bool entry_complete() {
    if (!has_dtype_ || !has_shape_ || !has_offsets_) {
      return refuse("has no {}", !has_dtype_ ? "dtype" : !has_shape_ ? "shape" : "data_offsets");
    }
    if (entry_.begin > entry_.end) return refuse("ends at byte {} before its begin {}", entry_.end, entry_.begin);
    std::uint64_t bytes = bytes_of(entry_.dtype);
    for (const std::int64_t extent : entry_.shape) {
      if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) {
        return refuse("has a shape whose size does not fit in 64 bits");
      }
    }
    if (bytes != entry_.bytes()) {
      return refuse("has {} bytes of data; its shape and dtype need {}", entry_.bytes(), bytes);
    }
    header_.index.emplace(entry_.name, 0);  // the position follows once the tensors are in order
    header_.tensors.push_back(std::move(entry_));
    entry_ = TensorEntry{};
    state_ = State::kNames;
    return true;
  }

  SafetensorsHeader& header_;
  State state_ = State::kStart;
  TensorEntry entry_;
  std::string metadata_key_;
  int offsets_ = 0;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  bool metadata_seen_ = false;
  std::string reason_;
};

// Puts the tensors in order of their data and demands that it has no hole and no overlap and ends with the file.
void check_data(SafetensorsHeader& header, std::uint64_t data_bytes, const std::string& where) {
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::uint64_t position = 0;
  for (std::size_t i = 0; i < header.tensors.size(); ++i) {
    const TensorEntry& entry = header.tensors[i];
    if (entry.begin != position) {
      throw Error(
          ErrorKind::kDamaged,
          fmt::format("tensor {} starts at byte {} of the data and should start at {}: the data has {}",
                      in_quotes(entry.name), entry.begin, position, entry.begin > position ? "a hole" : "an overlap"),
          where);
    }
    position = entry.end;
    header.index.find(entry.name)->second = i;
  }
  if (position != data_bytes) {
    throw Error(ErrorKind::kDamaged,
                fmt::format("the tensors need {} bytes of data and the file has {}", position, data_bytes), where);
  }
}

}  // namespace

std::uint64_t bytes_of(Dtype dtype) {
  return row_of(dtype).bytes;
}

std::string_view to_string(Dtype dtype) {
  return row_of(dtype).name;
}

const TensorEntry* SafetensorsHeader::find(std::string_view name) const {
  const auto found = index.find(name);
  return found == index.end() ? nullptr : &tensors[found->second];
}

std::uint64_t safetensors_header_bytes(std::span<const std::byte, 8> prefix, std::uint64_t file_size,
                                       const std::string& where) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < prefix.size(); ++i)
    bytes |= std::to_integer<std::uint64_t>(prefix[i]) << (8 * i);
  const std::uint64_t most = std::min(file_size - std::min<std::uint64_t>(file_size, 8), kMostHeaderBytes);
  if (bytes > most) {
    throw Error(ErrorKind::kDamaged,
                fmt::format("announces a header of {} bytes; at most {} are possible", bytes, most), where);
  }
  return bytes;
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> head, std::uint64_t file_size,
                                           const std::string& where) {
  if (file_size < 8 || head.size() < 8) {
    throw Error(ErrorKind::kDamaged, fmt::format("has {} bytes, too few for a safetensors file", file_size), where);
  }
  const std::uint64_t bytes = safetensors_header_bytes(head.first<8>(), file_size, where);
  if (bytes > head.size() - 8) throw Error(ErrorKind::kDamaged, "ends inside its header", where);
  const std::string_view text(reinterpret_cast<const char*>(head.data()) + 8, bytes);
  // Not left to the JSON library, which skips a byte-order mark and white space.
  if (!text.starts_with('{')) throw Error(ErrorKind::kDamaged, "the header does not start with {", where);

  SafetensorsHeader header;
  header.data_begin = 8 + bytes;
  HeaderEvents events(header);
  const bool parsed = nlohmann::json::sax_parse(text.begin(), text.end(), &events);
  if (!parsed || !events.ended()) throw Error(ErrorKind::kDamaged, events.reason(), where);
  check_data(header, file_size - header.data_begin, where);
  return header;
}

}  // namespace muster::model
