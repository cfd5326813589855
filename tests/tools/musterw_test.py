"""Tests of musterw with stand-ins for apt, CMake and CTest: what it installs, when it configures, what it passes on.

The wrapper runs from a copy in a temporary folder with a PATH that holds the stand-ins and the few tools it uses, so
that nothing is installed or built. Each stand-in writes its name and arguments to one log.
"""

import os
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TOOLS = "bash dirname readlink realpath grep awk nproc flock mkdir rm env cat chmod true".split()

LOG = 'printf "%s\\n" "${0##*/} $*" >>"$LOG"\n'
STAND_INS = {
    # Knows the packages in $INSTALLED, and like the real one fails when it does not know a name.
    "dpkg-query": 'for p in "$@"; do case " $INSTALLED " in *" $p "*) echo "installed $p";; esac; done\nexit 1\n',
    "apt-get": LOG + 'case " $* " in *" ${APT_FAILS:-none} "*) exit 100;; esac\n',
    # Configuring makes the tree, building makes the program; -n answers as ninja does.
    "cmake": LOG
    + """
case " $* " in
  *" --preset "*)
    [[ ${CMAKE_FAILS:-} != configure ]] || exit 1
    mkdir -p "$TREE/build/release/muster/cli"
    echo ninja >"$TREE/build/release/build.ninja"
    tests=OFF; [[ $* != *MUSTER_TESTS=ON* ]] || tests=ON
    printf 'MUSTER_TESTS:BOOL=%s\\nTorch_DIR:PATH=%s\\n' $tests "${TORCH_FOUND:-/usr/lib/cmake/Torch}" \\
      >"$TREE/build/release/CMakeCache.txt" ;;
  *" -n "*)
    if [[ -x $TREE/build/release/muster/cli/muster ]]; then echo 'ninja: no work to do.'; else echo '[1/1] link'; fi ;;
  *" --build "*)
    echo '[1/1] linking'
    [[ ${CMAKE_FAILS:-} != build ]] || exit 1
    cat >"$TREE/build/release/muster/cli/muster" <<'END'
#!/bin/bash
printf 'in %s:' "$PWD"; printf ' <%s>' "$@"; echo; exit "${PROGRAM_EXIT:-0}"
END
    chmod +x "$TREE/build/release/muster/cli/muster" ;;
esac
""",
    "ctest": LOG + 'echo "parallel $CTEST_PARALLEL_LEVEL in $PWD"; exit "${CTEST_EXIT:-0}"\n',
}


class Musterw(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="muster-wrapper-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        self.tree = self.folder / "a clone"
        self.tree.mkdir()
        shutil.copy(ROOT / "musterw", self.tree / "musterw")
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        for name, body in STAND_INS.items():
            self.stand_in(name, body)
        self.log = self.folder / "log"
        self.environment = {"PATH": str(self.bin), "LOG": str(self.log), "TREE": str(self.tree)}
        self.environment["INSTALLED"] = " ".join(self.packages("build") + self.packages("test"))
        if os.geteuid() != 0:  # the wrapper then asks sudo
            self.stand_in("sudo", 'exec "$@"\n')

    def stand_in(self, name, body):
        path = self.bin / name
        path.write_text("#!/bin/bash\n" + body)
        path.chmod(0o755)

    def packages(self, kind):
        text = (ROOT / "musterw").read_text()
        return text.split(f"{kind}_packages=(")[1].split(")")[0].split()

    def run_wrapper(self, *arguments, cwd=None, wrapper=None, **environment):
        """Runs the wrapper; returns the finished process with .calls, the stand-ins' log of this run."""
        self.log.write_text("")
        run = subprocess.run(
            [str(wrapper or self.tree / "musterw"), *arguments],
            cwd=cwd or self.tree,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        run.calls = self.log.read_text().splitlines()
        return run

    def calls_of(self, run, name):
        return [call for call in run.calls if call.startswith(name + " ")]

    def configured(self, run):
        return [call for call in self.calls_of(run, "cmake") if "--preset" in call]

    def test_builds_and_passes_arguments_on_unchanged(self):
        run = self.run_wrapper("train", "my job.toml", "--set", "job.seed=1", "")
        self.assertEqual(run.stdout, f"in {self.tree}: <train> <my job.toml> <--set> <job.seed=1> <>\n")
        self.assertEqual(run.returncode, 0)
        self.assertIn("[1/1] linking", run.stderr)
        self.assertRegex(run.stderr, r"musterw: built in \d+ s\n$")

    def test_says_nothing_when_there_is_nothing_to_do(self):
        self.run_wrapper("info")
        run = self.run_wrapper("info")
        self.assertEqual(run.stderr, "")
        self.assertEqual(self.configured(run), [])
        self.assertEqual(self.calls_of(run, "apt-get"), [])

    def test_keeps_the_callers_directory_when_called_through_a_link(self):
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        link = elsewhere / "link"
        link.symlink_to(self.tree / "musterw")
        run = self.run_wrapper("check", "job.toml", cwd=elsewhere, wrapper=link)
        self.assertEqual(run.stdout, f"in {elsewhere}: <check> <job.toml>\n")

    def test_passes_on_the_programs_exit_code(self):
        self.assertEqual(self.run_wrapper("train", PROGRAM_EXIT="130").returncode, 130)

    def test_builds_no_tests_for_other_commands(self):
        run = self.run_wrapper("info", INSTALLED=" ".join(self.packages("build")))
        self.assertIn("-DMUSTER_TESTS=OFF", self.configured(run)[0])
        self.assertEqual(self.calls_of(run, "apt-get"), [])
        self.assertTrue(any("--target muster" in call for call in run.calls))

    def test_installs_the_program_and_the_library_where_it_is_told(self):
        for where in ["my prefix"], ["--prefix", "my prefix"], ["--prefix=my prefix"]:
            run = self.run_wrapper("install", *where)
            self.assertEqual(run.returncode, 0)
            self.assertTrue(any("--target muster muster_shared" in call for call in run.calls))
            self.assertIn(f"cmake --install {self.tree}/build/release --prefix {self.tree}/my prefix", run.calls)
        for wrong in [], ["--prefix"], ["--prefix="], ["there", "--prefix"], ["--prefix", "a", "b"], ["--help"]:
            run = self.run_wrapper("install", *wrong)
            self.assertEqual((run.returncode, self.calls_of(run, "cmake")), (1, []))
            self.assertIn("./musterw install PREFIX", run.stderr)

    def test_installs_only_what_is_missing(self):
        installed = [name for name in self.packages("build") if name not in ("cmake", "libtorch-dev")]
        run = self.run_wrapper("info", INSTALLED=" ".join(installed))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(
            self.calls_of(run, "apt-get"),
            ["apt-get update -q", "apt-get install -q -y --no-install-recommends cmake libtorch-dev"],
        )
        self.assertIn("cmake libtorch-dev", run.stderr)
        self.assertRegex(run.stderr, r"(?m)^musterw: installed in \d+ s$")

    def test_stops_when_installing_fails(self):
        run = self.run_wrapper("info", INSTALLED="cmake", APT_FAILS="install")
        self.assertEqual((run.returncode, run.stdout), (1, ""))
        self.assertIn("musterw: apt-get install failed. Install by hand: apt-get install g++", run.stderr)

    def test_installs_though_the_package_lists_cannot_be_updated(self):
        run = self.run_wrapper("info", INSTALLED="cmake", APT_FAILS="update")
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_installs_nothing_when_told_not_to(self):
        run = self.run_wrapper("info", INSTALLED="cmake", MUSTER_INSTALL="no")
        self.assertEqual((run.returncode, self.calls_of(run, "apt-get")), (0, []))
        self.assertIn("libtorch-dev", run.stderr)

    def test_without_apt_says_what_is_needed_and_goes_on(self):
        for name in ("apt-get", "dpkg-query"):
            (self.bin / name).unlink()
        run = self.run_wrapper("info")
        self.assertEqual(run.returncode, 0, run.stderr)
        for package in self.packages("build"):
            self.assertIn(package, run.stderr)
        self.assertEqual(self.run_wrapper("info").stderr, "")

    def test_without_cmake_says_so(self):
        (self.bin / "cmake").unlink()
        run = self.run_wrapper("info")
        self.assertEqual((run.returncode, run.stderr), (1, "musterw: cmake is not installed\n"))

    def test_stops_when_configuring_fails_and_tries_again(self):
        run = self.run_wrapper("info", CMAKE_FAILS="configure")
        self.assertEqual((run.returncode, run.stdout), (1, ""))
        self.assertIn("CMake failed", run.stderr)
        self.assertEqual(self.run_wrapper("info").returncode, 0)

    def test_configures_again_after_other_definitions_failed(self):
        self.run_wrapper("info")
        self.assertEqual(self.run_wrapper("-DA=1", "info", CMAKE_FAILS="configure").returncode, 1)
        self.assertEqual(len(self.configured(self.run_wrapper("info"))), 1)

    def test_stops_when_the_build_fails(self):
        run = self.run_wrapper("info", CMAKE_FAILS="build")
        self.assertEqual((run.returncode, run.stdout), (1, ""))
        self.assertIn("the build failed", run.stderr)

    def test_configures_again_only_for_other_definitions(self):
        first = self.run_wrapper("-DA=1", "-DB=2 3", "info")
        self.assertIn("-DA=1 -DB=2 3", self.configured(first)[0])
        self.assertIn("<info>", first.stdout)
        self.assertNotIn("-DA", first.stdout)
        self.assertEqual(self.configured(self.run_wrapper("-DA=1", "-DB=2 3", "info")), [])
        self.assertEqual(self.configured(self.run_wrapper("info")), [])
        self.assertEqual(len(self.configured(self.run_wrapper("-DA=2", "info"))), 1)

    def test_does_not_install_torch_beside_the_users_own(self):
        installed = " ".join(name for name in self.packages("build") if name != "libtorch-dev")
        own = "/opt/libtorch/share/cmake/Torch"
        for arguments in (["-DTorch_DIR=" + own, "info"], ["info"]):
            run = self.run_wrapper(*arguments, INSTALLED=installed, TORCH_FOUND=own)
            self.assertEqual((run.returncode, self.calls_of(run, "apt-get")), (0, []))

    def test_runs_every_test_and_passes_on_the_status(self):
        run = self.run_wrapper("test", "-R", "clock", cwd=self.folder, CTEST_EXIT="8")
        self.assertEqual(run.returncode, 8)
        at_once = min(max(2 * len(os.sched_getaffinity(0)), 4), 16)
        self.assertEqual(run.stdout, f"parallel {at_once} in {self.tree}\n")
        self.assertIn("-DMUSTER_TESTS=ON", self.configured(run)[0])
        self.assertTrue(any("--target all" in call for call in run.calls))
        self.assertEqual(self.calls_of(run, "ctest"), ["ctest --preset release -R clock"])

    def test_installs_what_tests_need(self):
        run = self.run_wrapper("test", INSTALLED=" ".join(self.packages("build")))
        self.assertIn(" ".join(self.packages("test")), self.calls_of(run, "apt-get")[-1])

    def with_gates(self, code=0):
        gates = self.tree / "tools/gates"
        gates.parent.mkdir(exist_ok=True)
        gates.write_text(f"#!/bin/bash\n{LOG}exit {code}\n")
        gates.chmod(0o755)

    def test_runs_gates_only_when_asked_and_after_the_tests(self):
        self.with_gates()
        for flag, call in {"--gates": "gates ", "--all-gates": "gates --all"}.items():
            run = self.run_wrapper("test", flag, "-R", "clock")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(run.calls[-2:], ["ctest --preset release -R clock", call])
        self.assertEqual(self.calls_of(self.run_wrapper("test"), "gates"), [])

    def test_passes_on_the_gates_status_and_runs_none_after_tests_that_fail(self):
        self.with_gates(code=3)
        self.assertEqual(self.run_wrapper("test", "--gates").returncode, 3)
        run = self.run_wrapper("test", "--all-gates", CTEST_EXIT="8")
        self.assertEqual((run.returncode, self.calls_of(run, "gates")), (8, []))

    def test_installs_what_gates_need_for_gates_alone(self):
        self.with_gates()
        without = self.environment["INSTALLED"]
        self.assertEqual(self.calls_of(self.run_wrapper("test", INSTALLED=without), "apt-get"), [])
        run = self.run_wrapper("test", "--gates", INSTALLED=without)
        self.assertIn(" ".join(self.packages("gate")), self.calls_of(run, "apt-get")[-1])

    def test_lets_the_environment_say_how_many_tests_run_at_once(self):
        self.assertIn("parallel 7", self.run_wrapper("test", CTEST_PARALLEL_LEVEL="7").stdout)

    def test_does_not_run_tests_of_a_build_that_failed(self):
        run = self.run_wrapper("test", CMAKE_FAILS="build")
        self.assertEqual((run.returncode, self.calls_of(run, "ctest")), (1, []))

    def test_adds_tests_to_a_tree_without_them_and_keeps_them(self):
        self.run_wrapper("info")
        self.assertEqual(len(self.configured(self.run_wrapper("test"))), 1)
        self.assertEqual(self.configured(self.run_wrapper("info")), [])
        self.assertIn("MUSTER_TESTS=ON", self.configured(self.run_wrapper("-DA=1", "info"))[0])

    def test_adding_tests_keeps_the_definitions(self):
        # The preset sets flags of its own: a tree configured without the user's would be compiled again, all of it.
        self.run_wrapper("-DA=1", "-DB=2 3", "info")
        self.assertIn("MUSTER_TESTS=ON -DA=1 -DB=2 3", self.configured(self.run_wrapper("test"))[0])

    def somebody_waits_for_lock(self):
        """The kernel lists who is blocked on a lock with an arrow, and the lock by the file's inode."""
        inode = (self.tree / "build/release/musterw.lock").stat().st_ino
        return any("-> FLOCK" in line and f":{inode} " in line for line in open("/proc/locks"))

    def test_waits_for_another_wrapper_in_the_same_tree(self):
        self.run_wrapper("info")
        holder = subprocess.Popen(
            [shutil.which("flock"), str(self.tree / "build/release/musterw.lock"), "bash", "-c", "echo locked; read"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.assertEqual(holder.stdout.readline(), "locked\n")
        waiting = subprocess.Popen(
            [str(self.tree / "musterw"), "info"],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.assertIn("waiting for another musterw", waiting.stderr.readline())
        while not self.somebody_waits_for_lock():
            self.assertIsNone(waiting.poll(), "the wrapper did not wait")
            time.sleep(0.01)  # sleeps: polls, until the wrapper waits or has ended
        holder.communicate("\n", timeout=60)
        out, _ = waiting.communicate(timeout=60)
        self.assertIn("<info>", out)

    def test_releases_the_lock_before_the_program_runs(self):
        self.run_wrapper("info")
        program = self.tree / "build/release/muster/cli/muster"
        program.write_text("#!/bin/bash\nflock --nonblock build/release/musterw.lock true && echo free\n")
        self.assertEqual(self.run_wrapper("info").stdout, "free\n")


if __name__ == "__main__":
    unittest.main()
