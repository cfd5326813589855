#!/usr/bin/env python3
"""The same job file by every way of starting it gives the same bits: each row of the table in docs/launching.md.

usage: bits_test.py MUSTER PROGRAM      PROGRAM: examples/own_model.cpp, for muster run
"""
import glob
import os
import subprocess
import sys
import tempfile
import unittest

import launchers

MUSTER, PROGRAM = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
TRAIN = [MUSTER, "train", "job.toml", "--json"]
RUN = [MUSTER, "run", "-n", "1", "--host-seconds", "60", "--liveness", "60"]
UNIT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/systemd/muster-agent.service")


class SameBits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="muster-bits-")
        cls.folder = cls.temporary.name
        cls.addClassCleanup(cls.temporary.cleanup)
        launchers.write_job(cls.folder)
        cls.expected = launchers.weights(launchers.finish(TRAIN, cls.folder).stdout)
        launchers.finish(RUN + [PROGRAM], cls.folder)
        cls.expected_files = cls.files_of_program()

    def expect_same(self, output):
        self.assertEqual(launchers.weights(output), self.expected)

    @classmethod
    def files_of_program(cls):
        """What the program has kept, which is taken away for the next one."""
        files = {}
        for path in glob.glob(os.path.join(cls.folder, "spirals", "*", "model.safetensors")):
            with open(path, "rb") as file:
                files[os.path.relpath(path, cls.folder)] = file.read()
        assert files
        subprocess.run(["rm", "-r", os.path.join(cls.folder, "spirals")], check=True)
        return files

    def expect_same_program(self, words, env=None, flags=()):
        done = launchers.finish(words + RUN + [*flags, PROGRAM], self.folder, env)
        self.assertEqual(self.files_of_program(), self.expected_files, done.stderr)
        return done

    def by_variables(self, second=None, **variables):
        """Two processes on this machine, as two nodes; `second`: more variables of node 1. Gives what both have
        printed."""
        nodes = []
        for node in range(2):
            env = {**os.environ, "MUSTER_NODES": "2", "MUSTER_NODE": str(node), "MUSTER_INTERFACE": "lo", **variables,
                   **(second or {} if node == 1 else {})}
            nodes.append(subprocess.Popen(TRAIN, cwd=self.folder, env=env, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True))
        try:
            ends = [node.communicate(timeout=120) for node in nodes]
        finally:
            for node in nodes:
                node.kill()
        return [node.returncode for node in nodes], ends

    def test_the_way_to_the_first_step_is_measured(self):
        command = " ".join(TRAIN)
        done = launchers.finish([MUSTER, "bench", "start", "--rounds", "1", "--json", command, command], self.folder)
        rows = [launchers.json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([row["command"] for row in rows], [command, command])
        self.assertGreater(rows[0]["seconds"], 0)
        self.assertIn("over_first", rows[1])
        done = launchers.finish([MUSTER, "bench", "start", "echo nothing"], self.folder, code=2)
        self.assertIn("without the row of a step", done.stderr)

    def test_several_workers(self):
        self.expect_same(launchers.finish(TRAIN + ["--set", "parallel.workers=3"], self.folder).stdout)

    def test_by_hand_with_a_folder(self):
        codes, ends = self.by_variables(MUSTER_SHARED=self.folder, MUSTER_MEETING="by-hand")
        self.assertEqual(codes, [0, 0], ends)
        self.expect_same(ends[0][0])

    def test_other_kernels_on_a_node_are_warned_of(self):
        env = {**os.environ, "OPENBLAS_CORETYPE": "Nehalem"}
        info = launchers.json.loads(launchers.finish([MUSTER, "info", "--json"], self.folder, env).stdout)
        if info["kernels"]["blas"] != "Nehalem":
            self.skipTest("the BLAS is not an OpenBLAS that can be told its kernels")
        codes, ends = self.by_variables({"OPENBLAS_CORETYPE": "Prescott"}, MUSTER_SHARED=self.folder,
                                        MUSTER_MEETING="kernels", OPENBLAS_CORETYPE="Nehalem")
        self.assertEqual(codes, [0, 0], ends)
        self.assertIn("the hosts do not compute with the same kernels", ends[0][1])
        self.assertIn("OPENBLAS_CORETYPE=Prescott on all hosts", ends[0][1])

    def test_by_hand_with_an_address_and_certificates(self):
        launchers.finish([MUSTER, "certs", "create", "certs"], self.folder)
        codes, ends = self.by_variables(MUSTER_COORDINATOR="127.0.0.1:17431", MUSTER_MEETING="by-address",
                                        MUSTER_CERTS=os.path.join(self.folder, "certs"))
        self.assertEqual(codes, [0, 0], ends)
        self.expect_same(ends[0][0])

    def test_by_hand_and_nowhere_to_meet(self):
        codes, ends = self.by_variables()
        self.assertEqual(codes, [2, 2], ends)
        self.assertIn("where the nodes meet", ends[1][1])

    def test_listen_and_agent(self):
        agent = subprocess.Popen([MUSTER, "agent", "--join", "127.0.0.1:17432"], cwd=self.folder, stderr=subprocess.PIPE)
        try:
            done = launchers.finish(TRAIN + ["--listen", "127.0.0.1:17432", "--set", "parallel.hosts=2"], self.folder)
            self.expect_same(done.stdout)
            self.assertEqual(agent.wait(60), 0, agent.stderr.read())
        finally:
            agent.kill()
            agent.stderr.close()

    def test_mpirun(self):
        with launchers.mpi_hosts() as mpirun:
            done = launchers.finish(mpirun + TRAIN + ["--interface", "lo"], self.folder)
            self.expect_same(done.stdout)
            self.assertIn("mpirun: node 0 of 2", done.stderr)
            self.expect_same_program(mpirun, flags=["--interface", "lo"])

    def test_mpi_moves_the_sums_where_the_job_says_so(self):
        more = ["--interface", "lo", "--set", "parallel.network=mpi"]
        with launchers.mpi_hosts() as mpirun:
            done = launchers.finish(mpirun + TRAIN + more, self.folder)
            self.expect_same(done.stdout)
            self.assertIn("over MPI", done.stderr)
        # One host sends nothing. For several there is nobody to be a rank of.
        self.expect_same(launchers.finish(TRAIN + more[2:], self.folder).stdout)
        several = TRAIN + ["--listen", "127.0.0.1:0", "--set", "parallel.hosts=2", *more[2:]]
        self.assertIn("no MPI has started this process", launchers.finish(several, self.folder, code=2).stderr)
        done = launchers.finish(several + ["--set", "parallel.workers=2"], self.folder, code=2)
        self.assertIn("one process on each host", done.stderr)

    def test_a_launcher_that_has_pmix_alone(self):
        # What Open MPI adds to PMIx is taken away; the server that answers is its own.
        alone = ["env", "-u", "OMPI_COMM_WORLD_RANK", "-u", "OMPI_COMM_WORLD_SIZE"]
        with launchers.mpi_hosts() as mpirun:
            done = launchers.finish(mpirun + alone + TRAIN + ["--interface", "lo"], self.folder)
            self.expect_same(done.stdout)
            self.assertIn("PMIx: node 0 of 2", done.stderr)
        done = launchers.finish(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"] + alone + TRAIN,
                                self.folder, code=2)
        self.assertIn("started 2 processes on this machine", done.stderr)

    def test_mpirun_with_two_processes_a_node(self):
        launchers.need("mpirun")
        done = launchers.finish(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"] + TRAIN, self.folder,
                                code=2)
        self.assertIn("started 2 processes on this machine", done.stderr)


    def test_the_systemd_unit_is_one_and_its_command_too(self):
        with open(UNIT) as file:
            text = file.read()
        self.assertIn("muster agent --join ${MUSTER_JOIN} --certs", text)
        for flag in ("--join", "--certs", "--wait"):
            self.assertIn(flag, launchers.finish([MUSTER, "agent", "--help"], self.folder).stdout)
        if launchers.shutil.which("systemd-analyze") is None:
            self.skipTest("there is no systemd-analyze")
        copy = os.path.join(self.folder, "muster-agent.service")
        with open(copy, "w") as file:
            file.write(text.replace("/usr/local/bin/muster", MUSTER))
        launchers.finish(["systemd-analyze", "verify", "--man=no", copy], self.folder)

    def test_slurm(self):
        with launchers.slurm() as env:
            srun = ["srun", "-N", "2", "--ntasks-per-node=1"]
            done = launchers.finish(srun + TRAIN, self.folder, env)
            self.expect_same(done.stdout)
            self.expect_same_program(srun, env)
            if "pmix" in launchers.finish(["srun", "--mpi=list"], self.folder, env).stderr:
                done = launchers.finish(srun + ["--mpi=pmix"] + TRAIN + ["--set", "parallel.network=mpi"], self.folder,
                                        env)
                self.expect_same(done.stdout)

    def test_ssh(self):
        with launchers.ssh_hosts() as (hosts, env):
            names = ",".join(f"{host.address}:1" for host in hosts)
            done = launchers.finish(hosts[0].words(TRAIN + ["--hosts", names]), self.folder, env)
            self.expect_same(done.stdout)
            self.expect_same_program(hosts[0].words([]), env, ["--hosts", names])


if __name__ == "__main__":
    unittest.main(verbosity=2)
