// Parts of a bundle: which libraries are in it, search paths that are changed in place, archives as tar reads them.
#include "muster/launch/bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "muster/launch/elf_search_path.h"
#include "muster/launch/tar_archive.h"
#include "support/command.h"
#include "support/errors.h"
#include "support/sandbox.h"

namespace muster::launch {
namespace {

using muster::testing::expect_error;
using muster::testing::run_command;
using muster::testing::slurp;
using muster::testing::spill;
using muster::testing::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Bundle, TheCLibraryIsTheOtherMachines) {
  for (const char* name : {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "libpthread.so.0", "libdl.so.2",
                           "libresolv.so.2", "libnss_files.so.2", "librt.so.1", "libmvec.so.1"})
    EXPECT_TRUE(is_of_c_library(name)) << name;
  for (const char* name : {"libstdc++.so.6", "libgcc_s.so.1", "libcrypto.so.3", "libcurl.so.4", "libmpi.so.40",
                           "libnss3.so", "libcap.so.2", "libmagic.so.1", "librtmp.so.1"})
    EXPECT_FALSE(is_of_c_library(name)) << name;
}

TEST(Bundle, WhatThisProcessHasLoadedIsListedWithTheNamesItIsLookedForBy) {
  const std::vector<LoadedLibrary> libraries = loaded_libraries();
  const auto named = [&](const std::string& name) {
    for (const LoadedLibrary& library : libraries)
      if (library.name == name) return true;
    return false;
  };
  EXPECT_TRUE(named("libstdc++.so.6"));
  EXPECT_FALSE(named("libc.so.6"));
  // As ldd has it, of this very program.
  const std::string told = run_command({"ldd", std::filesystem::read_symlink("/proc/self/exe").string()}).out;
  for (const LoadedLibrary& library : libraries)
    EXPECT_THAT(told, HasSubstr(library.name));
}

// A program of nothing that needs a library of ours, built by the system's compiler.
class SearchPath : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ / "lib");
    std::filesystem::create_directories(folder_ / "bin");
    std::filesystem::create_directories(folder_ / "away");
    spill(folder_ / "low.c", "int low(void) { return 7; }\n");
    spill(folder_ / "part.c", "int low(void); int part(void) { return low() * 6; }\n");
    spill(folder_ / "main.c", "int part(void); int main(void) { return part(); }\n");
    const std::string at = "cd " + folder_.path().string() + " && cc -shared -fPIC ";
    ASSERT_EQ(run_command({"sh", "-c", at + "-o away/liblow.so low.c"}).exit_code, 0);
    // As some of Debian's are: with a path of their own, so that a RUNPATH of the program would not count for theirs.
    ASSERT_EQ(
        run_command({"sh", "-c",
                     at + "-o away/libpart.so part.c -Laway -llow -Wl,--enable-new-dtags -Wl,-rpath,/nowhere/at/all"})
            .exit_code,
        0);
  }
  void link(const std::string& path) {
    ASSERT_EQ(
        run_command({"sh", "-c",
                     "cd " + folder_.path().string() +
                         " && cc -o bin/prog main.c -Laway -lpart -Wl,-rpath-link,away -Wl,-rpath,'" + path + "'"})
            .exit_code,
        0);
  }
  std::filesystem::path program() const { return folder_ / "bin/prog"; }

  TemporaryFolder folder_;
};

TEST_F(SearchPath, CountsForTheLibrariesOfLibrariesWhereverTheFolderLies) {
  link("/some/longer/path/of/the/machine/that/made/it");
  for (const char* name : {"liblow.so", "libpart.so"})
    std::filesystem::rename(folder_ / "away" / name, folder_ / "lib" / name);
  EXPECT_NE(run_command({program().string()}).exit_code, 42);
  set_search_path(program(), "$ORIGIN/../lib");
  EXPECT_NE(run_command({program().string()}).exit_code, 42) << "libpart.so has a path of its own";
  drop_search_path(folder_ / "lib/libpart.so");
  drop_search_path(folder_ / "lib/liblow.so");  // has none: nothing happens
  EXPECT_EQ(run_command({program().string()}).exit_code, 42);
  std::filesystem::rename(folder_ / "bin", folder_ / "moved");
  EXPECT_EQ(run_command({(folder_ / "moved/prog").string()}).exit_code, 42);
}

TEST_F(SearchPath, WhatHasNoRoomIsRefusedAndLeftAlone) {
  link("/short");
  const std::string before = slurp(program());
  expect_error(ErrorKind::kUnsupported, "no search path", [&] { set_search_path(program(), "$ORIGIN/../lib"); });
  EXPECT_EQ(slurp(program()), before);
}

TEST_F(SearchPath, FilesThatAreNoneAreRefused) {
  spill(folder_ / "text", "not an ELF file, but long enough to have a header of one: " + std::string(100, 'x'));
  expect_error(ErrorKind::kDamaged, "no ELF", [&] { drop_search_path(folder_ / "text"); });
  spill(folder_ / "short",
        "\x7f"
        "ELF");
  expect_error(ErrorKind::kDamaged, "outside", [&] { drop_search_path(folder_ / "short"); });
  // Cut anywhere: refused or read, never outside of the file.
  const std::string whole = slurp(folder_ / "away/libpart.so");
  for (std::size_t size = 0; size < whole.size(); size += 997) {
    spill(folder_ / "cut", whole.substr(0, size));
    try {
      drop_search_path(folder_ / "cut");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kDamaged);
    }
  }
}

TEST(TarArchive, IsReadByTar) {
  const TemporaryFolder folder;
  std::string big;
  for (int i = 0; big.size() < 2'500'000; ++i)
    big += std::to_string(i * 7919);
  const std::vector<std::pair<std::string, std::string>> files{
      {"a/empty", ""}, {"a/512", std::string(512, 'x')}, {"b/big", big}, {"b/513", std::string(513, 'y')}};
  for (const char* name : {"one.tar.zst", "two.tar.zst"}) {
    TarArchive tar(folder / name);
    for (const auto& [path, text] : files) {
      spill(folder / "file", text);
      tar.add(folder / "file", path, path == "b/big");
    }
    EXPECT_FALSE(std::filesystem::exists(folder / name)) << "it appears when it is whole";
    tar.finish();
  }
  EXPECT_EQ(slurp(folder / "one.tar.zst"), slurp(folder / "two.tar.zst"));
  std::filesystem::create_directory(folder / "out");
  const testing::CommandResult tar = run_command(
      {"sh", "-c",
       "zstd -dc " + (folder / "one.tar.zst").string() + " | tar -C " + (folder / "out").string() + " -xf -"});
  ASSERT_EQ(tar.exit_code, 0) << tar.out;
  EXPECT_EQ(tar.out, "");
  for (const auto& [path, text] : files)
    EXPECT_TRUE(slurp(folder / "out" / path) == text) << path;
  struct stat status {};
  ASSERT_EQ(::stat((folder / "out/b/big").c_str(), &status), 0);
  EXPECT_NE(status.st_mode & 0100, 0U);
  ASSERT_EQ(::stat((folder / "out/b/513").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0100, 0U);
  expect_error(ErrorKind::kInvalidInput, "100 bytes",
               [&] { TarArchive(folder / "three.tar.zst").add(folder / "file", std::string(101, 'n'), false); });
}

}  // namespace
}  // namespace muster::launch
