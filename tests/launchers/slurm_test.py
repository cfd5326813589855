#!/usr/bin/env python3
"""muster on a real Slurm of two nodes: under srun, submitted, near its time limit, preempted, started wrongly.

usage: slurm_test.py MUSTER PROGRAM      PROGRAM: examples/own_model.cpp, for muster run
"""
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

import launchers

MUSTER, PROGRAM = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
ONE_EACH = ["srun", "-N", "2", "--ntasks-per-node=1"]


def setUpModule():
    global ENV  # one Slurm for all tests
    ENV = unittest.enterModuleContext(launchers.slurm()) if hasattr(unittest, "enterModuleContext") else _enter()


def _enter():
    context = launchers.slurm()
    env = context.__enter__()
    unittest.addModuleCleanup(context.__exit__, None, None, None)
    return env


class Slurm(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="muster-slurm-job-")
        self.addCleanup(subprocess.run, ["rm", "-rf", self.folder], check=True)
        launchers.write_job(self.folder)
        # Each test has all of Slurm: what the one before has left ends with it.
        self.addCleanup(launchers.empty_slurm, ENV)

    def run_here(self, command, code=0):
        return launchers.finish(command, self.folder, ENV, code)

    def expected(self, *more):
        return launchers.weights(self.run_here([MUSTER, "train", "job.toml", "--json", "--set", "job.runs=\"alone\"",
                                                *more]).stdout)

    def log_of(self, job, name="far"):
        with open(os.path.join(self.folder, f"{name}-{job}.log")) as file:
            return file.read()

    def known_of(self, job):
        """What Slurm, the job and its nodes have said: for the message of a test that waited in vain."""
        said = [subprocess.run(words, env=ENV, check=False, capture_output=True, text=True).stdout
                for words in (["scontrol", "show", "job", job], ["sinfo", "-N", "-l"], ["squeue", "-l"])]
        said += [f"{pid} {words}: {ticks} ticks" for pid, words, ticks in launchers.processes_in(self.folder)]
        said.append("\n".join(glob.glob(os.path.join(self.folder, "runs", "**"), recursive=True, include_hidden=True)))
        logs = glob.glob(os.path.join(self.folder, "*-*.log")) + glob.glob(
            os.path.join(self.folder, "runs", "*", "log*.txt")) + glob.glob(os.path.join(
                os.path.dirname(ENV["SLURM_CONF"]), "slurm*.log"))
        for path in logs:
            with open(path, errors="replace") as file:
                said.append(f"{path}:\n" + "".join(file.readlines()[-40:]))
        return "\n".join(said)

    def moves(self, job):
        """What changes while Slurm, the job or one of its processes gets on."""
        files = [(path, os.path.getsize(path)) for path in glob.glob(os.path.join(self.folder, "*.log"))]
        return self.state(job), files, sum(ticks for _, _, ticks in launchers.processes_in(self.folder))

    def wait(self, job, condition, what):
        """How long a start takes is the machine's affair: LibTorch is loaded by four processes, Slurm requeues when its
        credentials have expired."""
        launchers.wait_while_it_moves(condition, what, lambda: self.moves(job), why=lambda: self.known_of(job))

    def submit(self, *flags, words=("job.toml",), env=None):
        text = launchers.finish([MUSTER, "launch", "slurm", "--nodes", "2", *flags, *words], self.folder,
                                {**ENV, **(env or {})}).stdout
        return re.search(r"Submitted batch job (\d+)", text).group(1)

    def state(self, job):
        shown = self.run_here(["scontrol", "show", "job", "-o", job]).stdout
        return re.search(r"JobState=(\w+)", shown).group(1), int(re.search(r"Restarts=(\d+)", shown).group(1))

    def test_srun_trains_on_all_nodes_with_the_bits_of_one(self):
        done = self.run_here(ONE_EACH + [MUSTER, "train", "job.toml", "--json"])
        self.assertEqual(launchers.weights(done.stdout), self.expected())
        self.assertIn("Slurm: node 0 of 2, n1 n2", done.stderr)
        self.assertIn("n2 (2) has come", done.stderr)
        # Nothing that was secret is left.
        self.assertEqual(glob.glob(os.path.join(self.folder, "runs", ".muster-*")), [])

    def test_info_says_what_was_detected(self):
        done = self.run_here(ONE_EACH + [MUSTER, "info"])
        self.assertIn("Slurm: node 0 of 2", done.stdout)
        self.assertIn("Slurm: node 1 of 2", done.stdout)

    def test_what_slurm_grants_is_what_there_is(self):
        def granted(memory):
            return ["salloc", "-N", "1", "-n", "1", "--cpus-per-task=3", f"--mem={memory}", "srun", "--cpus-per-task=3", MUSTER]

        info = launchers.json.loads(self.run_here(granted(300) + ["info", "--json"]).stdout)
        self.assertEqual(info["memory_bytes"], 300 << 20)
        self.assertIn("Slurm", info["memory_reason"])
        self.assertIn("SLURM_CPUS_PER_TASK 3", info["cores_limits"])
        facts = launchers.json.loads(self.run_here(granted(300) + ["doctor", "--json"]).stdout)["hosts"][0]
        self.assertEqual(facts["memory"], 300 << 20)
        done = subprocess.run(granted(20) + ["train", "job.toml"], cwd=self.folder, env=ENV, check=False,
                              capture_output=True, text=True, timeout=120)
        self.assertNotEqual(done.returncode, 0, done.stderr)
        self.assertIn("what Slurm has granted on this node", done.stderr)

    def test_mpirun_inside_of_an_allocation_counts(self):
        # Its daemons are started as on two hosts; what Slurm says of the job stands in their surroundings all the same.
        with launchers.mpi_hosts() as mpirun:
            inside = ["salloc", "-N", "2", "--ntasks-per-node=1", *mpirun, "--mca", "plm", "rsh", "--mca", "ras", "^slurm"]
            for alone in ([], ["env", "-u", "OMPI_COMM_WORLD_RANK", "-u", "OMPI_COMM_WORLD_SIZE"]):
                done = self.run_here(inside + alone + [MUSTER, "train", "job.toml", "--json", "--interface", "lo"])
                self.assertEqual(launchers.weights(done.stdout), self.expected())
                self.assertIn("node 0 of 2", done.stderr)
                self.assertIn("it is this launcher's ranks that count", done.stderr)
                # Nothing but rows of our own is on standard output.
                self.assertTrue(all(line.startswith("{") for line in done.stdout.splitlines()), done.stdout)

    def test_two_tasks_a_node_are_refused_at_once(self):
        done = self.run_here(["srun", "-N", "2", "--ntasks-per-node=2", MUSTER, "train", "job.toml"], code=2)
        self.assertIn("one on each node", done.stderr)

    def test_fewer_nodes_than_the_job_wants_are_refused_at_once(self):
        launchers.write_job(self.folder, more="hosts = 2\n")
        done = self.run_here(["srun", "-N", "1", "-n", "1", MUSTER, "train", "job.toml"], code=2)
        self.assertIn("started on 1", done.stderr)

    def test_a_job_that_is_wrong_ends_on_all_nodes(self):
        done = self.run_here(ONE_EACH + [MUSTER, "train", "job.toml", "--set", "optimizer.lr=-1"], code=2)
        self.assertIn("optimizer.lr", done.stderr)

    def test_a_folder_that_others_may_enter_is_refused(self):
        # Somebody else has made the meeting of the step that comes next.
        os.makedirs(os.path.join(self.folder, "runs"))
        script = (f"mkdir -m 755 runs/.muster-slurm-$SLURM_JOB_ID.0.0; srun --ntasks-per-node=1 {MUSTER} train "
                  "job.toml; exit $?")
        done = subprocess.run(["salloc", "-N", "2", "--ntasks-per-node=1", "sh", "-c", script], cwd=self.folder, env=ENV,
                              check=False, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("others may enter it", done.stderr)

    def test_the_dry_run_submits_nothing(self):
        done = self.run_here([MUSTER, "launch", "slurm", "job.toml", "--nodes", "2", "--dry-run"])
        self.assertIn("#SBATCH --nodes=2", done.stdout)
        self.assertEqual(self.run_here(["squeue", "-h"]).stdout.strip(), "")

    def test_a_time_that_is_all_warning_is_refused(self):
        done = self.run_here([MUSTER, "launch", "slurm", "job.toml", "--time", "2", "--dry-run"], code=2)
        self.assertIn("--time 2 is 120 s", done.stderr)

    def test_values_over_the_file_go_with_the_job(self):
        for words in (["job.toml", "--set", "job.epochs=3"], ["--set", "job.epochs=3", "job.toml"],
                      ["--", "job.toml", "--set", "job.epochs=3"]):
            done = self.run_here([MUSTER, "launch", "slurm", "--dry-run", *words])
            self.assertIn("'train' 'job.toml' '--set' 'job.epochs=3'", done.stdout)

    def test_a_submitted_job_trains(self):
        job = self.submit()
        self.wait(job, lambda: self.state(job)[0] == "COMPLETED", "the job")
        self.assertEqual(self.state(job), ("COMPLETED", 0))
        self.assertIn("training", self.log_of(job).lower())

    def test_values_with_blanks_reach_slurm_whole(self):
        job = self.submit("--set", 'job.name="far away"', "--sbatch=--comment=the \"#1\" paper")
        shown = self.run_here(["scontrol", "show", "job", "-o", job]).stdout
        for word in ("JobName=far away ", 'Comment=the "#1" paper ', f"StdOut={self.folder}/far away-{job}.log "):
            self.assertIn(word, shown)

    def lives(self, job):
        """Its state, which is none of a job that has ended badly."""
        state = self.state(job)[0]
        assert state not in ("FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL"), f"{state}\n{self.known_of(job)}"
        return state

    def trains(self, job):
        return self.lives(job) and glob.glob(os.path.join(self.folder, "runs", "far-*", "metrics.jsonl"))

    def goes_on_after(self, disturb, restarts=1):
        """Submits a job, disturbs it while it trains, and sees it begin again and end. Its time limit is one that Slurm
        itself does not come near: with sbatch's --time-min Slurm may choose a minute, of which all is warning."""
        launchers.write_job(self.folder, epochs=LONG)
        job = self.submit()
        self.wait(job, lambda: self.trains(job), "training")
        disturb(job)
        self.wait(job, lambda: self.state(job)[1] >= restarts, "the requeue")
        self.wait(job, lambda: self.lives(job) == "COMPLETED", "the job")
        log = self.log_of(job)
        self.assertIn("going on with", log)
        # One run, which was resumed.
        self.assertEqual(len(glob.glob(os.path.join(self.folder, "runs", "far-*"))), 1, log)
        manifests = glob.glob(os.path.join(self.folder, "runs", "far-*", "checkpoints", "*"))
        self.assertTrue(manifests, log)
        return log

    def test_usr1_leads_to_a_checkpoint_and_a_requeue_that_goes_on(self):
        self.goes_on_after(lambda job: self.run_here(["scancel", "--signal=USR1", job]))

    def model_of_program(self, folder):
        with open(os.path.join(folder, sorted(glob.glob("spirals/*/model.safetensors", root_dir=folder))[-1]), "rb") as file:
            return file.read()

    def test_a_program_is_queued_again_and_goes_on(self):
        run = ["run", "-n", "1", "--host-seconds", "60", "--liveness", "60", PROGRAM]
        alone = os.path.join(self.folder, "alone")
        os.mkdir(alone)
        launchers.finish([MUSTER, *run], alone)
        # Each commit takes a while, so that there is time to disturb it.
        job = self.submit(words=["--", *run], env={"MUSTER_FAILPOINTS": "arena.commit.before_arrival=delay=40"})
        self.wait(job, lambda: self.lives(job) and glob.glob(os.path.join(self.folder, "spirals", "*")), "training")
        self.run_here(["scancel", "--signal=USR1", job])
        self.wait(job, lambda: self.state(job)[1] == 1, "the requeue")
        self.wait(job, lambda: self.lives(job) == "COMPLETED", "the job")
        log = self.log_of(job, "muster-run")
        self.assertIn("going on from step", log)
        self.assertEqual(self.model_of_program(self.folder), self.model_of_program(alone), log)

    def test_preemption_leads_to_a_checkpoint_and_goes_on(self):
        self.goes_on_after(lambda job: self.run_here(["srun", "-p", "first", "-N", "2", "--ntasks-per-node=4", "true"]))

    def test_slurms_own_time_limit_leads_to_a_checkpoint_and_goes_on(self):
        # A minute is nearly over as soon as it begins: Slurm's next look at the time, every 30 s, signals.
        def limit(job, minutes):
            self.run_here(["scontrol", "update", f"JobId={job}", f"TimeLimit={minutes}"])

        launchers.write_job(self.folder, epochs=ENDLESS)
        job = self.submit("--time", "30", "--warning", "50")
        self.wait(job, lambda: self.trains(job), "training")
        limit(job, 1)
        self.wait(job, lambda: self.state(job)[1] == 1, "the requeue")
        limit(job, 30)
        self.wait(job, lambda: "going on with" in self.log_of(job), "the second life")
        self.assertEqual(len(glob.glob(os.path.join(self.folder, "runs", "far-*"))), 1, self.log_of(job))
        self.assertIn("a checkpoint is written", self.log_of(job))

    def test_muster_stop_ends_it_for_good(self):
        launchers.write_job(self.folder, epochs=ENDLESS)
        job = self.submit()
        self.wait(job, lambda: self.trains(job), "training")
        self.assertIn("Slurm: node 0 of 2", self.run_here([MUSTER, "status", "far"]).stdout)
        self.run_here([MUSTER, "stop", "far"])
        self.wait(job, lambda: self.state(job)[0] not in ("RUNNING", "COMPLETING", "PENDING"), "the end")
        self.assertEqual(self.state(job)[1], 0)


LONG = 60
ENDLESS = 1000000

if __name__ == "__main__":
    unittest.main(verbosity=2)
