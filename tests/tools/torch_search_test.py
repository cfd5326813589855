"""Tests of cmake/MusterTorch.cmake: LibTorch comes whole from one place, also where the system has another one.

Two LibTorchs of empty files, one of which CMake takes for the system's; their TorchConfig.cmake looks for the libraries
as PyTorch's does.
"""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

TORCH_CONFIG = """
get_filename_component(TORCH_INSTALL_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(TORCH_INCLUDE_DIRS ${TORCH_INSTALL_PREFIX}/include)
find_package(Caffe2 REQUIRED PATHS ${CMAKE_CURRENT_LIST_DIR}/../Caffe2)
find_library(c10_LIBRARY c10 PATHS "${TORCH_INSTALL_PREFIX}/lib")
find_library(TORCH_LIBRARY torch PATHS "${TORCH_INSTALL_PREFIX}/lib")
set(TORCH_LIBRARIES torch_cpu ${c10_LIBRARY})
"""
CAFFE2_CONFIG = """
get_filename_component(prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
add_library(torch_cpu SHARED IMPORTED)
set_target_properties(torch_cpu PROPERTIES IMPORTED_LOCATION ${prefix}/lib/libtorch_cpu.so)
"""
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(Searching LANGUAGES NONE)
set(CMAKE_SYSTEM_PREFIX_PATH {system})
set(CMAKE_FIND_LIBRARY_PREFIXES lib)
set(CMAKE_FIND_LIBRARY_SUFFIXES .so)
set_property(GLOBAL PROPERTY TARGET_SUPPORTS_SHARED_LIBS TRUE)
include({root}/cmake/MusterTorch.cmake)
{find}
get_target_property(library torch_cpu LOCATION)
message("found ${{TORCH_INCLUDE_DIRS}} ${{library}} ${{c10_LIBRARY}} ${{TORCH_LIBRARY}}")
message("prefix path [${{CMAKE_PREFIX_PATH}}]")
add_library(words INTERFACE IMPORTED)
set_target_properties(words PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "/nowhere;{words}")
muster_headers_before_torch(first words words letters words)
message("first [${{first}}]")
"""


class TorchSearch(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="muster-torch-search-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        for place in ("system", "own"):
            for name in ("libtorch.so", "libtorch_cpu.so", "libc10.so"):
                self.write(f"{place}/lib/{name}", "")
            self.write(f"{place}/share/cmake/Torch/TorchConfig.cmake", TORCH_CONFIG)
            self.write(f"{place}/share/cmake/Caffe2/Caffe2Config.cmake", CAFFE2_CONFIG)
        self.find("muster_find_torch(REQUIRED)")

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def find(self, command):
        system = self.folder / "system"
        self.write("CMakeLists.txt", PROJECT.format(system=system, root=ROOT, find=command, words=system / "include"))

    def run_cmake(self, *arguments):
        command = ["cmake", "-G", "Ninja", "-S", str(self.folder), "-B", str(self.folder / "build"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def configure(self, *arguments):
        run = self.run_cmake(*arguments)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stderr

    def expect_all_of(self, place, output):
        lib = self.folder / place / "lib"
        include = self.folder / place / "include"
        self.assertIn(f"found {include} {lib}/libtorch_cpu.so {lib}/libc10.so {lib}/libtorch.so\n", output)

    def torch_dir(self, place):
        return f"-DTorch_DIR={self.folder}/{place}/share/cmake/Torch"

    def test_finds_that_of_the_system(self):
        self.expect_all_of("system", self.configure())

    def test_takes_all_of_the_one_that_is_given(self):
        output = self.configure(self.torch_dir("own"))
        self.expect_all_of("own", output)
        self.assertIn("prefix path []", output)
        self.expect_all_of("own", self.configure())

    def test_forgets_the_one_before(self):
        self.configure()
        self.expect_all_of("own", self.configure(self.torch_dir("own")))
        self.expect_all_of("system", self.configure(self.torch_dir("system")))

    def test_looks_where_muster_was_built_with_it(self):
        self.find(f'muster_find_torch(REQUIRED HINTS "{self.folder}/own/share/cmake/Torch" PREFIX "{self.folder}/own")')
        self.expect_all_of("own", self.configure())

    def test_takes_no_prefix_for_none(self):
        self.find('muster_find_torch(REQUIRED HINTS "/nowhere" PREFIX "")')
        self.expect_all_of("system", self.configure())

    def test_headers_of_other_libraries_that_it_carries_are_not_taken(self):
        for place in ("system", "own"):
            self.write(f"{place}/include/words/words.h", place)
        self.write("system/include/letters/letters.h", "system")
        links = self.folder / "build/headers-before-torch"
        self.assertIn(f"first [{links}]", self.configure(self.torch_dir("own")))
        self.assertEqual([path.name for path in links.iterdir()], ["words"], "only what both have")
        self.assertEqual((links / "words/words.h").read_text(), "system")
        # A LibTorch among the libraries themselves hides nothing, and what was linked for another one is gone.
        self.assertIn("first []", self.configure(self.torch_dir("system")))
        self.assertFalse(links.exists())

    def test_refuses_a_mixture(self):
        theirs = self.folder / "system/share/cmake/Caffe2/Caffe2Config.cmake"
        self.write("own/share/cmake/Torch/TorchConfig.cmake", f"include({theirs})\n")
        run = self.run_cmake(self.torch_dir("own"))
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("its libraries", " ".join(run.stderr.split()))


if __name__ == "__main__":
    unittest.main()
