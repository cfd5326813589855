#!/usr/bin/env python3
"""An ordinary LibTorch program and the same program made distributed: five lines apart, and as good a model.

usage: mnist_test.py MUSTER PLAIN DISTRIBUTED EXAMPLES README
"""
import difflib
import gzip
import os
import re
import subprocess
import sys
import tempfile

SOURCE = "/usr/share/datasets/fashion-mnist"


def changed_lines(plain, distributed):
    """Lines of the second file that are not in the first, in order."""
    with open(plain, encoding="utf-8") as first, open(distributed, encoding="utf-8") as second:
        difference = difflib.ndiff(first.read().splitlines(), second.read().splitlines())
    return [line[2:] for line in difference if line.startswith("+ ")]


def unpack(folder):
    """LibTorch's MNIST reads unpacked files."""
    for name in os.listdir(SOURCE):
        if name.endswith(".gz"):
            with gzip.open(os.path.join(SOURCE, name)) as packed:
                with open(os.path.join(folder, name[:-3]), "wb") as file:
                    file.write(packed.read())


def right_of(output):
    return int(re.search(r"epoch 1: (\d+) of 10000 right", output).group(1))


def main():
    muster, plain, distributed, examples, readme = (os.path.abspath(path) for path in sys.argv[1:6])
    changes = changed_lines(os.path.join(examples, "mnist.cpp"), os.path.join(examples, "mnist_distributed.cpp"))
    assert 0 < len(changes) <= 5, changes
    with open(readme, encoding="utf-8") as page:
        text = page.read()
    for line in changes:
        assert line.strip() in text, f"README.md does not show: {line.strip()}"
    with tempfile.TemporaryDirectory(prefix="muster-mnist-") as folder:
        unpack(folder)
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        alone = subprocess.run([plain, folder, "1"], cwd=folder, env=environment, check=True, capture_output=True,
                               text=True)
        together = subprocess.run([muster, "run", "-n", "2", distributed, folder, "1"], cwd=folder, env=environment,
                                  check=True, capture_output=True, text=True)
        print(alone.stdout, together.stdout)
        # Only the first worker prints, and half as many steps on the whole data set are nearly as good.
        assert together.stdout.count("epoch 1") == 1, together.stdout
        assert right_of(alone.stdout) > 7500, alone.stdout
        assert right_of(together.stdout) > 7500, together.stdout
        # A program that fails gives its own exit code, and one that is not there a user's mistake.
        failed = subprocess.run([muster, "run", "-n", "2", "sh", "-c", "exit 3"], check=False)
        assert failed.returncode == 3, failed
        missing = subprocess.run([muster, "run", "-n", "2", "./no-such-program"], check=False, capture_output=True)
        assert missing.returncode == 2, missing


main()
