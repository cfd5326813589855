#!/usr/bin/env python3
"""The C++ example alone, under muster run and under mpirun: one program, one result.

usage: fashion_program_test.py MUSTER FASHION [MPIRUN]
"""
import hashlib
import os
import subprocess
import sys
import tempfile

LOOPBACK_ONLY = ("--allow-run-as-root --oversubscribe --bind-to none --mca pml ob1 --mca btl self,vader,tcp "
                 "--mca btl_tcp_if_include lo --mca oob_tcp_if_include lo")


def run(command, folder):
    """What the command prints, and a hash of the weights that it saves."""
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    path = os.path.join(folder, "fashion.safetensors")
    with open(path, "rb") as file:
        weights = hashlib.sha256(file.read()).hexdigest()
    os.remove(path)
    return done.stdout, weights


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
        for command in starts:
            assert run(command, folder) == (text, weights), command


main()
