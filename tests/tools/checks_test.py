"""Tests of the checks in tools/: each runs on a small tree that is in order, and on that tree with one thing wrong.

A check that cannot fail is worth nothing, so every rule has a tree that breaks it.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

# What every C++ file opens with, and a source of muster/.
OPENING = "// What it is.\n"
SOURCE = "// What it rests on,\n// and why.\n"

# Small, and in order by every check.
GOOD_TREE = {
    "ARCHITECTURE.md": "".join(
        f"| `{layer}/` | what it holds |\n"
        for layer in "base observe comm model compute control launch coordinator tuning pipeline trainer cli "
        "docs tests examples".split()
    )
    + "| `data/` | `partition/` and `augment/` |\n| `federated/` | `secure/`, `vertical/` |\n| `strategies/` | `first/`, `second/`, `members/`, `replica/` |\n",
    ".clang-format": "BasedOnStyle: Google\n",
    "CMakeLists.txt": "project(Tiny)\nadd_subdirectory(muster)\nadd_subdirectory(examples)\nadd_subdirectory(tests)\n",
    "muster/CMakeLists.txt": "foreach(layer base model launch coordinator strategies trainer cli)\n"
    "add_subdirectory(${layer})\nendforeach()\n",
    "muster/muster.h": OPENING + '#include "muster/trainer/trainer.h"\n',
    "muster/base/CMakeLists.txt": "muster_layer(base SOURCES error.cpp)\n",
    "muster/base/error.h": OPENING + "enum class ErrorKind {\n  kTimeout,  // late\n  kIo,\n};\n",
    "muster/base/error.cpp": SOURCE + '#include "muster/base/error.h"\n'
    '// case ErrorKind::kTimeout: return "timeout";\n// case ErrorKind::kIo: return "io";\n',
    "muster/model/CMakeLists.txt": "muster_layer(model SOURCES layout.cpp TORCH_SOURCES net.cpp)\n",
    "muster/model/layout.h": "// Where things are. No torch here.\n#include <vector>\n",
    "muster/model/layout.cpp": SOURCE + '#include "muster/model/layout.h"\n',
    "muster/model/net.h": OPENING + '#include <torch/torch.h>\n\n#include "muster/base/error.h"\n',
    "muster/model/net.cpp": SOURCE + '#include "muster/model/net.h"\n',
    "muster/observe/metrics.h": OPENING + '#include "muster/base/error.h"\n',
    "muster/comm/group.h": OPENING + '#include "muster/base/error.h"\n',
    "muster/data/dataset.h": OPENING + '#include "muster/data/partition/shards.h"\n',
    "muster/data/partition/shards.h": OPENING + "#include <vector>\n",
    "muster/data/augment/mixup.h": OPENING + '#include "muster/data/dataset.h"\n',
    "muster/compute/reduce.h": OPENING + '#include "muster/base/error.h"\n',
    "muster/control/store.h": OPENING + '#include "muster/base/error.h"\n',
    "muster/strategies/seam.h": OPENING + "#include <memory>\n",
    "muster/strategies/members/members.h": OPENING + '#include "muster/strategies/seam.h"\n',
    "muster/strategies/replica/replica.h": OPENING + '#include "muster/strategies/members/members.h"\n',
    "muster/strategies/first/first.h": OPENING + '#include "muster/strategies/seam.h"\n',
    "muster/strategies/second/second.h": OPENING + '#include "muster/strategies/replica/replica.h"\n',
    "muster/strategies/CMakeLists.txt": "muster_layer(strategies SOURCES registry.cpp)\n",
    "muster/strategies/registry.cpp": SOURCE + '#include "muster/strategies/first/first.h"\n'
    '#include "muster/strategies/second/second.h"\n',
    "muster/coordinator/CMakeLists.txt": "muster_layer(coordinator SOURCES job.cpp)\n",
    "muster/coordinator/job.cpp": SOURCE,
    "muster/federated/round.h": OPENING + '#include "muster/federated/secure/shares.h"\n',
    "muster/federated/vertical/rows.h": OPENING + '#include "muster/base/error.h"\n',
    "muster/federated/secure/shares.h": OPENING + '#include "muster/base/error.h"\n',
    "muster/federated/vertical/points.h": OPENING + '#include "muster/base/error.h"\n',
    "muster/pipeline/cut.h": OPENING + '#include "muster/base/error.h"\n',
    "muster/tuning/space.h": OPENING + '#include "muster/base/error.h"\n',
    "muster/launch/CMakeLists.txt": "muster_layer(launch SOURCES environment.cpp)\n",
    "muster/launch/environment.cpp": SOURCE + '#include <cstdlib>\nconst char* rank = getenv("RANK");\n',
    "muster/trainer/CMakeLists.txt": "muster_layer(trainer TORCH_SOURCES trainer.cpp)\n",
    "muster/trainer/trainer.h": OPENING + '#include "muster/model/net.h"\n',
    "muster/trainer/trainer.cpp": SOURCE + '#include "muster/trainer/trainer.h"\n',
    "muster/cli/CMakeLists.txt": "add_executable(muster main.cpp)\n",
    "muster/cli/main.cpp": SOURCE + '#include "muster/trainer/trainer.h"\nint main() {}\n',
    "examples/CMakeLists.txt": "add_executable(first first.cpp)\n",
    "examples/first.cpp": OPENING + '#include "muster/muster.h"\nint main() {}\n',
    "examples/small.toml": "[job]\n",
    "tests/CMakeLists.txt": "foreach(layer base)\n  add_subdirectory(unit/${layer})\nendforeach()\n",
    "tests/unit/base/CMakeLists.txt": "muster_test(base_test SOURCES error_test.cpp)\n",
    "tests/unit/base/error_test.cpp": '// Reads examples/small.toml.\n#include "muster/base/error.h"\n',
    "tests/package/CMakeLists.txt": "project(Consumer)\n",
    "musterw": "build_packages=(\n  g++ cmake\n)\ntest_packages=(python3)\ngate_packages=(clang)\n",
    "muster/trainer/options.h": "// What it is. No torch here.\n#pragma once\nstruct Options {\n  int batch = 1;\n"
                                "  std::function<void(int)> done = [] { return; };  // a comment; with two parts\n"
                                "  bool whole() const;\n};\n",
    "docs/cpp-options.md": "# Options\n\n## Options\n\n`muster/trainer/options.h`\n\n| option |\n| --- |\n| `batch`, `done` |\n",
    "docs/glossary.md": "| word | meaning |\n| --- | --- |\n| clock | What tells the time. |\n",
    "docs/errors.md": "| kind |\n| --- |\n| `timeout` |\n| `io` |\n\nSee [packages](dependencies.md).\n",
    "docs/dependencies.md": "| `g++` | compiler |\n| `cmake` | build |\n| `python3` | checks |\n| `clang` | gates |\n",
}


class CheckTestCase(unittest.TestCase):
    check = ""

    def setUp(self):
        self.root = Path(tempfile.mkdtemp(prefix="muster-checks-"))
        self.addCleanup(shutil.rmtree, self.root)
        for name, text in GOOD_TREE.items():
            self.write(name, text)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def append(self, name, text):
        self.write(name, GOOD_TREE[name] + text)

    def run_check(self, **environment):
        command = [sys.executable, "-B", str(ROOT / "tools" / self.check), str(self.root)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | environment)
        self.assertEqual(run.stderr, "")
        return run

    def expect_pass(self):
        run = self.run_check()
        self.assertEqual((run.returncode, run.stdout.splitlines()[:-1]), (0, []))

    def expect_only(self, *words):
        """Fails with exactly one finding, whose line holds all the words."""
        run = self.run_check()
        self.assertEqual(run.returncode, 1, run.stdout)
        findings = [line for line in run.stdout.splitlines()[:-1] if not line.startswith("To repair")]
        self.assertEqual(len(findings), 1, run.stdout)
        for word in words:
            self.assertIn(word, findings[0])


class Layers(CheckTestCase):
    check = "check_layers"

    def test_passes_a_tree_in_order(self):
        self.expect_pass()

    def test_finds_an_include_of_a_higher_layer(self):
        self.append("muster/base/error.h", '#include "muster/model/layout.h"\n')
        self.expect_only("muster/base/error.h", "muster/model/layout.h", "model is above base")

    def test_finds_an_include_with_odd_spacing_and_angle_brackets(self):
        self.append("muster/base/error.h", "  #  include <muster/model/layout.h>\n")
        self.expect_only("muster/base/error.h", "model is above base")

    def test_finds_a_sub_folder_that_names_another_one(self):
        self.append("muster/strategies/first/first.h", '#include "muster/strategies/second/second.h"\n')
        self.expect_only("muster/strategies/first/first.h", "strategies/second, which is not shared")

    def test_finds_a_shared_sub_folder_that_names_one_that_is_not(self):
        self.append("muster/strategies/replica/replica.h", '#include "muster/strategies/first/first.h"\n')
        self.expect_only("muster/strategies/replica/replica.h", "strategies/first, which is not shared")

    def test_finds_a_header_of_a_layer_that_names_a_sub_folder(self):
        self.append("muster/strategies/seam.h", '#include "muster/strategies/first/first.h"\n')
        self.expect_only("muster/strategies/seam.h", "only registry.cpp names what is in strategies/first")

    def test_finds_a_registry_of_a_sub_folder_that_names_another_one(self):
        self.write("muster/strategies/first/registry.cpp", '#include "muster/strategies/second/second.h"\n')
        self.expect_only("muster/strategies/first/registry.cpp", "strategies/second, which is not shared")

    def test_leaves_sub_folders_of_lower_layers_to_the_order_of_layers(self):
        self.append("muster/trainer/trainer.h", '#include "muster/strategies/first/first.h"\n')
        self.expect_pass()

    def test_finds_an_exception_that_is_not_needed_any_more(self):
        exceptions = re.findall(r'\("(muster/\S+)", "(muster/\S+)"\)', (ROOT / "tools/check_layers").read_text())
        if not exceptions:
            self.skipTest("there is none")
        name, include = exceptions[0]
        self.write(name, f'#include "{include}"\n')
        self.expect_pass()
        self.write(name, "")
        self.expect_only(name, include, "any more")

    def test_finds_a_layer_of_its_table_that_is_not_there(self):
        shutil.rmtree(self.root / "muster/observe")
        self.expect_only("muster/observe", "has no source")

    def test_finds_a_shared_sub_folder_of_its_table_that_is_not_there(self):
        shutil.rmtree(self.root / "muster/data/augment")
        self.expect_only("muster/data/augment", "has no source")

    def test_finds_torch_in_a_strategy(self):
        self.append("muster/strategies/registry.cpp", '#include "muster/model/net.h"\n')
        self.expect_only("muster/strategies/registry.cpp", "muster/strategies is torch-free")

    def test_finds_torch_in_a_torch_free_folder(self):
        for header in ("torch/torch.h", "ATen/ATen.h", "c10/util/Exception.h"):
            with self.subTest(header=header):
                self.append("muster/base/error.cpp", f"#include <{header}>\n")
                self.expect_only("muster/base/error.cpp", "torch-free", header)

    def test_finds_torch_reached_through_another_header(self):
        self.append("muster/launch/environment.cpp", '#include "muster/model/net.h"\n')
        self.expect_only("muster/launch/environment.cpp", "muster/model/net.h -> torch/torch.h")

    def test_finds_torch_behind_the_mark_no_torch_here(self):
        self.write("muster/model/layout.h", "// Where things are. No torch here.\n#include <torch/torch.h>\n")
        run = self.run_check()
        self.assertEqual(run.returncode, 1)
        self.assertIn('muster/model/layout.h: its opening comment says "No torch here"', run.stdout)

    def test_finds_torch_in_a_source_that_is_not_behind_the_wall(self):
        self.append("muster/model/layout.cpp", '#include "muster/model/net.h"\n')
        self.expect_only("muster/model/layout.cpp", "TORCH_SOURCES")

    def test_finds_torch_in_a_source_that_a_variable_lists(self):
        self.write(
            "muster/model/CMakeLists.txt",
            "set(plain layout.cpp)\nmuster_layer(m SOURCES ${plain} TORCH_SOURCES net.cpp)\n",
        )
        self.append("muster/model/layout.cpp", '#include "muster/model/net.h"\n')
        self.expect_only("muster/model/layout.cpp", "TORCH_SOURCES")

    def test_finds_a_source_of_a_layer_that_is_not_there(self):
        self.append("muster/model/CMakeLists.txt", "muster_layer(m SOURCES gone.cpp)\n")
        self.expect_only("muster/model/CMakeLists.txt", "gone.cpp")

    def test_finds_a_folder_that_is_no_layer(self):
        self.write("muster/helpers/all.h", "")
        self.expect_only("muster/helpers/all.h", "is not a layer")

    def test_finds_an_include_of_a_folder_that_is_no_layer(self):
        self.append("muster/cli/main.cpp", '#include "muster/helpers/all.h"\n')
        self.expect_only("muster/cli/main.cpp", "in no layer")

    def test_finds_a_layer_that_includes_the_face(self):
        self.append("muster/cli/main.cpp", '#include "muster/muster.h"\n')
        self.expect_only("muster/cli/main.cpp", "muster/muster.h")

    def test_finds_the_face_including_the_program(self):
        self.append("muster/muster.h", '#include "muster/cli/flags.h"\n')
        self.expect_only("muster/muster.h", "cli is above")

    def test_finds_another_header_beside_the_face(self):
        self.write("muster/extra.h", "")
        self.expect_only("muster/extra.h")

    def test_finds_an_environment_read_below_the_program(self):
        self.append("muster/trainer/trainer.cpp", 'auto home = std::getenv("HOME");\n')
        self.expect_only("muster/trainer/trainer.cpp", "environment")

    def test_allows_environment_reads_in_the_program(self):
        self.append("muster/cli/main.cpp", 'auto home = std::getenv("HOME");\n')
        self.expect_pass()

    def test_finds_a_second_file_of_launch_that_reads_the_environment(self):
        self.write("muster/launch/slurm.cpp", 'auto job = getenv("SLURM_JOB_ID");\n')
        self.expect_only("muster/launch/slurm.cpp", "only one file of launch/")

    def test_finds_a_type_that_two_headers_define(self):
        for name in ("first", "second"):
            self.write(f"muster/strategies/{name}/plan.h", OPENING + "namespace muster::strategies {\nstruct Plan {\n};\n}\n")
        self.expect_only("muster/strategies/second/plan.h", "muster::strategies::Plan")

    def test_finds_a_build_order_that_is_not_the_layers(self):
        self.write("muster/CMakeLists.txt", "foreach(layer base trainer model cli)\nendforeach()\n")
        self.expect_only("muster/CMakeLists.txt", "base trainer model cli")

    def test_fails_when_there_is_nothing_to_check(self):
        shutil.rmtree(self.root / "muster")
        self.expect_only("nothing was checked")


class Registration(CheckTestCase):
    check = "check_registration"

    def test_passes_a_tree_in_order(self):
        self.expect_pass()

    def test_finds_a_test_that_nobody_builds(self):
        self.write("tests/unit/base/clock_test.cpp", "")
        self.expect_only("tests/unit/base/clock_test.cpp")

    def test_finds_a_test_that_only_a_comment_names(self):
        self.write("tests/unit/base/clock_test.cpp", "")
        self.append("tests/unit/base/CMakeLists.txt", "# clock_test.cpp\n")
        self.expect_only("tests/unit/base/clock_test.cpp")

    def test_finds_a_test_whose_name_only_another_folder_lists(self):
        self.write("tests/unit/model/error_test.cpp", "")
        self.expect_only("tests/unit/model/error_test.cpp")

    def test_accepts_a_source_in_a_subfolder_named_from_the_layer(self):
        self.write("muster/trainer/steps/sync.cpp", "")
        self.append("muster/trainer/CMakeLists.txt", "target_sources(muster_trainer PRIVATE steps/sync.cpp)\n")
        self.expect_pass()

    def test_finds_a_source_that_nobody_builds(self):
        self.write("muster/base/clock.cpp", "")
        self.expect_only("muster/base/clock.cpp")

    def test_finds_a_fuzz_target_that_nobody_builds(self):
        self.write("tests/fuzz/toml_fuzz.cpp", "")
        self.expect_only("tests/fuzz/toml_fuzz.cpp")

    def test_finds_a_folder_of_tests_that_is_not_reached(self):
        self.write("tests/unit/model/CMakeLists.txt", "muster_test(model_test SOURCES net_test.cpp)\n")
        self.write("tests/unit/model/net_test.cpp", "")
        self.expect_only("tests/unit/model/CMakeLists.txt", "add_subdirectory")

    def test_finds_an_example_that_nobody_builds(self):
        self.write("examples/second.cpp", "int main() {}\n")
        self.expect_only("examples/second.cpp")

    def test_finds_an_example_of_a_hundred_lines(self):
        self.write("examples/first.cpp", "\n" * 99)
        self.expect_pass()
        self.write("examples/first.cpp", "\n" * 100)
        self.expect_only("examples/first.cpp", "100 lines")

    def test_finds_a_job_file_that_nobody_runs(self):
        self.write("examples/other.toml", "")
        self.expect_only("examples/other.toml")

    def test_fails_when_there_is_nothing_to_check(self):
        for folder in ("muster", "tests", "examples"):
            shutil.rmtree(self.root / folder)
        self.expect_only("nothing was checked")

    def test_skips_build_trees(self):
        self.write("build/release/muster/generated.cpp", "")
        self.write("tests/build/copy_test.cpp", "")
        self.expect_pass()


class Format(CheckTestCase):
    check = "check_format"

    def setUp(self):
        super().setUp()
        if self.run_check().returncode == 77:
            self.skipTest("clang-format 14 is not installed")

    def test_passes_a_tree_in_order(self):
        self.expect_pass()

    def test_finds_a_file_that_is_not_formatted(self):
        self.write("muster/cli/main.cpp", "int  main( ) { }\n")
        self.expect_only("muster/cli/main.cpp", "clang-format")

    def test_finds_a_header_that_is_not_formatted(self):
        self.append("muster/trainer/trainer.h", "int a ;\n")
        self.expect_only("muster/trainer/trainer.h")

    def test_prints_the_command_that_repairs(self):
        self.write("muster/cli/main.cpp", "int  main( ) { }\n")
        self.assertIn("clang-format -i muster/cli/main.cpp", self.run_check().stdout)

    def test_fails_when_there_is_nothing_to_check(self):
        for folder in ("muster", "tests", "examples"):
            shutil.rmtree(self.root / folder)
        self.expect_only("nothing was checked")


class FormatByAnotherRelease(CheckTestCase):
    check = "check_format"

    def test_is_not_judged(self):
        bin_folder = self.root / "bin"
        self.write("bin/clang-format", "#!/bin/sh\necho 'Debian clang-format version 19.1.7 (3+b1)'\n")
        (bin_folder / "clang-format").chmod(0o755)
        self.write("muster/cli/main.cpp", "int  main( ) { }\n")
        run = self.run_check(PATH=str(bin_folder))
        self.assertEqual(run.returncode, 77)
        self.assertIn("not judged: this is clang-format 19, and release 14 decides", run.stdout)


class Style(CheckTestCase):
    check = "check_style"
    test = "tests/unit/base/error_test.cpp"

    def test_passes_a_tree_in_order(self):
        self.expect_pass()

    def test_finds_a_source_that_says_nothing_of_itself(self):
        self.write("muster/base/clock.cpp", '#include "muster/base/clock.h"\n// Late.\n// Later.\n')
        self.expect_only("muster/base/clock.cpp", "0 line(s) of comment", "2 at least")

    def test_finds_a_source_that_says_one_line_of_itself(self):
        self.write("muster/base/clock.cpp", "// Time.\nint now();\n")
        self.expect_only("muster/base/clock.cpp", "1 line(s) of comment", "2 at least")
        self.write("muster/base/clock.cpp", "// Time\n// as a parameter.\nint now();\n")
        self.expect_pass()

    def test_finds_headers_tests_and_examples_that_say_nothing(self):
        for name in ("muster/base/clock.h", "tests/unit/base/clock_test.cpp", "tests/support/clock.h", "examples/a.cpp"):
            with self.subTest(name=name):
                self.write(name, "int now();\n")
                self.expect_only(name, "0 line(s) of comment", "1 at least")
                self.write(name, "// Time.\nint now();\n")
                self.expect_pass()

    def test_finds_a_comment_without_words_and_an_empty_file(self):
        for text in ("", "//\n//  ----\nint now();\n"):
            with self.subTest(text=text):
                self.write("muster/base/clock.cpp", text)
                self.expect_only("muster/base/clock.cpp", "of comment")

    def test_finds_a_sleep_without_a_reason(self):
        for call in ("clock.sleep_for(1ms)", "std::this_thread::sleep_until(later)", "::usleep(20)", "::sleep (1)"):
            with self.subTest(call=call):
                self.append(self.test, f"  {call};  // a while\n")
                self.expect_only(self.test, "line 3", "sleeps: REASON")

    def test_accepts_a_reason_behind_the_call_or_on_the_line_before(self):
        self.append(self.test, "  ::sleep(1);  // sleeps: the disk is slow\n  // sleeps: so is this\n  ::sleep(1);\n")
        self.expect_pass()

    def test_a_reason_holds_for_one_call_and_needs_words(self):
        self.append(self.test, "  // sleeps: once\n  ::sleep(1);\n  ::sleep(1);\n")
        self.expect_only(self.test, "line 5")
        self.append(self.test, "  ::sleep(1);  // sleeps: \n")
        self.expect_only(self.test, "line 3")

    def test_finds_a_sleep_behind_an_address_in_a_text(self):
        self.append(self.test, "  open(\"http://a\"), ::sleep(1);\n")
        self.expect_only(self.test, "line 3")

    def test_leaves_other_words_texts_and_comments_alone(self):
        self.append(self.test, "run(\"sleep(600)\"); sleep_for_good(); // sleep(1)\n")
        self.expect_pass()

    def test_finds_a_sleep_of_a_test_in_python(self):
        self.write("tests/tools/some_test.py", "time.sleep(1)  # a while\n")
        self.expect_only("tests/tools/some_test.py", "line 1", "# sleeps: REASON")
        self.write("tests/tools/some_test.py", "time.sleep(1)  # sleeps: the disk is slow\n")
        self.expect_pass()

    def test_finds_a_file_that_is_too_long(self):
        for name, most in {"muster/base/clock.cpp": 650, "tests/unit/base/clock_test.cpp": 650, "muster/base/clock.h": 325}.items():
            with self.subTest(name=name):
                opening = SOURCE if name.endswith("clock.cpp") else OPENING
                fits = opening + "int a;\n" * (most - len(opening.splitlines()))
                self.write(name, fits)
                self.expect_pass()
                self.write(name, fits + "int b;\n")
                self.expect_only(name, f"{most + 1} lines", f"{most} at most")
                (self.root / name).unlink()

    def test_finds_a_function_that_is_too_long(self):
        heads = {
            "int now() {": "}",
            "Clock::Clock(int a,\n             int b)\n    : a_(a) {": "}",
            "class Clock {\n  int now() const {": "  }\n};",
            "template <typename T>\nT now() {": "}",
        }
        for head, end in heads.items():
            with self.subTest(head=head):
                of_the_head = head.count("\n") + 1 - (1 if head.startswith(("class", "template")) else 0)
                fits = "  a();\n" * (75 - of_the_head - 1)
                self.write("muster/base/clock.cpp", f"{SOURCE}{head}\n{fits}{end}\n")
                self.expect_pass()
                self.write("muster/base/clock.cpp", f"{SOURCE}{head}\n{fits}  b();\n{end}\n")
                self.expect_only("muster/base/clock.cpp", "longest function", "76 lines", "75 at most")

    def test_the_body_of_a_namespace_class_or_table_is_no_function(self):
        lines = "  int a = 0;\n" * 90
        self.write("muster/base/clock.cpp", f"{SOURCE}namespace a {{\nclass B {{\n{lines}}};\nstruct C {{\n{lines}}};\n}}\n")
        self.expect_pass()

    def test_functions_of_tests_may_be_long(self):
        self.append(self.test, "void story() {\n" + "  a();\n" * 90 + "}\n")
        self.expect_pass()

    def test_finds_an_exception_that_is_not_needed_any_more(self):
        self.write("muster/federated/round_server.cpp", SOURCE + "int a;\n" * 610)
        self.expect_pass()
        self.write("muster/federated/round_server.cpp", SOURCE + "int a;\n")
        self.expect_only("muster/federated/round_server.cpp", "not needed any more")
        self.write("muster/federated/round_server.cpp", SOURCE + "int a;\n" * 990)
        self.expect_only("muster/federated/round_server.cpp", "950 at most")

    def test_sleeps_of_the_program_are_its_own_affair(self):
        self.append("muster/base/error.cpp", "::sleep(1);\n")
        self.expect_pass()

    def test_fails_when_there_is_nothing_to_check(self):
        for folder in ("muster", "tests", "examples"):
            shutil.rmtree(self.root / folder)
        self.expect_only("nothing was checked")


class Docs(CheckTestCase):
    check = "check_docs"

    def test_passes_a_tree_in_order(self):
        self.expect_pass()

    def test_finds_an_error_kind_without_a_row(self):
        self.write("docs/errors.md", "| `timeout` |\n")
        self.expect_only("docs/errors.md", "`io`")

    def test_finds_a_row_of_a_kind_that_is_gone(self):
        self.append("docs/errors.md", "| `peer_lost` |\n")
        self.expect_only("docs/errors.md", "`peer_lost`")

    def test_finds_a_row_that_stands_there_twice(self):
        self.append("docs/errors.md", "| `io` |\n")
        self.expect_only("docs/errors.md", "twice")

    def test_finds_an_enumerator_that_to_string_does_not_name(self):
        self.write("muster/base/error.h", "enum class ErrorKind {\n  kTimeout,\n  kIo,\n  kNew,\n};\n")
        self.expect_only("muster/base/error.cpp", "to_string")

    def test_finds_a_field_of_an_options_struct_without_a_row(self):
        self.write("docs/cpp-options.md", "## Options\n\n`muster/trainer/options.h`\n\n| `batch` |\n")
        self.expect_only("docs/cpp-options.md", "`done`")

    def test_finds_a_row_of_a_field_that_is_gone_and_of_a_struct_that_is(self):
        self.append("docs/cpp-options.md", "| `whole` |\n")
        self.expect_only("docs/cpp-options.md", "`whole`")
        self.write("docs/cpp-options.md", "## Other\n\n`muster/trainer/options.h`\n")
        self.expect_only("docs/cpp-options.md", "Other")

    def test_finds_a_package_without_a_row(self):
        self.write("musterw", "build_packages=(\n  g++ cmake ccache\n)\ntest_packages=(python3)\ngate_packages=(clang)\n")
        self.expect_only("docs/dependencies.md", "`ccache`")

    def test_finds_a_row_of_a_package_that_musterw_does_not_install(self):
        self.append("docs/dependencies.md", "| `valgrind` | nothing |\n")
        self.expect_only("docs/dependencies.md", "`valgrind`")

    def test_finds_a_folder_without_a_row(self):
        self.write("benchmarks/one.md", "nothing\n")
        self.expect_only("ARCHITECTURE.md", "`benchmarks/`")

    def test_finds_a_row_of_a_folder_that_is_gone(self):
        self.append("ARCHITECTURE.md", "| `python/` | another face |\n")
        self.expect_only("ARCHITECTURE.md", "`python/`")

    def test_finds_a_sub_folder_that_its_layers_row_does_not_name(self):
        self.write("muster/strategies/third/third.h", "// What it is.\n")
        self.expect_only("ARCHITECTURE.md", "`third/`")

    def test_finds_a_link_that_leads_nowhere(self):
        self.append("docs/errors.md", "[gone](gone.md)\n")
        self.expect_only("docs/errors.md", "gone.md")

    def test_finds_a_word_of_the_glossary_that_stands_there_twice(self):
        for row in ("| clock | Again. |", "| watch, clock | Both. |"):
            with self.subTest(row=row):
                self.append("docs/glossary.md", f"\n## More\n\n{row}\n")
                self.expect_only("docs/glossary.md", "`clock`", "2 entries")

    def test_finds_a_word_of_the_glossary_that_is_not_used(self):
        self.append("docs/glossary.md", "\n## Words we do not use\n\n| not | but |\n| --- | --- |\n| clock | time |\n")
        self.expect_only("docs/glossary.md", "`clock`", "do not use")

    def test_a_meaning_of_a_word_that_is_not_used_is_no_entry(self):
        self.append("docs/glossary.md", "\n## Words we do not use\n\n| not | but |\n| --- | --- |\n| clock (on a wall) | time |\n")
        self.expect_pass()

    def test_finds_a_word_of_the_glossary_in_italics_without_an_entry(self):
        self.append("docs/glossary.md", "| day | Many *hours* of a *clock*, by *clocks*. |\n")
        self.expect_only("docs/glossary.md", "*hours*")

    def test_leaves_web_links_and_code_alone(self):
        self.append("docs/errors.md", "## `Kind`, once\n[a](https://example.org/x#y) [b](#kind-once)\n```\n[c](in_code.md)\n```\n")
        self.expect_pass()

    def test_finds_a_link_to_a_heading_that_is_gone(self):
        self.append("docs/dependencies.md", "[a](errors.md#kinds)\n")
        self.expect_only("docs/dependencies.md", "errors.md#kinds")


if __name__ == "__main__":
    unittest.main()
