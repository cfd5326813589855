// Any changed character is seen; what is sealed rightly and means nothing is refused by the parser itself.
#include "muster/model/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::model {
namespace {

using ::testing::HasSubstr;

Manifest example() {
  Manifest manifest;
  manifest.step = 1234;
  manifest.generation = 3;
  manifest.seed = UINT64_MAX;
  manifest.epoch = 2;
  manifest.position = 50000;
  manifest.job = "[job]\nname = \"\u00e4\"\n";
  manifest.progress = {{"best", 0.1}, {"losses", {1e-300, 3.0, 1.0 / 3}}, {"nested", {{"z", 1}, {"a", -2}}}};
  manifest.muster_version = "0.1.0";
  manifest.files = {{std::string(kModelFile), 640, std::string(64, 'a')},
                    {std::string(kOptimizerFile), 0, std::string(64, '0')}};
  return manifest;
}

std::string refusal(const std::string& text, ErrorKind kind = ErrorKind::kDamaged) {
  try {
    parse_manifest(text, "manifest.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_EQ(error.where(), "manifest.json");
    return error.message();
  }
  return "accepted";
}

// The example with a change, sealed again: what remains is the parser's own judgement.
template <typename Change>
std::string changed(Change change) {
  Json object = unseal(encode_manifest(example()), "x");
  change(object);
  return seal(std::move(object));
}

TEST(Manifest, ReadsBackWhatWasWritten) {
  const Manifest written = example();
  const Manifest read = parse_manifest(encode_manifest(written), "x");
  EXPECT_EQ(read.step, written.step);
  EXPECT_EQ(read.generation, written.generation);
  EXPECT_EQ(read.seed, written.seed);
  EXPECT_EQ(read.epoch, written.epoch);
  EXPECT_EQ(read.position, written.position);
  EXPECT_EQ(read.job, written.job);
  EXPECT_EQ(read.progress.dump(), written.progress.dump());
  EXPECT_EQ(read.muster_version, written.muster_version);
  ASSERT_EQ(read.files.size(), 2u);
  EXPECT_EQ(read.files[0].name, kModelFile);
  EXPECT_EQ(read.files[0].bytes, 640u);
  EXPECT_EQ(read.files[1].sha256, std::string(64, '0'));
  EXPECT_EQ(encode_manifest(read), encode_manifest(written));
}

TEST(Manifest, SeesAnyChangedCharacter) {
  const std::string text = encode_manifest(example());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string other = text;
    other[i] = static_cast<char>(other[i] ^ 1);
    try {
      // A blank that became another blank is the only change that may pass, and it changes nothing.
      EXPECT_EQ(encode_manifest(parse_manifest(other, "x")), text) << "byte " << i;
    } catch (const Error&) {
    }
    // Without the last line's end it is still whole.
    EXPECT_EQ(refusal(text.substr(0, i)) == "accepted", i + 1 == text.size());
  }
}

TEST(Manifest, RefusesWhatIsMissingOrOfAnotherType) {
  for (const char* const member :
       {"format", "step", "generation", "seed", "epoch", "position", "job", "progress", "muster_version", "files"}) {
    EXPECT_NE(refusal(changed([&](Json& object) { object.erase(member); })), "accepted") << member;
    EXPECT_NE(refusal(changed([&](Json& object) { object[member] = nullptr; })), "accepted") << member;
    EXPECT_NE(refusal(changed([&](Json& object) { object[member] = -1; })), "accepted") << member;
    EXPECT_NE(refusal(changed([&](Json& object) { object[member] = Json::array({1.5}); })), "accepted") << member;
  }
  EXPECT_NE(refusal("[]"), "accepted");
  EXPECT_NE(refusal("{}"), "accepted");
  EXPECT_NE(refusal(""), "accepted");
  EXPECT_NE(refusal(std::string(100000, '[')), "accepted");
}

TEST(Manifest, ListsExactlyItsTwoFiles) {
  const auto files = [](auto change) { return changed([&](Json& object) { change(object["files"]); }); };
  EXPECT_THAT(refusal(files([](Json& list) { list.erase(0); })), HasSubstr("once each"));
  EXPECT_THAT(refusal(files([](Json& list) { list[1] = list[0]; })), HasSubstr("once each"));
  EXPECT_THAT(refusal(files([](Json& list) { list.push_back(list[0]); })), HasSubstr("once each"));
  for (const char* const name : {"../model.safetensors", "/etc/passwd", "", "model.safetensors/..", "pickle.pt"}) {
    EXPECT_THAT(refusal(files([&](Json& list) { list[0]["name"] = name; })), HasSubstr("does not have")) << name;
  }
  EXPECT_THAT(refusal(files([](Json& list) { list[0]["sha256"] = "abc"; })), HasSubstr("64 hexadecimal"));
  EXPECT_THAT(refusal(files([](Json& list) { list[0]["sha256"] = std::string(64, 'A'); })), HasSubstr("64 hex"));
  EXPECT_THAT(refusal(files([](Json& list) { list[0]["bytes"] = -1; })), HasSubstr("bytes"));
  EXPECT_THAT(refusal(files([](Json& list) { list[0] = "model.safetensors"; })), HasSubstr("name"));
}

TEST(Manifest, SaysThatAnotherFormatIsNotItsOwn) {
  EXPECT_THAT(refusal(changed([](Json& object) { object["format"] = 2; }), ErrorKind::kUnsupported),
              HasSubstr("format 2; this Muster reads 1"));
}

TEST(Manifest, IsBounded) {
  Manifest manifest = example();
  manifest.job = std::string(kMostManifestBytes, 'x');
  EXPECT_THROW(encode_manifest(manifest), Error);
  EXPECT_THAT(refusal(std::string(kMostManifestBytes + 1, ' ')), HasSubstr("at most 1048576"));
}

TEST(Manifest, RefusesToWriteWhatIsNotUtf8) {
  Manifest manifest = example();
  manifest.job = std::string(1, '\xFF');
  try {
    encode_manifest(manifest);
    ADD_FAILURE() << "written";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
  }
}

}  // namespace
}  // namespace muster::model
