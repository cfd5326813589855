#!/usr/bin/env python3
"""The C++ example alone, under muster run and under mpirun: one program, one result.

usage: fashion_program_test.py MUSTER FASHION [MPIRUN]
"""
import hashlib
import os
import subprocess
import sys
import tempfile


def run(command, folder):
    """What the command prints, and a hash of the weights that it saves."""
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    path = os.path.join(folder, "fashion.safetensors")
    with open(path, "rb") as file:
        weights = hashlib.sha256(file.read()).hexdigest()
    os.remove(path)
    return done.stdout, weights


def main():
    muster, fashion = (os.path.abspath(path) for path in sys.argv[1:3])
    program = [fashion, "1", "12"]  # one epoch, cut short
    starts = [[muster, "run", "-n", "2"] + program]
    if len(sys.argv) > 3:
        starts.append([sys.argv[3], "--oversubscribe", "-n", "2"] + program)
    with tempfile.TemporaryDirectory(prefix="muster-fashion-") as folder:
        text, weights = run(program, folder)
        print(text)
        assert text.startswith("epoch 1: test accuracy 0."), text
        assert text.count("\n") == 1, text
        for command in starts:
            assert run(command, folder) == (text, weights), command


main()
