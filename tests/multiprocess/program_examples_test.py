#!/usr/bin/env python3
"""An example program with a session alone, as two workers, and as two of which the leader is killed: the same weights.

usage: program_examples_test.py MUSTER PROGRAM LEARNS [ARGUMENT...]
    LEARNS is a pattern whose group is a number in what the program prints, and < or >: "step \\d+: loss (\\S+)<" wants
    the last of these numbers below the first; empty: nothing is looked at. The argument "data" is a folder with the
    files of Fashion-MNIST, unpacked.
"""
import glob
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

SOURCE = "/usr/share/datasets/fashion-mnist"
PATIENCE = 240


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


def run_hurt(muster, program, folder):
    """Gives what is printed; the first worker is killed as soon as the job trains."""
    process = subprocess.Popen([muster, "run", "-n", "2"] + program, cwd=folder, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + PATIENCE
    name = os.path.basename(program[0])
    while not trains(muster, name, folder):
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.01)  # sleeps: polls, with a deadline
    victim = workers_of(process.pid)[0]
    os.kill(victim, signal.SIGKILL)
    text, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, (process.returncode, text, errors)
    log = "".join(open(path).read() for path in glob.glob(os.path.join(folder, "runs", f"{name}-*", "log.supervisor.txt")))
    assert f"(pid {victim}) is lost" in log + errors, (log, errors)
    return text


def check_learning(pattern, text):
    numbers = [float(number) for number in re.findall(pattern[:-1], text)]
    assert len(numbers) > 1, text
    better = numbers[-1] < numbers[0] if pattern[-1] == "<" else numbers[-1] > numbers[0]
    assert better, text


def main():
    muster, program = (os.path.abspath(path) for path in sys.argv[1:3])
    learns = sys.argv[3]
    with tempfile.TemporaryDirectory(prefix="muster-example-") as folder:
        data = os.path.join(folder, "data")
        arguments = [data if word == "data" else word for word in sys.argv[4:]]
        if data in arguments:
            unpack(data)
        texts = []
        for number, start in enumerate(([], [muster, "run", "-n", "2"])):
            place = os.path.join(folder, str(number))
            os.mkdir(place)
            texts.append(run(start + [program] + arguments, place))
        print(texts[0])
        if learns:
            check_learning(learns, texts[0])
        assert texts[0] == texts[1], texts
        place = os.path.join(folder, "hurt")
        os.mkdir(place)
        hurt = run_hurt(muster, [program] + arguments, place)
        assert weights_in(hurt) == weights_in(texts[0]), hurt


main()
