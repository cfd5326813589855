"""Launchers for tests, real ones, each in a temporary folder and ended by its process id: a Slurm of two nodes on this
machine, an mpirun of two hosts that are this machine, and two hosts with sshd in network namespaces of their own."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIP = 77
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"

JOB = """[job]
name = "far"
epochs = {epochs}
lanes = 4
[data]
source = "synthetic"
shape = [1, 12, 12]
samples = 500
test_samples = 50
batch = 64
[model]
name = "cnn"
[optimizer]
name = "sgd"
lr = 0.02
momentum = 0.9
schedule = "cosine"
[parallel]
host_seconds = 30
"""


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIP)


def need(*programs):
    """Skips unless root, with these programs."""
    if os.geteuid() != 0:
        skip("starting daemons needs root")
    for program in programs:
        if shutil.which(program, path=PATH) is None:
            skip(f"there is no {program} (apt-get install {PACKAGES.get(program, program)})")


PACKAGES = {"slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client", "munged": "munge",
            "mpirun": "openmpi-bin", "sshd": "openssh-server", "ip": "iproute2"}


def wait_until(condition, what, seconds=60, why=lambda: ""):
    """Polls. `why` says what is known when it has taken too long."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited for {what}\n{why()}"
        time.sleep(0.05)  # sleeps: polls, with a deadline


def wait_while_it_moves(condition, what, progress, still=120, most=600, why=lambda: ""):
    """Polls, as long as `progress()` gives something else now and then: a machine may be slow, and a job that stands still
    is not. Gives up after `still` seconds in which nothing moved, and in any case after `most`."""
    begun = moved = looked = time.monotonic()
    before = progress()
    while not condition():
        now = time.monotonic()
        if now - looked > 2:  # looking costs processes, too
            looked, after = now, progress()
            if after != before:
                before, moved = after, now
        assert now - moved < still, f"waited for {what}; nothing moved for {still} s\n{why()}"
        assert now - begun < most, f"waited for {what} for {most} s, and it still moves\n{why()}"
        time.sleep(0.2)  # sleeps: polls, with a deadline


def processes_in(folder):
    """(pid, command, processor time) of those that were started in `folder`: the tasks of a job, wherever they were started from."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/cwd") != folder:
                continue
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            with open(f"/proc/{pid}/cmdline") as file:
                words = file.read().replace("\0", " ")[:100]
            found.append((int(pid), words, int(fields[11]) + int(fields[12])))
    return found


def write_job(folder, epochs=2, more=""):
    with open(os.path.join(folder, "job.toml"), "w") as file:
        file.write(JOB.format(epochs=epochs) + more)


def weights(output):
    """The hash in the last row of --json."""
    rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert rows and "weights" in rows[-1], output
    return rows[-1]["weights"]


def finish(command, folder, env=None, code=0, seconds=120):
    done = subprocess.run(command, cwd=folder, env=env, check=False, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == code, f"{command}: {done.returncode}, not {code}\n{done.stdout}\n{done.stderr}"
    return done


@contextlib.contextmanager
def daemon(command, folder, name, env=None):
    with open(os.path.join(folder, name + ".log"), "w") as log:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


SLURM_CONF = """ClusterName=muster
SlurmctldHost=localhost
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=15
CredType=cred/munge
SlurmctldPort={port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=30
MessageTimeout=100
BatchStartTimeout=100
TCPTimeout=60
SlurmdTimeout=0
MinJobAge=300
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={port1} CPUs=4 RealMemory=4000
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={port2} CPUs=4 RealMemory=4000
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO PriorityTier=1 GraceTime=60
PartitionName=first Nodes=n1,n2 MaxTime=INFINITE State=UP OverSubscribe=NO PriorityTier=10 PreemptMode=OFF
"""


@contextlib.contextmanager
def slurm():
    """A Slurm of two nodes, n1 and n2. Gives the environment that its commands need. A slow machine is no node that is
    gone: by default Slurm gives up a connection after 2 s, an answer and the start of a script after 10 s, and takes a
    node for down that is silent. Its cred_expire is also how long it
    holds a requeued job back (120 s by default), so that no node takes it for its life before."""
    need("munged", "slurmctld", "slurmd", "srun", "sbatch")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="muster-slurm-"))
        os.chmod(folder, 0o755)
        for name in ("munge", "state"):
            os.mkdir(os.path.join(folder, name), 0o700)
        key = os.path.join(folder, "munge", "key")
        with open(key, "wb") as file:
            file.write(os.urandom(1024))
        os.chmod(key, 0o600)
        port = 20000 + os.getpid() % 10000
        conf = os.path.join(folder, "slurm.conf")
        with open(conf, "w") as file:
            file.write(SLURM_CONF.format(folder=folder, port=port, port1=port + 1, port2=port + 2))
        env = {**os.environ, "PATH": PATH, "SLURM_CONF": conf}
        munge = os.path.join(folder, "munge")
        stack.enter_context(daemon(
            ["munged", "--foreground", "--force", "--key-file", key, "--socket", f"{munge}/socket", "--pid-file",
             f"{munge}/pid", "--log-file", f"{munge}/log", "--seed-file", f"{munge}/seed"], folder, "munged", env))
        wait_until(lambda: os.path.exists(f"{munge}/socket"), "munge")
        stack.enter_context(daemon(["slurmctld", "-D", "-f", conf], folder, "ctld", env))
        for node in ("n1", "n2"):
            stack.enter_context(daemon(["slurmd", "-D", "-N", node, "-f", conf], folder, node, env))

        empty_slurm(env)
        try:
            yield env
        finally:
            with contextlib.suppress(AssertionError):
                empty_slurm(env)


def empty_slurm(env):
    """Ends all jobs, and waits until both nodes are idle."""
    subprocess.run(["scancel", "--user=root"], env=env, check=False, capture_output=True)

    def said(*words):
        return subprocess.run(words, env=env, check=False, capture_output=True, text=True).stdout

    # A step that is killed may write its checkpoint for a while, and a slow node says late that it is idle.
    wait_while_it_moves(lambda: not said("squeue", "-h").strip() and
                        said("sinfo", "-h", "-p", "main", "-o", "%T %D").strip() == "idle 2", "two idle nodes",
                        lambda: (said("squeue", "-h", "-o", "%i %T"), said("sinfo", "-h", "-N", "-o", "%N %T")),
                        why=lambda: said("squeue", "-l") + said("sinfo", "-N", "-l"))


@contextlib.contextmanager
def mpi_hosts():
    """The words of an mpirun on two hosts, both of which are this machine: what stands for ssh runs its words here."""
    need("mpirun")
    with tempfile.TemporaryDirectory(prefix="muster-mpi-") as folder:
        agent = os.path.join(folder, "here")
        with open(agent, "w") as file:
            # Each with a /tmp of its own: two of Open MPI's daemons on one machine get in each other's way there.
            file.write(f'#!/bin/sh\nhost=$1; shift\nmkdir -p {folder}/$host\nTMPDIR={folder}/$host exec sh -c "$*"\n')
        os.chmod(agent, 0o700)
        yield ["mpirun", "--allow-run-as-root", "--host", "one,two", "-N", "1", "--bind-to", "none",
               "--mca", "plm_rsh_agent", agent, "--mca", "oob_tcp_if_include", "lo"]


class NamespaceHost:
    def __init__(self, name, address, pid):
        self.name, self.address, self.pid = name, address, pid

    def words(self, command):
        return ["nsenter", "-t", str(self.pid), "-n", "-u", "--"] + command


@contextlib.contextmanager
def ssh_hosts(count=2):
    """Hosts with networks of their own, an sshd on each, and an `ssh` first in PATH that has their keys. Gives the hosts
    and the environment."""
    need("ip", "sshd", "ssh", "ssh-keygen", "unshare", "nsenter")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="muster-ssh-"))
        env = {**os.environ, "PATH": f"{folder}/bin:{PATH}"}
        hosts = []
        for number in range(1, count + 1):
            holder = stack.enter_context(daemon(["unshare", "--net", "--uts", "sleep", "1000"], folder, f"host{number}"))
            own = os.readlink("/proc/self/ns/net")
            wait_until(lambda pid=holder.pid: os.readlink(f"/proc/{pid}/ns/net") != own, "a namespace")
            hosts.append(NamespaceHost(f"host-{number}", f"10.93.72.{number}", holder.pid))
        switch = stack.enter_context(daemon(["unshare", "--net", "sleep", "1000"], folder, "switch"))
        own = os.readlink("/proc/self/ns/net")
        wait_until(lambda: os.readlink(f"/proc/{switch.pid}/ns/net") != own, "a namespace")

        def at(pid, *words):
            finish(["nsenter", "-t", str(pid), "-n", "--", "ip"] + list(words), folder, env)

        at(switch.pid, "link", "add", "bridge", "up", "type", "bridge")
        for number, host in enumerate(hosts, 1):
            finish(host.words(["hostname", host.name]), folder, env)
            at(switch.pid, "link", "add", f"to{number}", "type", "veth", "peer", "name", "eth0", "netns", str(host.pid))
            at(switch.pid, "link", "set", f"to{number}", "master", "bridge", "up")
            at(host.pid, "link", "set", "lo", "up")
            at(host.pid, "addr", "add", f"{host.address}/24", "dev", "eth0")
            at(host.pid, "link", "set", "eth0", "up")
        _keys(folder, env)
        os.makedirs("/run/sshd", exist_ok=True)
        for host in hosts:
            stack.enter_context(daemon(
                host.words(["/usr/sbin/sshd", "-D", "-e", "-f", f"{folder}/sshd_config", "-o",
                            f"ListenAddress={host.address}", "-o", f"PidFile={folder}/{host.name}.pid"]),
                folder, f"sshd-{host.name}", env))
        for host in hosts:
            wait_until(lambda host=host: subprocess.run(hosts[0].words(["ssh", host.address, "true"]), env=env,
                                                        check=False, capture_output=True).returncode == 0,
                       f"sshd of {host.name}")
        yield hosts, env


def _keys(folder, env):
    for name in ("host_key", "user_key"):
        finish(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{name}"], folder, env)
    with open(f"{folder}/sshd_config", "w") as file:
        file.write(f"HostKey {folder}/host_key\nAuthorizedKeysFile {folder}/user_key.pub\nStrictModes no\nUsePAM no\n"
                   "PermitRootLogin prohibit-password\nPasswordAuthentication no\nPort 22\n")
    with open(f"{folder}/ssh_config", "w") as file:
        file.write(f"Host one\n  HostName 10.93.72.1\nHost two\n  HostName 10.93.72.2\nHost *\n"
                   f"  IdentityFile {folder}/user_key\n  StrictHostKeyChecking no\n  LogLevel ERROR\n"
                   f"  UserKnownHostsFile {folder}/known\n")
    os.mkdir(f"{folder}/bin")
    with open(f"{folder}/bin/ssh", "w") as file:
        file.write(f'#!/bin/sh\nexec /usr/bin/ssh -F {folder}/ssh_config "$@"\n')
    os.chmod(f"{folder}/bin/ssh", 0o755)
