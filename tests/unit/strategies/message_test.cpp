// Every verb and every reply as bytes.
#include "muster/strategies/parameter_server/message_codec.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "support/errors.h"
#include "unit/strategies/sample_messages.h"

namespace muster::strategies {
namespace {

using testing::expect_error;

// Of a head that was written: it is read again as it was, and nothing else is.
template <typename Message, typename Decode>
void check_codec(const Message& message, const Decode& decode) {
  const Head head = encode(message);
  EXPECT_TRUE(decode(head.view()) == message);
  const std::vector<std::byte> whole(head.view().begin(), head.view().end());
  for (std::size_t size = 0; size < whole.size(); ++size)
    expect_error(ErrorKind::kDamaged, "",
                 [&] { decode(std::vector(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))); });
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  expect_error(ErrorKind::kDamaged, "too many", [&] { decode(longer); });
  for (const std::uint16_t version : {0, 1, kProtocolVersion + 1, 0xffff}) {
    std::vector<std::byte> other = whole;
    std::memcpy(other.data(), &version, sizeof version);
    expect_error(ErrorKind::kDamaged, "the same version of Muster", [&] { decode(other); });
  }
  // Any byte altered: it is refused, or what comes of it is written as it was read.
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int value : {0, 1, 2, 7, 0x80, 0xff}) {
      std::vector<std::byte> altered = whole;
      altered[at] = static_cast<std::byte>(value);
      try {
        const Head again = encode(decode(altered));
        EXPECT_TRUE(std::ranges::equal(again.view(), altered)) << "byte " << at;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kDamaged);
      }
    }
  }
}

TEST(MessageCodec, EveryRequestIsReadAsItWasWrittenAndNothingElseIs) {
  std::set<std::size_t> verbs;
  for (const Request& request : every_request()) {
    SCOPED_TRACE(name_of(request.verb));
    verbs.insert(request.verb.index());
    check_codec(request, [](std::span<const std::byte> head) { return decode_request(head); });
    expect_error(ErrorKind::kDamaged, "", [&] { decode_reply(encode(request).view()); });
  }
  EXPECT_EQ(verbs.size(), std::variant_size_v<Verb>) << "a verb is not tested";
}

TEST(MessageCodec, EveryReplyIsReadAsItWasWrittenAndNothingElseIs) {
  std::set<std::size_t> kinds;
  for (const Reply& reply : every_reply()) {
    SCOPED_TRACE(reply.details.index());
    kinds.insert(reply.details.index());
    check_codec(reply, [](std::span<const std::byte> head) { return decode_reply(head); });
    expect_error(ErrorKind::kDamaged, "", [&] { decode_request(encode(reply).view()); });
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Details>) << "a reply is not tested";
}

TEST(MessageCodec, AVerbThatNobodyKnowsIsRefused) {
  for (const std::uint16_t number : {std::size_t{0}, std::variant_size_v<Verb> + 1, std::size_t{0xffff}}) {
    Head head = encode(Request{.verb = KeepRequest{}});
    std::memcpy(head.bytes.data() + sizeof kProtocolVersion, &number, sizeof number);
    expect_error(ErrorKind::kDamaged, "does not know", [&] { decode_request(head.view()); });
  }
}

TEST(Message, AReplyWithoutWhatWasAskedForIsRefused) {
  const Reply reply{.details = ReadReply{7}};
  EXPECT_EQ(details_of<ReadReply>(reply).total, 7U);
  expect_error(ErrorKind::kDamaged, "what was asked for", [&] { details_of<LeaseReply>(reply); });
  expect_error(ErrorKind::kDamaged, "what was asked for", [&] { details_of<ReportReply>(Reply()); });
}

}  // namespace
}  // namespace muster::strategies
