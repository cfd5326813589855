"""Tests of tools/try_debian with stand-ins for what makes a chroot: what it takes over from the host, runs and reports.

The script runs from a small repository in a temporary folder. Each stand-in writes its name and arguments to one log;
that of chroot answers for ./musterw.
"""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

LOG = 'printf "%s\\n" "${0##*/} $*" >>"$LOG"\n'
STAND_INS = {
    "apt-get": 'echo "Debian main https://mirror.example/debian/"; echo "Debian main https://other.example/debian/"\n',
    "apt-config": "echo 'Acquire::http::Proxy \"http://proxy.example:3128\";'; echo 'APT::Architecture \"amd64\";'\n",
    "debootstrap": LOG + 'while [[ $1 == --* ]]; do shift; done\nmkdir -p "$2/etc/apt/apt.conf.d" "$2/root" "$2/usr/local/share/ca-certificates"\n'
    "echo 13 >$2/etc/debian_version\n",
    "mount": LOG,
    "unshare": 'while [[ $1 == --* || $1 == private ]]; do shift; done\nexec "$@"\n',
    "chroot": LOG
    + """
case " $* " in
  *" musterw "*)
    cat "$1/etc/apt/apt.conf.d/50host" >"$APT_SETTINGS"
    echo 'musterw: installed in 0 s' >&2
    echo 'musterw: built in 0 s' >&2
    [[ $* != *"musterw $FAILS"* ]] || exit 8 ;;
  *dumpfullversion*) echo 14.2.0 ;;
  *libtorch-dev*) echo 2.6.0 ;;
esac
""",
}


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("git"), "needs root and git, as the script does")
class TryDebian(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="muster-try-debian-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        tree = self.folder / "tree"
        (tree / "tools").mkdir(parents=True)
        self.script = tree / "tools/try_debian"
        shutil.copy(ROOT / "tools/try_debian", self.script)
        git = ["git", "-C", str(tree), "-c", "user.name=a", "-c", "user.email=a@example.com"]
        for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
            subprocess.run(git + command, check=True)
        bin_folder = self.folder / "bin"
        bin_folder.mkdir()
        for name, body in STAND_INS.items():
            (bin_folder / name).write_text("#!/bin/bash\n" + body)
            (bin_folder / name).chmod(0o755)
        self.log = self.folder / "log"
        self.settings = self.folder / "settings"
        self.environment = os.environ | {
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "LOG": str(self.log),
            "APT_SETTINGS": str(self.settings),
            "FAILS": "nothing",
        }

    def run_script(self, *arguments, **environment):
        self.log.write_text("")
        run = subprocess.run(
            [str(self.script), *arguments],
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        run.calls = self.log.read_text().splitlines()
        run.folders = [call.split()[4] for call in run.calls if call.startswith("debootstrap ")]
        return run

    def commands(self, run):
        return [call.split(" musterw ", 1)[1] for call in run.calls if " musterw " in call]

    def test_trains_and_tests_and_says_how_long_it_took(self):
        run = self.run_script("trixie")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(self.commands(run), ["train examples/fashion.toml", "test"])
        for command in ("train examples/fashion.toml", "test"):
            self.assertRegex(run.stdout, rf"trixie: ./musterw {command}: installed in 0 s, built in 0 s, the rest \d+ s")
        self.assertIn("trixie: g++ 14.2.0, libtorch-dev 2.6.0", run.stdout)

    def test_takes_mirror_and_settings_from_the_host(self):
        run = self.run_script("trixie", "train")
        made = [call for call in run.calls if call.startswith("debootstrap ")]
        self.assertEqual(len(made), 1)
        self.assertIn(f"trixie {run.folders[0]} https://mirror.example/debian", made[0])
        self.assertEqual(self.settings.read_text(), 'Acquire::http::Proxy "http://proxy.example:3128";\n')

    def test_removes_a_chroot_of_its_own_and_keeps_a_given_one(self):
        self.assertFalse(Path(self.run_script("forky", "train").folders[0]).exists())
        kept = self.folder / "kept"
        self.assertEqual(self.run_script("forky", "--at", str(kept), "train").folders, [str(kept)])
        self.assertTrue((kept / "root/muster/tools/try_debian").exists())
        self.assertEqual(self.run_script("forky", "--at", str(kept), "train").folders, [])

    def test_passes_on_arguments_and_the_status(self):
        run = self.run_script("bookworm", "-DA=1", "test", "-R", "clock", FAILS="-DA=1 test")
        self.assertEqual(run.returncode, 8)
        self.assertEqual(self.commands(run), ["-DA=1 test -R clock"])
        self.assertIn("exit code 8", run.stdout)

    def test_does_not_test_what_did_not_train(self):
        run = self.run_script("bookworm", FAILS="train")
        self.assertEqual((run.returncode, len(self.commands(run))), (8, 1))

    def test_refuses_what_it_does_not_know(self):
        for arguments in ([], ["sarge"], ["trixie", "bench"], ["--at"]):
            with self.subTest(arguments=arguments):
                self.assertEqual(self.run_script(*arguments).returncode, 2)


if __name__ == "__main__":
    unittest.main()
