#!/usr/bin/env python3
"""The C++ example alone, under muster run and under mpirun, with and without losses: one program, one result.

usage: fashion_program_test.py MUSTER FASHION [MPIRUN]
"""
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

LOOPBACK_ONLY = ("--allow-run-as-root --oversubscribe --bind-to none --mca pml ob1 --mca btl self,vader,tcp "
                 "--mca btl_tcp_if_include lo")


def run(command, folder):
    """What the command prints, and a hash of the weights that it saves."""
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout, weights_in(folder)


def weights_in(folder):
    path = os.path.join(folder, "fashion.safetensors")
    with open(path, "rb") as file:
        weights = hashlib.sha256(file.read()).hexdigest()
    os.remove(path)
    return weights


def workers_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def check_what_is_seen(muster, folder, victims):
    """While the program trains: its rate, once those that took a place have done a step, and in the supervisor's log who
    was lost."""
    deadline = time.monotonic() + 60
    status = {"samples_per_second": 0}
    while status["samples_per_second"] <= 0:
        assert time.monotonic() < deadline, status
        shown = subprocess.run([muster, "status", "fashion", "--json"], cwd=folder, check=True, capture_output=True)
        status = json.loads(shown.stdout)
    log = subprocess.run([muster, "logs", "fashion"], cwd=folder, check=True, capture_output=True, text=True).stdout
    for victim in victims:
        assert f"(pid {victim}) is lost" in log, log


def trains(muster, name, folder):
    shown = subprocess.run([muster, "status", name, "--json"], cwd=folder, check=False, capture_output=True)
    return shown.returncode == 0 and json.loads(shown.stdout)["step"] > 0


def run_hurt(muster, program, folder):
    """The same with a kill -9 of each worker, one after the other, while they train; the end with one worker."""
    command = [muster, "run", "--workers", "1:2"] + program
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not trains(muster, "fashion", folder):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)  # sleeps: polls, with a deadline
    victims = workers_of(process.pid)
    for victim in victims:
        if victim != victims[0]:
            time.sleep(1)  # sleeps: a lane in which two of them die would be blamed for it
        os.kill(victim, signal.SIGKILL)
        while victim in workers_of(process.pid) or len(workers_of(process.pid)) < len(victims):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)  # sleeps: polls, with a deadline
    check_what_is_seen(muster, folder, victims)
    subprocess.run([muster, "scale", "fashion", "1"], cwd=folder, check=True)
    while len(workers_of(process.pid)) > 1:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)  # sleeps: polls, with a deadline
    text, _ = process.communicate(timeout=100)
    assert process.returncode == 0, process.returncode
    return text, weights_in(folder)


def main():
    muster, fashion = (os.path.abspath(path) for path in sys.argv[1:3])
    program = [fashion, "1", "12"]  # one epoch, cut short
    with tempfile.TemporaryDirectory(prefix="muster-fashion-") as folder:
        starts = [[muster, "run", "-n", "2"] + program]
        if len(sys.argv) > 3:
            starts.append([sys.argv[3], *LOOPBACK_ONLY.split(), "--mca", "orte_tmpdir_base", folder, "-n", "2"] + program)
        text, weights = run(program, folder)
        print(text)
        assert text.startswith("epoch 1: test accuracy 0."), text
        assert text.count("\n") == 1, text
        longer = [fashion, "1", "400"]
        assert run_hurt(muster, longer, folder) == run(longer, folder)
        for command in starts:
            assert run(command, folder) == (text, weights), command


main()
