// The vectors are the examples that NIST publishes with FIPS 180-4.
#include "muster/base/hash.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace muster {
namespace {

std::string hash_of(std::string_view text) {
  return sha256(std::as_bytes(std::span(text)));
}

TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(hash_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash_of(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnHowTheBytesWereCut) {
  const std::string text(1000, 'x');
  for (const std::size_t piece : {1U, 7U, 63U, 64U, 65U, 999U, 1000U}) {
    Sha256 hash;
    for (std::size_t at = 0; at < text.size(); at += piece)
      hash.update(std::as_bytes(std::span(text).subspan(at, std::min(piece, text.size() - at))));
    hash.update({});
    EXPECT_EQ(hash.finish(), hash_of(text)) << "pieces of " << piece;
  }
}

TEST(Sha256, OneBitChangesTheDigest) {
  EXPECT_NE(hash_of("weights"), hash_of("weightr"));
  EXPECT_NE(hash_of(std::string_view("\0", 1)), hash_of(""));
}

}  // namespace
}  // namespace muster
