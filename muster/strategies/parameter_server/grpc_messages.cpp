// Fields are matched by their order: a struct's fields() and its message in the contract list the same ones, which is
// checked by a test that sends every verb.
#include "muster/strategies/parameter_server/grpc_messages.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <concepts>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"

// A message of the contract has the fields of its struct in message.h, in the order of fields(): so one list of them
// serves all codecs. Fields that differ in number or type stop the process, which tests of every message would show.
namespace muster::strategies {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr int kFirstAlternative = 16;  // the number of a oneof's first field; the others follow as in the variant

[[noreturn]] void refuse(std::string reason) {
  throw Error(ErrorKind::kDamaged, std::move(reason), "parameter server");
}

const FieldDescriptor& field_at(const Message& message, int index) {
  MUSTER_CHECK(index < message.GetDescriptor()->field_count(), "the contract has every field");
  return *message.GetDescriptor()->field(index);
}

// Of a message, its fields in turn.
class FieldWriter {
 public:
  explicit FieldWriter(Message& message) : message_(message), reflection_(*message.GetReflection()) {}

  template <typename... Fields>
  void operator()(const Fields&... fields) {
    (put(fields, field_at(message_, next_++)), ...);
  }

 private:
  void put(std::uint32_t value, const FieldDescriptor& field) { reflection_.SetUInt32(&message_, &field, value); }
  void put(std::uint64_t value, const FieldDescriptor& field) { reflection_.SetUInt64(&message_, &field, value); }
  void put(double value, const FieldDescriptor& field) { reflection_.SetDouble(&message_, &field, value); }
  void put(bool value, const FieldDescriptor& field) { reflection_.SetBool(&message_, &field, value); }
  template <typename T>
  requires std::is_enum_v<T>
  void put(T value, const FieldDescriptor& field) {
    reflection_.SetEnumValue(&message_, &field, static_cast<int>(value));
  }
  template <typename T>
  void put(const std::optional<T>& value, const FieldDescriptor& field) {
    if (value) put(*value, field);
  }
  template <typename T>
  requires std::is_class_v<T>
  void put(const T& value, const FieldDescriptor& field) {
    Message& inner = *reflection_.MutableMessage(&message_, &field);
    T::fields(value, FieldWriter(inner));
  }

  Message& message_;
  const google::protobuf::Reflection& reflection_;
  int next_ = 0;
};

class FieldReader {
 public:
  explicit FieldReader(const Message& message) : message_(message), reflection_(*message.GetReflection()) {}

  template <typename... Fields>
  void operator()(Fields&... fields) {
    (get(fields, field_at(message_, next_++)), ...);
  }

 private:
  void get(std::uint32_t& value, const FieldDescriptor& field) { value = reflection_.GetUInt32(message_, &field); }
  void get(std::uint64_t& value, const FieldDescriptor& field) { value = reflection_.GetUInt64(message_, &field); }
  void get(double& value, const FieldDescriptor& field) { value = reflection_.GetDouble(message_, &field); }
  void get(bool& value, const FieldDescriptor& field) { value = reflection_.GetBool(message_, &field); }
  // Which values there are the other codec knows: what does not fit it is refused there.
  template <typename T>
  requires std::is_enum_v<T>
  void get(T& value, const FieldDescriptor& field) {
    const int number = reflection_.GetEnumValue(message_, &field);
    if (number < 0 || number > std::numeric_limits<std::underlying_type_t<T>>::max())
      refuse(fmt::format("{} in the place of a {}", number, field.name()));
    value = static_cast<T>(number);
  }
  template <typename T>
  void get(std::optional<T>& value, const FieldDescriptor& field) {
    if (reflection_.HasField(message_, &field)) get(value.emplace(), field);
  }
  template <typename T>
  requires std::is_class_v<T>
  void get(T& value, const FieldDescriptor& field) {
    T::fields(value, FieldReader(reflection_.GetMessage(message_, &field)));
  }

  const Message& message_;
  const google::protobuf::Reflection& reflection_;
  int next_ = 0;
};

// The alternative whose field has `number`: `first` is that of the variant's first one.
template <typename Variant>
void put_alternative(const Variant& variant, int first, Message& message) {
  std::visit(
      [&]<typename T>(const T& value) {
        if constexpr (!std::same_as<T, std::monostate>) {
          const FieldDescriptor* const field =
              message.GetDescriptor()->FindFieldByNumber(first + static_cast<int>(variant.index()));
          MUSTER_CHECK(field != nullptr, "the contract has every verb and every reply");
          Message& inner = *message.GetReflection()->MutableMessage(&message, field);
          T::fields(value, FieldWriter(inner));
        }
      },
      variant);
}

template <typename Variant>
void get_alternative(Variant& variant, int first, const Message& message, const char* oneof) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const FieldDescriptor* const field =
      reflection.GetOneofFieldDescriptor(message, message.GetDescriptor()->FindOneofByName(oneof));
  if (field == nullptr) return;
  const Message& inner = reflection.GetMessage(message, field);
  const auto try_one = [&]<std::size_t kIndex>(std::integral_constant<std::size_t, kIndex>) {
    if (field->number() != first + static_cast<int>(kIndex)) return;
    using T = std::variant_alternative_t<kIndex, Variant>;
    if constexpr (!std::same_as<T, std::monostate>) T::fields(variant.template emplace<kIndex>(), FieldReader(inner));
  };
  [&]<std::size_t... kIndices>(std::index_sequence<kIndices...>) {
    (try_one(std::integral_constant<std::size_t, kIndices>()), ...);
  }
  (std::make_index_sequence<std::variant_size_v<Variant>>());
}

}  // namespace

void to_wire(const Request& request, wire::Frame& frame) {
  wire::Request& message = *frame.mutable_request();
  FieldWriter write(message);
  write(request.generation, request.chunk, request.passed_on_for);
  put_alternative(request.verb, kFirstAlternative, message);
}

void to_wire(const Reply& reply, wire::Frame& frame) {
  wire::Reply& message = *frame.mutable_reply();
  FieldWriter write(message);
  write(reply.status, reply.generation, reply.version);
  put_alternative(reply.details, kFirstAlternative - 1, message);  // its first alternative is that there are none
}

void to_wire(const Frame& from, wire::Frame& to) {
  to.set_call(from.call);
  to.set_part(from.part);
  to.set_checksum(from.checksum);
  to.set_body_bytes(from.body_bytes);
  to.set_body(from.body.data(), from.body.size());
}

Request request_from_wire(const wire::Frame& frame) {
  if (!frame.has_request() || frame.request().verb_case() == wire::Request::VERB_NOT_SET)
    refuse("a message that is no request, or none that this program knows");
  Request request;
  FieldReader(frame.request())(request.generation, request.chunk, request.passed_on_for);
  get_alternative(request.verb, kFirstAlternative, frame.request(), "verb");
  return request;
}

Reply reply_from_wire(const wire::Frame& frame) {
  if (!frame.has_reply()) refuse("a message that is no reply");
  Reply reply;
  FieldReader(frame.reply())(reply.status, reply.generation, reply.version);
  get_alternative(reply.details, kFirstAlternative - 1, frame.reply(), "details");
  return reply;
}

std::optional<Framed> WireJoiner::add(const wire::Frame& frame) {
  Frame view{.call = frame.call(),
             .part = frame.part(),
             .checksum = frame.checksum(),
             .body_bytes = frame.body_bytes(),
             .body = std::as_bytes(std::span(frame.body()))};
  Head head;
  if (frame.part() == 0) {
    head = side_ == Side::kRequests ? encode(request_from_wire(frame)) : encode(reply_from_wire(frame));
    view.head = head.view();
  } else if (frame.message_case() != wire::Frame::MESSAGE_NOT_SET) {
    refuse(fmt::format("a head in part {} of a message", frame.part()));
  }
  return joiner_.add(view);
}

}  // namespace muster::strategies
