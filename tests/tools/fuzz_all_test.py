"""Tests of tools/fuzz_all with stand-ins for CMake and for fuzz targets: whose turn it is, what is kept, what it gives back."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# A target says what it was asked for; it runs all inputs it may, fails where $FAILS is its name, and keeps every input when
# it merges.
TARGET = r"""#!/bin/bash
name=${0##*/}
echo "$name $*" >>"$LOG"
runs=0
for word in "$@"; do
  case $word in
    -runs=*) runs=${word#-runs=} ;;
    -merge=1) cp "${@: -1}"/* "${@: -2:1}" ;;
  esac
done
[[ ${SLOW:-} != "$name" ]] || { trap 'runs=7 code=72' TERM; touch "$LOG.slow"; sleep 30 & wait $!; }
[[ ${EMPTY:-} == "$name" ]] || echo "stat::number_of_executed_units: $runs" >&2
[[ ${FAILS:-} != "$name" ]] || { echo "ERROR: AddressSanitizer" >&2; exit 77; }
exit ${code:-0}
"""


class FuzzAll(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="muster-fuzz-all-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        self.tree = self.folder / "clone"
        for name in ("tools", "tests/fuzz/corpus", "build/fuzz/tests/fuzz", "bin"):
            (self.tree / name).mkdir(parents=True)
        shutil.copy(ROOT / "tools/fuzz_all", self.tree / "tools/fuzz_all")
        (self.tree / "tests/fuzz/CMakeLists.txt").write_text("muster_fuzz(a_fuzz SOURCES a)\nmuster_fuzz(b_fuzz SOURCES b)\n")
        (self.tree / "tests/fuzz/corpus/a_fuzz.txt").write_text("# a comment\n0102\nff\n")
        self.program("bin/cmake", "#!/bin/bash\n[[ -z ${BUILD_FAILS:-} ]]\n")
        for name in ("a_fuzz", "b_fuzz"):
            self.program(f"build/fuzz/tests/fuzz/{name}", TARGET)
        self.log = self.folder / "log"
        self.environment = os.environ | {"PATH": f"{self.tree}/bin:{os.environ['PATH']}", "LOG": str(self.log)}

    def program(self, name, text):
        (self.tree / name).write_text(text)
        (self.tree / name).chmod(0o755)

    def run_tool(self, *arguments, **environment):
        self.log.write_text("")
        run = subprocess.run(
            [sys.executable, "-B", str(self.tree / "tools/fuzz_all"), *arguments],
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        run.calls = self.log.read_text().splitlines()
        return run

    def state(self):
        return json.loads((self.tree / "build/fuzz-work/state.json").read_text())

    def test_every_target_gets_its_inputs_in_portions(self):
        run = self.run_tool("--runs", "1200000")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertEqual({name: mine["runs"] for name, mine in self.state().items()}, {"a_fuzz": 1200000, "b_fuzz": 1200000})
        asked = [call.split()[1] for call in run.calls if call.startswith("a_fuzz")]
        self.assertEqual(asked, ["-runs=500000", "-runs=500000", "-runs=200000"])
        self.assertIn("| `b_fuzz` | 1,200,000 | 0 |", run.stdout)

    def test_goes_on_where_it_was(self):
        self.run_tool("--runs", "1000", "a_fuzz")
        run = self.run_tool("--runs", "1500")
        self.assertEqual([call.split()[:2] for call in run.calls if call.startswith("a_fuzz")], [["a_fuzz", "-runs=500"]])
        self.assertEqual(self.run_tool("--runs", "1500").calls, [])

    def test_the_one_with_less_processor_time_is_next(self):
        state = {name: {"runs": 1, "seconds": s, "findings": 0, "portions": 1} for name, s in {"a_fuzz": 9, "b_fuzz": 0}.items()}
        (self.tree / "build/fuzz-work").mkdir()
        (self.tree / "build/fuzz-work/state.json").write_text(json.dumps(state))
        run = self.run_tool("--runs", "600001")
        self.assertEqual([call.split()[0] for call in run.calls], ["b_fuzz", "b_fuzz", "a_fuzz", "a_fuzz"])

    def test_a_finding_is_kept_and_does_not_stop_the_others(self):
        run = self.run_tool("--runs", "1000", FAILS="a_fuzz")
        self.assertEqual(run.returncode, 1)
        self.assertIn("AddressSanitizer", (self.tree / "build/fuzz-work/findings/a_fuzz/report-1.txt").read_text())
        self.assertEqual(self.state()["b_fuzz"]["runs"], 1000)
        self.assertEqual(self.state()["a_fuzz"]["findings"], 1)

    def test_a_target_that_runs_nothing_is_an_error(self):
        run = self.run_tool("--runs", "10", EMPTY="b_fuzz")
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("b_fuzz ran nothing", run.stderr)

    def test_a_build_that_fails_is_an_error(self):
        run = self.run_tool("--runs", "10", BUILD_FAILS="yes")
        self.assertNotEqual(run.returncode, 0)
        self.assertEqual(run.calls, [])

    def test_two_at_once_run_different_targets(self):
        run = self.run_tool("--runs", "1200000", "--at-once", "2")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertEqual({name: mine["runs"] for name, mine in self.state().items()}, {"a_fuzz": 1200000, "b_fuzz": 1200000})
        self.assertEqual(len(run.calls), 6)

    def start_with_slow_target(self):
        tool = subprocess.Popen(
            [sys.executable, "-B", str(self.tree / "tools/fuzz_all"), "--runs", "1000"],
            env=self.environment | {"SLOW": "a_fuzz"},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(tool.wait)
        self.addCleanup(tool.terminate)
        deadline = time.monotonic() + 300
        while not Path(f"{self.log}.slow").exists() and time.monotonic() < deadline:
            time.sleep(0.02)  # sleeps: between two looks at a file of another process
        return tool

    def test_a_second_one_leaves_the_target_in_work_alone_and_adds_to_what_is_counted(self):
        first = self.start_with_slow_target()
        second = self.run_tool("--runs", "1000", "b_fuzz")
        self.assertEqual([call.split()[0] for call in second.calls], ["b_fuzz"])
        first.terminate()
        first.communicate(timeout=300)
        self.assertEqual({name: mine["runs"] for name, mine in self.state().items()}, {"a_fuzz": 7, "b_fuzz": 1000})

    def test_what_was_run_before_it_was_stopped_counts(self):
        tool = self.start_with_slow_target()
        tool.terminate()
        self.assertIn("stopped; the same command goes on from here", tool.communicate(timeout=300)[0])
        self.assertEqual([(mine["runs"], mine["findings"]) for mine in self.state().values()], [(7, 0)])

    def test_portions_have_inputs_of_different_lengths(self):
        run = self.run_tool("--runs", "2000000", "a_fuzz")
        lengths = {word for call in run.calls for word in call.split() if word.startswith("-max_len=")}
        self.assertEqual(len(lengths), 4)

    def test_minimise_writes_short_inputs_as_text(self):
        reached = self.tree / "build/fuzz-work/corpus/a_fuzz"
        reached.mkdir(parents=True)
        (reached / "x").write_bytes(b"\x03" * 5000)  # longer than what goes into the tests
        (reached / "y").write_bytes(b"\x00\x0a")
        run = self.run_tool("--minimise", "a_fuzz")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        lines = (self.tree / "tests/fuzz/corpus/a_fuzz.txt").read_text().splitlines()
        self.assertTrue(lines[0].startswith("# "))
        self.assertEqual(lines[1:], ["ff", "000a", "0102"])

    def test_minimise_keeps_the_shortest_when_there_is_no_room(self):
        reached = self.tree / "build/fuzz-work/corpus/b_fuzz"
        reached.mkdir(parents=True)
        for number in range(1, 9):
            (reached / str(number)).write_bytes(bytes([number]) * 500 * number)
        self.run_tool("--minimise", "b_fuzz")
        lines = (self.tree / "tests/fuzz/corpus/b_fuzz.txt").read_text().splitlines()[1:]
        self.assertEqual([len(line) // 2 for line in lines], [500, 1000, 1500, 2000, 2500])

    def test_names_an_unknown_target(self):
        run = self.run_tool("c_fuzz")
        self.assertEqual(run.returncode, 2)
        self.assertIn("there is no target c_fuzz; there are a_fuzz, b_fuzz", run.stderr)


if __name__ == "__main__":
    unittest.main()
