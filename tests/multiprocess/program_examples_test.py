#!/usr/bin/env python3
"""An example program with a session alone, as one, two and three workers, as two of which the leader is killed, and as
any number of them of which any is killed at any moment: the same weights.

usage: program_examples_test.py MUSTER PROGRAM LEARNS [--resumes] [--kills N] [--workers N,M] [ARGUMENT...]
    LEARNS is a pattern whose group is a number in what the program prints, and < or >: "step \\d+: loss (\\S+)<" wants
    the last of these numbers below the first, and with a number behind it below that too; empty: nothing is looked at. The argument "data" is a folder with the
    files of Fashion-MNIST, unpacked. With --resumes the program keeps checkpoints: it is also stopped
    and started again. So many workers are killed at moments drawn by chance (MUSTER_TEST_SEED), each in a run of its own; 1
    unless --kills says otherwise. Workers are 1, 2 and 3 where --workers does not say otherwise.
"""
import contextlib
import glob
import gzip
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = "/usr/share/datasets/fashion-mnist"
PATIENCE = 240
TRIES = 5


def unpack(folder):
    os.mkdir(folder)
    for name in os.listdir(SOURCE):
        if name.endswith(".gz"):
            with gzip.open(os.path.join(SOURCE, name)) as packed:
                with open(os.path.join(folder, name[:-3]), "wb") as file:
                    file.write(packed.read())


def weights_in(text):
    """Whoever comes when all steps are done says it once more."""
    found = set(re.findall(r"^weights (\w{64})$", text, re.MULTILINE))
    assert len(found) == 1, text
    return found.pop()


def run(command, folder):
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def workers_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def trains(muster, name, folder):
    shown = subprocess.run([muster, "status", name, "--json"], cwd=folder, check=False, capture_output=True)
    return shown.returncode == 0 and json.loads(shown.stdout)["step"] > 0


def begin(muster, workers, program, folder):
    return subprocess.Popen([muster, "run", "-n", str(workers)] + program, cwd=folder, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def start(muster, program, folder):
    """Returns when the job trains. None: it was over before that was seen."""
    process = begin(muster, 2, program, folder)
    deadline = time.monotonic() + PATIENCE
    while not trains(muster, os.path.basename(program[0]), folder):
        if process.poll() == 0:
            process.communicate()
            return None
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.01)  # sleeps: polls, with a deadline
    return process


def rows_of(folder):
    """The run's figures; a leader that was told to end leaves a last row that says so."""
    text = "".join(open(path).read() for path in glob.glob(os.path.join(folder, "runs", "*", "metrics.jsonl")))
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def run_stopped(muster, program, folder):
    """Stopped by Ctrl-C as soon as it trains, and started again: gives what is printed then. None: it was over before."""
    process = begin(muster, 2, program, folder)
    deadline = time.monotonic() + PATIENCE
    while not rows_of(folder) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)  # sleeps: polls, with a deadline
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    text, errors = process.communicate(timeout=PATIENCE)
    if process.returncode == 0 or rows_of(folder)[-1]["event"] == "finished":
        return None  # the last step was done when it was told
    assert "weights" not in text, (process.returncode, text, errors)
    assert "a checkpoint is in" in errors, errors
    return run([muster, "run", "-n", "2"] + program, folder)


def in_time(attempt, folder, name):
    """What attempt(place) gives, in a place of its own each time until there is something: some programs train for a
    fraction of a second, in which a busy machine may not have asked for their status."""
    for number in range(TRIES):
        place = os.path.join(folder, f"{name}-{number}")
        os.mkdir(place)
        text = attempt(place)
        if text is not None:
            return text
    raise AssertionError(f"it was over each time before it was {name}")


def run_hurt(muster, program, folder):
    """Gives what is printed; the first worker is killed as soon as the job trains. None: it was over before that was seen."""
    process = start(muster, program, folder)
    if process is None:
        return None
    name = os.path.basename(program[0])
    workers = workers_of(process.pid)
    if not workers:
        process.communicate(timeout=PATIENCE)
        return None
    victim = workers[0]
    os.kill(victim, signal.SIGKILL)
    text, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, (process.returncode, text, errors)
    if "weights" not in text:
        return None  # who would have printed them was killed after the last step
    log = "".join(open(path).read() for path in glob.glob(os.path.join(folder, "runs", f"{name}-*", "log.supervisor.txt")))
    assert f"(pid {victim}) is lost" in log + errors, (log, errors)
    return text


def run_killed(muster, count, program, folder, seconds, chance):
    """Gives what is printed; of `count` workers one is killed somewhere in the `seconds` that a run takes, and perhaps
    another, or the one that took its place. Before all have started and while they load and evaluate is as good a moment
    as any."""
    process = begin(muster, count, program, folder)
    moments = sorted(chance.uniform(0, seconds) for _ in range(chance.randint(1, 3)))
    for before, moment in zip([0] + moments, moments):
        time.sleep(moment - before)  # sleeps: the moment is what is drawn
        workers = workers_of(process.pid) if process.poll() is None else []
        if workers:
            with contextlib.suppress(ProcessLookupError):  # it may just have ended
                os.kill(chance.choice(workers), signal.SIGKILL)
    text, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, (process.returncode, text, errors)
    return text


def check_learning(pattern, text):
    words, sign, bound = re.fullmatch(r"(.*)([<>])([\d.]*)", pattern).groups()
    numbers = [float(number) for number in re.findall(words, text)]
    assert len(numbers) > 1, text
    wanted = [numbers[0]] + ([float(bound)] if bound else [])
    assert all(numbers[-1] < number if sign == "<" else numbers[-1] > number for number in wanted), text


def main():
    muster, program = (os.path.abspath(path) for path in sys.argv[1:3])
    learns = sys.argv[3]
    with tempfile.TemporaryDirectory(prefix="muster-example-") as folder:
        data = os.path.join(folder, "data")
        words = sys.argv[4:]
        resumes = "--resumes" in words
        words = [word for word in words if word != "--resumes"]
        kills = 1
        if "--kills" in words:
            at = words.index("--kills")
            kills = int(words[at + 1])
            del words[at:at + 2]
        several = [1, 2, 3]
        if "--workers" in words:
            at = words.index("--workers")
            several = [int(number) for number in words[at + 1].split(",")]
            del words[at:at + 2]
        arguments = [data if word == "data" else word for word in words]
        if data in arguments:
            unpack(data)
        texts = []
        for workers in [0] + several:
            place = os.path.join(folder, str(workers))
            os.mkdir(place)
            began = time.monotonic()
            launcher = [muster, "run", "-n", str(workers)] if workers else []
            texts.append(run(launcher + [program] + arguments, place))
        seconds = time.monotonic() - began
        print(texts[0])
        if learns:
            check_learning(learns, texts[0])
        assert len(set(texts)) == 1, texts
        seed = os.environ.get("MUSTER_TEST_SEED", str(random.randrange(1 << 30)))
        chance = random.Random(seed)
        print("MUSTER_TEST_SEED =", seed, flush=True)
        for number in range(kills):
            place = os.path.join(folder, f"killed-{number}")
            os.mkdir(place)
            text = run_killed(muster, chance.choice(several), [program] + arguments, place, seconds, chance)
            # Who would have printed them may have been killed after the last step.
            assert "weights" not in text or weights_in(text) == weights_in(texts[0]), text
        hurt = in_time(lambda place: run_hurt(muster, [program] + arguments, place), folder, "hurt")
        assert weights_in(hurt) == weights_in(texts[0]), hurt
        if resumes:
            stopped = in_time(lambda place: run_stopped(muster, [program] + arguments, place), folder, "stopped")
            assert weights_in(stopped) == weights_in(texts[0]), stopped
            assert stopped.count("\n") < texts[0].count("\n") or stopped == texts[0], stopped


main()
