#!/usr/bin/env python3
"""Runs every command of README.md's tour with the built program, shortened to a few steps: none may fail.

usage: readme_test.py README PROGRAM
"""
import os
import re
import shlex
import subprocess
import sys
import tempfile


def shortened(arguments):
    """The command with less work: the same parts of the program, seconds instead of minutes."""
    if arguments[0] == "train":
        # A resumed run needs steps to go on with.
        steps = 6 if "--resume" in arguments else 3
        return arguments + ["--set", f"job.steps={steps}", "--quiet"]
    if arguments[:2] == ["bench", "collectives"]:
        return arguments + ["--rounds", "1"]
    if arguments[0] == "bench":
        return arguments + ["--rounds", "1", "--steps", "1"]
    return arguments


def main():
    readme, program = (os.path.abspath(path) for path in sys.argv[1:3])
    with open(readme, encoding="utf-8") as page:
        blocks = re.findall(r"^```\n(.*?)^```", page.read(), flags=re.DOTALL | re.MULTILINE)
    commands = []
    for line in "".join(blocks).splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0] == "./musterw" and words[1] != "test" and not words[1].startswith("-D"):
            commands.append(words[1:])
    if len(commands) < 5:
        sys.exit(f"only {len(commands)} commands found: has the README changed its form?")
    with tempfile.TemporaryDirectory(prefix="muster-readme-") as folder:
        os.symlink(os.path.join(os.path.dirname(readme), "examples"), os.path.join(folder, "examples"))
        for command in commands:
            words = shortened(command)
            print("muster", *words, flush=True)
            subprocess.run([program, *words], cwd=folder, check=True, timeout=120)


main()
