// Writer and reader go through the same fields() of a struct, so that neither can forget one; an enum that is out of
// its range, a bool that is neither, and bytes that are left over are refused.
#include "muster/strategies/parameter_server/message_codec.h"

#include <bit>
#include <concepts>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"

namespace muster::strategies {
namespace {

static_assert(std::endian::native == std::endian::little);

// The last of an enum; those before it count up from 0.
constexpr Status last(Status) {
  return Status::kRefused;
}
constexpr LaneManner last(LaneManner) {
  return LaneManner::kSkipped;
}
constexpr Want last(Want) {
  return Want::kSettled;
}
constexpr Grant last(Grant) {
  return Grant::kClosed;
}

template <typename T>
concept Number = std::same_as<T, std::uint16_t> || std::same_as<T, std::uint32_t> || std::same_as<T, std::uint64_t> ||
    std::same_as<T, double>;

[[noreturn]] void refuse(std::string reason) {
  throw Error(ErrorKind::kDamaged, std::move(reason), "parameter server");
}

class HeadWriter {
 public:
  explicit HeadWriter(Head& head) : head_(head) {}

  template <typename... Fields>
  void operator()(const Fields&... fields) {
    (put(fields), ...);
  }

 private:
  void put_bytes(const void* bytes, std::size_t size) {
    MUSTER_CHECK(size <= kMostHead - head_.size, "a head fits its place");
    std::memcpy(head_.bytes.data() + head_.size, bytes, size);
    head_.size += size;
  }
  template <Number T>
  void put(const T& value) {
    put_bytes(&value, sizeof value);
  }
  template <typename T>
  requires std::is_enum_v<T> || std::same_as<T, bool>
  void put(const T& value) {
    const auto byte = static_cast<std::uint8_t>(value);
    put_bytes(&byte, 1);
  }
  template <typename T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <typename T>
  requires std::is_class_v<T>
  void put(const T& value) { T::fields(value, *this); }

  Head& head_;
};

class HeadReader {
 public:
  explicit HeadReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename... Fields>
  void operator()(Fields&... fields) {
    (get(fields), ...);
  }
  void expect_end() const {
    if (!bytes_.empty()) refuse(fmt::format("a message with {} bytes too many", bytes_.size()));
  }

 private:
  void get_bytes(void* to, std::size_t size) {
    if (size > bytes_.size()) refuse("a message that ends too early");
    std::memcpy(to, bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
  }
  std::uint8_t get_byte(std::uint8_t most) {
    std::uint8_t byte = 0;
    get_bytes(&byte, 1);
    if (byte > most) refuse(fmt::format("a message with {} where at most {} is known", byte, most));
    return byte;
  }
  template <Number T>
  void get(T& value) {
    get_bytes(&value, sizeof value);
  }
  void get(bool& value) { value = get_byte(1) != 0; }
  template <typename T>
  requires std::is_enum_v<T>
  void get(T& value) { value = static_cast<T>(get_byte(static_cast<std::uint8_t>(last(T())))); }
  template <typename T>
  void get(std::optional<T>& value) {
    if (get_byte(1) != 0) get(value.emplace());
  }
  template <typename T>
  requires std::is_class_v<T>
  void get(T& value) { T::fields(value, *this); }

  std::span<const std::byte> bytes_;
};

// Both begin alike.
HeadWriter begin(Head& head, std::size_t number) {
  HeadWriter writer(head);
  writer(kProtocolVersion, static_cast<std::uint16_t>(number));
  return writer;
}
std::uint16_t begin(HeadReader& reader) {
  std::uint16_t version = 0;
  std::uint16_t number = 0;
  reader(version);
  if (version != kProtocolVersion)
    refuse(
        fmt::format("a message of protocol {}, and this program knows {}: run the same version of Muster in all "
                    "processes of a job",
                    version, kProtocolVersion));
  reader(number);
  return number;
}

// Reads the alternative of that number, of which the variant's first one is `first`.
template <typename Variant>
void get_alternative(Variant& variant, std::size_t number, std::size_t first, HeadReader& reader) {
  const auto try_one = [&]<std::size_t kIndex>(std::integral_constant<std::size_t, kIndex>) {
    if (number != first + kIndex) return false;
    auto& value = variant.template emplace<kIndex>();
    if constexpr (!std::same_as<std::remove_reference_t<decltype(value)>, std::monostate>) reader(value);
    return true;
  };
  const bool known = [&]<std::size_t... kIndices>(std::index_sequence<kIndices...>) {
    return (try_one(std::integral_constant<std::size_t, kIndices>()) || ...);
  }
  (std::make_index_sequence<std::variant_size_v<Variant>>());
  if (!known) refuse(fmt::format("a message of kind {}, which this program does not know", number));
}

// Requests and replies are told apart: bytes of one are never taken for the other.
constexpr std::size_t kFirstRequest = 1;
constexpr std::size_t kFirstReply = 0x100;
static_assert(kFirstRequest + std::variant_size_v<Verb> <= kFirstReply);

}  // namespace

Head encode(const Request& request) {
  Head head;
  HeadWriter writer = begin(head, kFirstRequest + request.verb.index());
  writer(request.generation, request.chunk, request.passed_on_for);
  std::visit([&](const auto& verb) { writer(verb); }, request.verb);
  return head;
}

Head encode(const Reply& reply) {
  Head head;
  HeadWriter writer = begin(head, kFirstReply + reply.details.index());
  writer(reply.status, reply.generation, reply.version);
  std::visit(
      [&]<typename T>(const T& details) {
        if constexpr (!std::same_as<T, std::monostate>) writer(details);
      },
      reply.details);
  return head;
}

Request decode_request(std::span<const std::byte> head) {
  HeadReader reader(head);
  const std::size_t number = begin(reader);
  Request request;
  reader(request.generation, request.chunk, request.passed_on_for);
  get_alternative(request.verb, number, kFirstRequest, reader);
  reader.expect_end();
  return request;
}

Reply decode_reply(std::span<const std::byte> head) {
  HeadReader reader(head);
  const std::size_t number = begin(reader);
  Reply reply;
  reader(reply.status, reply.generation, reply.version);
  get_alternative(reply.details, number, kFirstReply, reader);
  reader.expect_end();
  return reply;
}

}  // namespace muster::strategies
