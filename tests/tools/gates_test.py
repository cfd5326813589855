"""Tests of tools/gates with stand-ins for CMake, CTest, clang and clang-tidy: which gates run, and what they give back.

The script runs from a copy in a small repository of its own. Each stand-in writes its name and arguments to one log.
"""

import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LOG = 'printf "%s\\n" "${0##*/} $*" >>"$LOG"\n'
STAND_INS = {
    # Configuring for clang gives the compile commands of two sources, one of them generated.
    "cmake": LOG
    + """
case " $* " in
  *" --build "*)
    [[ " $* " != *"${BUILD_FAILS:-nothing}"* ]] || exit 5
    [[ " $* " != *"${BUILD_HANGS:-nothing}"* ]] || exec sleep 600
    ;;
  *" -B "*) while [[ $1 != -B ]]; do shift; done; mkdir -p "$2"; cp "$COMMANDS" "$2/compile_commands.json" ;;
esac
""",
    # A tree has six programs and a test of another kind. A test that hangs leaves a process behind it in the same group.
    "ctest": LOG
    + """
if [[ " $* " == *" --show-only=json-v1 "* ]]; then
  printf '{"tests": [{"name": "check", "command": ["/bin/true"]}'
  # As ctest does it: what is not built has no command.
  for name in a b c; do printf ', {"name": "%s_test", "command": ["/x/%s_test"]}' $name $name; done
  for name in d e f; do printf ', {"name": "%s_test"}' $name; done
  echo ']}'
  exit
fi
if [[ " $* " == *"${TESTS_HANG:-nothing}"* ]]; then sleep 600 & echo $! >"$LOG.pid"; wait; fi
[[ " $* " != *"${TESTS_FAIL:-nothing}"* ]] || exit 8
""",
    "protoc": LOG,
    "clang++": LOG + '[[ " $* " != *"${CLANG_FAILS:-nothing}"* ]] || { echo "finding" >&2; exit 1; }\n',
    "clang-tidy": LOG + '[[ " $* " != *"${TIDY_FAILS:-nothing}"* ]] || { echo "finding"; exit 1; }\n',
}


def load_script():
    loader = importlib.machinery.SourceFileLoader("gates", str(ROOT / "tools/gates"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gates", loader))
    loader.exec_module(module)
    return module


class Turn(unittest.TestCase):
    def test_consecutive_numbers_of_commits_see_every_gate(self):
        gates = load_script()
        seen = [gates.turn_of(100 + i, "ab" * 20)[0] for i in range(len(gates.TURNS))]
        self.assertEqual(sorted(seen), sorted(gates.TURNS))
        self.assertEqual(gates.turn_of(7, "ab" * 20), gates.turn_of(7, "cd" * 20))

    def test_without_history_the_commit_decides(self):
        gates = load_script()
        names = list(gates.TURNS)
        for head, index in {"00000000": 0, "00000001": 1 % len(names)}.items():
            name, _, reason = gates.turn_of(1, head + "0" * 32)
            self.assertEqual(name, names[index])
            self.assertIn("no history", reason)
        self.assertEqual(gates.turn_of(0, "")[0], names[0])

    def test_every_item_of_every_gate_begins_a_turn_of_a_fresh_clone(self):
        gates = load_script()
        for count in (1, 35, 36):  # one, an odd number, and one that portions divide
            items = [f"{i}_test" for i in range(count)]
            begun = {name: set() for name in gates.TURNS}
            for commits in range(2, 2 + len(gates.TURNS) * count):
                name, number, _ = gates.turn_of(commits, "ab" * 20)
                order = gates.in_turn(items, {}, number)
                self.assertEqual(sorted(order), sorted(items))
                begun[name].add(order[0])
            for name, first in begun.items():
                self.assertEqual(first, set(items), name)

    def test_nothing_has_no_order(self):
        self.assertEqual(load_script().in_turn([], {}, 7), [])

    def test_what_has_waited_longest_comes_first(self):
        gates = load_script()
        passed = {"a": [300.0, "x"], "c": [100.0, "y"], "gone": [1.0, "z"]}
        for number in range(5):
            order = gates.in_turn(["a", "b", "c", "d"], passed, number)
            self.assertEqual(order[2:], ["c", "a"], number)
            self.assertEqual(sorted(order[:2]), ["b", "d"])

    def test_turns_that_reach_one_item_each_reach_all_in_turn(self):
        gates = load_script()
        items = [f"{i}_test" for i in range(12)]
        passed, seen = {}, []
        for turn in range(2 * len(items)):
            first = gates.in_turn(items, passed, 12 * turn)[0]  # as many commits a landing as there are items
            passed[first] = [float(turn + 1), "x"]
            seen.append(first)
        self.assertEqual(set(seen[: len(items)]), set(items))
        self.assertEqual(seen[len(items) :], seen[: len(items)])


class Gates(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="muster-gates-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        self.tree = self.folder / "clone"
        for name, text in {"muster/base/a.cpp": "", "muster/base/b.cpp": "", "proto/p.proto": "", "README.md": ""}.items():
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            (self.tree / name).write_text(text)
        (self.tree / "tools").mkdir()
        shutil.copy(ROOT / "tools/gates", self.tree / "tools/gates")
        (self.tree / ".gitignore").write_text("build/\n")
        self.git("init", "-q")
        self.commit()
        commands = []
        for name in ("muster/base/a.cpp", "muster/base/b.cpp", "build/proto/p.pb.cc"):
            source = str(self.tree / name)
            command = f"ccache clang++ -DX -o x.o -c {source}"
            commands.append({"directory": str(self.tree), "file": source, "command": command})
        (self.folder / "commands.json").write_text(json.dumps(commands))
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        for name, body in STAND_INS.items():
            (self.bin / name).write_text("#!/bin/bash\n" + body)
            (self.bin / name).chmod(0o755)
        self.log = self.folder / "log"
        self.environment = os.environ | {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "LOG": str(self.log),
            "COMMANDS": str(self.folder / "commands.json"),
        }

    def git(self, *arguments):
        identity = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(self.tree), *identity, *arguments], check=True, capture_output=True)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "change", "--allow-empty")

    def run_gates(self, *arguments, **environment):
        self.log.write_text("")
        run = subprocess.run(
            [sys.executable, "-B", str(self.tree / "tools/gates"), "-j", "1", *arguments],
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        run.calls = self.log.read_text().splitlines()
        return run

    def calls_of(self, run, name):
        return [call for call in run.calls if call.startswith(name + " ")]

    def set_turns(self, *names):
        """The copy in the small repository gives turns to these alone."""
        script = self.tree / "tools/gates"
        script.write_text(re.sub(r"^TURNS = .*$", f"TURNS = {list(names)}", script.read_text(), flags=re.MULTILINE))

    def programs_of(self, run):
        """The programs that were tested, portion by portion."""
        calls = [call for call in self.calls_of(run, "ctest") if " -R " in call]
        return [re.search(r"\^\((.*)\)\$", call).group(1).split("|") for call in calls]

    def test_a_landing_runs_one_long_gate_and_says_which(self):
        turns = set()
        expected = set(load_script().TURNS)
        for i in range(len(expected)):
            (self.tree / "muster/base/b.cpp").write_text(f"// {i}\n")
            self.commit()
            run = self.run_gates("--since", "HEAD~1")
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            self.assertEqual(len(self.calls_of(run, "clang++")), 2, "threads, always")
            tests = self.calls_of(run, "ctest")
            turn = Path(tests[0].split()[2]).name.removeprefix("gate-") if tests else "tidy"
            self.assertEqual(bool(self.calls_of(run, "clang-tidy")), turn == "tidy")
            self.assertIn(f"whose turn it is: {turn} ", run.stdout)
            turns.add(turn)
        self.assertEqual(turns, expected)

    def test_a_turn_that_has_the_time_reaches_every_program_once(self):
        self.set_turns("tsan")
        run = self.run_gates()
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        portions = self.programs_of(run)
        self.assertEqual([len(portion) for portion in portions], [1, 4, 1])
        self.assertEqual(sorted(sum(portions, [])), [f"{name}_test" for name in "abcdef"])
        self.assertIn("reached 6 of 6", run.stdout)

    def test_a_turn_ends_with_its_time_and_names_what_it_did_not_reach(self):
        self.set_turns("tsan")
        first, second = self.programs_of(self.run_gates())[:2]
        # Long enough for the stand-ins before it on a busy machine; the build that hangs takes all of the rest.
        run = self.run_gates("--minutes", "0.25", BUILD_HANGS=f"--target {second[0]} ")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertEqual(self.programs_of(run), [first])
        self.assertIn("reached 1 of 6", run.stdout)
        self.assertIn(f"the time was up before: {second[0]}", run.stdout)

    def test_a_turn_that_reached_nothing_fails(self):
        script = self.tree / "tools/gates"
        script.write_text(script.read_text().replace("FIRST_BUILD_SECONDS = 600", "FIRST_BUILD_SECONDS = 1"))
        for gate in ("tsan", "tidy"):
            self.set_turns(gate)
            run = self.run_gates("--minutes", "0", BUILD_HANGS="gate-tsan")
            self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
            self.assertIn("reached 0 of", run.stdout)

    def test_a_slow_machine_reaches_the_first_program(self):
        self.set_turns("tsan")
        run = self.run_gates("--minutes", "0")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertEqual([len(portion) for portion in self.programs_of(run)], [1])

    def test_a_turn_fails_with_its_findings(self):
        self.set_turns("tsan")
        self.assertEqual(self.run_gates(TESTS_FAIL="gate-tsan").returncode, 8)
        self.assertEqual(self.run_gates(BUILD_FAILS="gate-tsan").returncode, 5)
        self.set_turns("tidy")
        self.assertEqual(self.run_gates(TIDY_FAILS="a.cpp").returncode, 1)

    def test_a_test_that_hangs_is_a_finding_and_is_ended(self):
        self.set_turns("tsan")
        script = self.tree / "tools/gates"
        script.write_text(script.read_text().replace("TEST_SECONDS = 300", "TEST_SECONDS = 2"))
        run = self.run_gates(TESTS_HANG=" -R ")
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertIn("not at its end after 2 s", run.stdout)
        self.assertTrue(self.ends(int(Path(f"{self.log}.pid").read_text())), "a process is left")

    def ends(self, process):
        """Whether a process that was killed is gone, or waits for its parent alone."""
        for _ in range(600):
            try:
                if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                    return True
            except (FileNotFoundError, ProcessLookupError):
                return True
            time.sleep(0.05)  # sleeps: the kernel tells nobody but the parent that a process is gone
        return False

    def test_a_gate_with_little_time_goes_on_where_it_was_stopped(self):
        first = self.programs_of(self.run_gates("tsan", "--minutes", "0"))
        self.assertEqual([len(portion) for portion in first], [1])
        rest = self.run_gates("tsan", "--minutes", "5")
        self.assertEqual(rest.returncode, 0, rest.stdout + rest.stderr)
        order = sum(self.programs_of(rest), [])
        self.assertEqual((len(order), order[-1]), (6, first[0][0]), "what has passed last comes last")
        self.assertIn("tsan: 6 of 6 have passed in this clone", rest.stdout)

    def test_landings_with_little_time_reach_every_program_in_turn(self):
        self.set_turns("tsan")
        reached = [self.programs_of(self.run_gates("--minutes", "0")) for _ in range(6)]
        self.assertTrue(all(len(portions) == 1 and len(portions[0]) == 1 for portions in reached), reached)
        self.assertEqual(len({portions[0][0] for portions in reached}), 6, "the commit is the same each time")

    def test_a_portion_that_takes_too_long_does_not_take_the_time_of_the_others(self):
        self.set_turns("tsan")
        first, second, third = self.programs_of(self.run_gates())
        (self.tree / "build/gates-passed.json").unlink()
        script = self.tree / "tools/gates"
        script.write_text(script.read_text().replace("PORTION_SECONDS = 240", "PORTION_SECONDS = 1"))
        run = self.run_gates(BUILD_HANGS=f"--target {second[0]} ")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertEqual(self.programs_of(run), [first, third])
        self.assertIn(f"not built in 1 s: {', '.join(second)}", run.stdout)
        self.assertIn(f"the time was up before: {', '.join(second)}\n", run.stdout)
        self.assertEqual(self.programs_of(self.run_gates())[0], second[:1], "it is first in the next turn")

    def test_a_file_of_what_has_passed_that_is_damaged_counts_for_nothing_and_is_written_anew(self):
        kept = self.tree / "build/gates-passed.json"
        kept.parent.mkdir()
        damaged = ["", "{", "[]", "7", '{"tsan": []}', '{"tsan": {"a_test": 5}}', '{"tsan": {"a_test": ["x", "y"]}}']
        for text in damaged:
            with self.subTest(text=text):
                kept.write_text(text)
                run = self.run_gates("tsan", "--minutes", "0")
                self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
                self.assertIn("gates-passed.json cannot be read", run.stdout)
                self.assertIn("tsan: 1 of 6 have passed", run.stdout)
                self.assertEqual(list(json.loads(kept.read_text())["tsan"]), ["a_test"])
        kept.write_bytes(b"\xff\xfe")
        self.assertIn("cannot be read", self.run_gates("tsan", "--minutes", "0").stdout)
        kept.unlink()
        run = self.run_gates("tsan", "--minutes", "0")
        self.assertNotIn("cannot be read", run.stdout, "that there is none yet is nothing to tell")
        self.assertIn("tsan: 1 of 6 have passed", run.stdout)

    def test_tidy_looks_again_at_what_it_found(self):
        run = self.run_gates("tidy-all", "--minutes", "5", TIDY_FAILS="b.cpp")
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertIn("tidy: 1 of 2 have passed in this clone", run.stdout)
        again = self.run_gates("tidy-all", "--minutes", "5")
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        looked = [call.split()[-1] for call in self.calls_of(again, "clang-tidy")]
        self.assertEqual(looked, ["muster/base/b.cpp", "muster/base/a.cpp"])

    def test_minutes_are_for_gates_that_can_be_stopped(self):
        run = self.run_gates("threads", "--minutes", "5")
        self.assertEqual(run.returncode, 2)
        self.assertIn("threads runs whole", run.stderr)

    def test_all_runs_every_gate_whatever_the_first_found(self):
        run = self.run_gates("--all", CLANG_FAILS="a.cpp", TESTS_FAIL="gate-tsan")
        self.assertEqual(run.returncode, 1)
        self.assertIn("finding", run.stdout)
        self.assertEqual(len(self.calls_of(run, "ctest")), 3)
        self.assertTrue(any("MUSTER_TORCH=ON" in call for call in run.calls))
        self.assertRegex(run.stdout, r"threads +FAILED \(1\)")
        self.assertRegex(run.stdout, r"tsan +FAILED \(8\)")
        self.assertRegex(run.stdout, r"asan-ubsan +passed")
        self.assertIn("failed at", run.stdout.splitlines()[-1])

    def test_gives_the_code_of_the_first_failure(self):
        self.assertEqual(self.run_gates("tsan", "asan-ubsan", TESTS_FAIL="gate-tsan").returncode, 8)
        run = self.run_gates("tsan", BUILD_FAILS="gate-tsan")
        self.assertEqual((run.returncode, self.calls_of(run, "ctest")), (5, []))

    def test_tidy_looks_at_what_changed(self):
        (self.tree / "muster/base/b.cpp").write_text("// changed\n")
        run = self.run_gates("tidy", "--since", "HEAD")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        looked = self.calls_of(run, "clang-tidy")
        self.assertEqual([call.split()[-1] for call in looked], ["muster/base/b.cpp"])
        self.assertEqual(self.run_gates("tidy", "--since", "HEAD", TIDY_FAILS="b.cpp").returncode, 1)

    def test_threads_parses_our_sources_and_writes_nothing(self):
        run = self.run_gates("threads")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        parsed = self.calls_of(run, "clang++")
        self.assertEqual(len(parsed), 2)
        for call in parsed:
            self.assertIn("-fsyntax-only", call)
            self.assertNotIn(" -o ", call)

    def test_says_what_is_missing_and_what_there_is(self):
        (self.bin / "clang-tidy").unlink()
        path = f"{self.bin}:{Path(shutil.which('git')).parent}"
        if not shutil.which("clang-tidy", path=path):
            run = self.run_gates("tidy", PATH=path)
            self.assertNotEqual(run.returncode, 0)
            self.assertIn("clang-tidy is not installed", run.stderr)
        run = self.run_gates("nonsense")
        self.assertEqual(run.returncode, 2)
        self.assertIn("asan-ubsan", run.stderr)


if __name__ == "__main__":
    unittest.main()
