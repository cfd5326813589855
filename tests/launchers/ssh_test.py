#!/usr/bin/env python3
"""--hosts on machines that are network namespaces with a real sshd: aliases, a host file, what is missing, losses.

usage: ssh_test.py MUSTER
"""
import os
import subprocess
import sys
import tempfile
import unittest

import launchers

MUSTER = os.path.abspath(sys.argv.pop(1))
TRAIN = [MUSTER, "train", "job.toml", "--json"]


class Ssh(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        context = launchers.ssh_hosts()
        cls.hosts, cls.env = context.__enter__()
        cls.addClassCleanup(context.__exit__, None, None, None)
        cls.temporary = tempfile.TemporaryDirectory(prefix="muster-ssh-job-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = cls.temporary.name
        launchers.write_job(cls.folder)
        cls.expected = launchers.weights(launchers.finish(TRAIN, cls.folder).stdout)

    def on_first(self, command, code=0):
        return launchers.finish(self.hosts[0].words(command), self.folder, self.env, code)

    def test_aliases_and_workers(self):
        done = self.on_first(TRAIN + ["--hosts", "10.93.72.1:1,two:2"])
        self.assertEqual(launchers.weights(done.stdout), self.expected)
        self.assertIn("go over eth0 (10.93.72.1), without encryption", done.stderr)
        self.assertIn("with 2 workers", done.stderr)

    def test_a_host_file(self):
        with open(os.path.join(self.folder, "hosts"), "w") as file:
            file.write("# both\n10.93.72.1 slots=1\n10.93.72.2\n")
        done = self.on_first(TRAIN + ["--host-file", "hosts"])
        self.assertEqual(launchers.weights(done.stdout), self.expected)

    def test_this_machine_has_to_be_among_them(self):
        done = self.on_first(TRAIN + ["--hosts", "two:1"], code=2)
        self.assertIn("not among the hosts", done.stderr)

    def test_a_host_that_cannot_be_reached_ends_the_job(self):
        done = self.on_first(TRAIN + ["--hosts", "10.93.72.1,10.93.72.77", "--interface", "eth0"], code=1)
        self.assertIn("10.93.72.77: ssh could not connect", done.stderr)

    def test_a_host_without_muster(self):
        done = self.on_first(TRAIN + ["--hosts", "10.93.72.1,two", "--remote-muster", "/no/such/muster"], code=2)
        self.assertIn("has no muster", done.stderr)

    def test_the_doctor_examines_both(self):
        done = self.on_first([MUSTER, "doctor", "job.toml", "--hosts", "10.93.72.1,two", "--json"])
        report = launchers.json.loads(done.stdout)
        self.assertEqual([host["host"] for host in report["hosts"]], ["10.93.72.1", "two"], "as they were typed")
        self.assertEqual([link["failure"] for link in report["links"]], ["", ""])
        done = self.on_first([MUSTER, "doctor", "--hosts", "10.93.72.1,10.93.72.77", "--interface", "eth0"], code=1)
        self.assertIn("10.93.72.77: ssh could not connect", done.stderr)

    def test_a_configuration_that_never_ends_is_given_up(self):
        with open(os.path.join(self.folder, "slow"), "w") as file:
            file.write("#!/bin/sh\nexec sleep 60\n")
        os.chmod(os.path.join(self.folder, "slow"), 0o755)
        os.makedirs(os.path.join(self.folder, "slow-bin"), exist_ok=True)
        os.replace(os.path.join(self.folder, "slow"), os.path.join(self.folder, "slow-bin", "ssh"))
        env = {**self.env, "PATH": os.path.join(self.folder, "slow-bin") + ":" + self.env["PATH"]}
        done = launchers.finish(self.hosts[0].words(TRAIN + ["--hosts", "10.93.72.1,two"]), self.folder, env, 1)
        self.assertIn("has not read its configuration", done.stderr)

    def bundle(self):
        """What stands for one of muster bundle, with checksums; its program says that it is the bundle's."""
        bundle = os.path.join(self.folder, "bundle")
        os.makedirs(os.path.join(bundle, "bin"), exist_ok=True)
        program = os.path.join(bundle, "bin", "muster")
        with open(program, "w") as file:
            file.write(f'#!/bin/sh\necho "from a bundle" >&2\nexec {MUSTER} "$@"\n')
        os.chmod(program, 0o755)
        launchers.finish(["sh", "-c", "sha256sum bin/muster > SHA256SUMS"], bundle)
        return bundle, program

    def from_first_alone(self, bundle, code=0):
        """Trains by a program that lies where no other host has one: at a mount that this process alone sees."""
        own = os.path.join(self.folder, "own")
        os.makedirs(own, exist_ok=True)
        script = f'mount --bind {os.path.dirname(MUSTER)} {own} && exec "$@"'
        return self.on_first(["unshare", "--mount", "sh", "-c", script, "sh", os.path.join(own, "muster"), *TRAIN[1:],
                              "--hosts", "10.93.72.1,two", "--bundle", bundle], code)

    def test_a_bundle_is_copied_where_there_is_no_muster(self):
        cache = os.path.expanduser("~/.cache/muster")
        before = set(os.listdir(cache)) if os.path.isdir(cache) else set()

        def copied():
            # The lock of those who copy stays.
            return set(os.listdir(cache)) - before - {".lock"} if os.path.isdir(cache) else set()

        def clear():
            for name in copied():
                subprocess.run(["rm", "-rf", os.path.join(cache, name)], check=True)

        self.addCleanup(clear)
        bundle, program = self.bundle()
        # A file that was damaged on the way is noticed there, and nothing of it stays.
        with open(program, "a") as file:
            file.write("damaged\n")
        self.assertIn("could not be copied to host two", self.from_first_alone(bundle, code=1).stderr)
        self.assertEqual(copied(), set())
        bundle, program = self.bundle()
        done = self.from_first_alone(bundle)
        self.assertEqual(launchers.weights(done.stdout), self.expected)
        self.assertIn("host two has no muster: the bundle is copied there", done.stderr)
        self.assertIn("from a bundle", done.stderr)
        self.assertEqual(len(copied()), 1)
        done = self.from_first_alone(bundle)
        self.assertIn("from a bundle", done.stderr)
        self.assertNotIn("is copied there", done.stderr)
        # One that was damaged there since is no bundle, and is brought again.
        there, = copied()
        with open(os.path.join(cache, there, "bin", "muster"), "a") as file:
            file.write("damaged\n")
        self.assertIn("the bundle is copied there", self.from_first_alone(bundle).stderr)
        self.assertNotIn("is copied there", self.from_first_alone(bundle).stderr)
        clear()
        # Where there is a muster it stays out of it.
        done = self.on_first(TRAIN + ["--hosts", "10.93.72.1,two", "--bundle", bundle])
        self.assertNotIn("from a bundle", done.stderr)
        self.assertEqual(copied(), set())

    def test_what_is_no_bundle_is_refused(self):
        for bundle, words in ((self.folder, "is no bundle"), ("/no/such/bundle", "no such bundle")):
            done = self.on_first(TRAIN + ["--hosts", "10.93.72.1,two", "--bundle", bundle], code=2)
            self.assertIn(words, done.stderr)

    def test_nothing_is_left_on_the_other_host(self):
        before = set(os.listdir("/tmp"))
        self.on_first(TRAIN + ["--hosts", "10.93.72.1,two"])
        # Other tests have folders there, too, of other names or for a while.
        def left():
            new = set(os.listdir("/tmp")) - before
            return [name for name in new if name.startswith("muster-trust") or
                    name.startswith("tmp.") and os.path.exists(os.path.join("/tmp", name, "cert.key"))]
        launchers.wait_until(lambda: not left(), "keys to go", 60)


if __name__ == "__main__":
    unittest.main(verbosity=2)
