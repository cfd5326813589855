"""What the checks in this folder share: the files of the tree, CMake files as words, and how findings are reported."""

import os
import re
import subprocess
import sys
from pathlib import Path

# Never part of the sources, whatever git says.
GENERATED = {".git", "build", "runs", "__pycache__"}


def root_from_arguments(description):
    """The tree to check: the first argument, or the one this script belongs to."""
    if len(sys.argv) > 2 or (len(sys.argv) == 2 and sys.argv[1].startswith("-")):
        sys.exit(f"usage: {Path(sys.argv[0]).name} [ROOT]\n{description}")
    return Path(sys.argv[1] if len(sys.argv) == 2 else Path(__file__).parent.parent).resolve()


def tracked_files(root):
    """Every file git would commit, new ones included; outside a repository every file that is not generated."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    paths = []
    if (root / ".git").exists():
        try:
            listing = subprocess.run(command, capture_output=True, check=True).stdout
            paths = [root / os.fsdecode(name) for name in listing.split(b"\0") if name]
        except (OSError, subprocess.CalledProcessError):
            pass  # no git, or a repository of another user: the walk below sees the same files and maybe more
    if not paths:
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name not in GENERATED]
            paths += [Path(folder) / name for name in names]
    inside = (path for path in paths if path.is_file() and not GENERATED & set(path.relative_to(root).parts))
    return sorted(set(inside))


def read(path):
    return path.read_text(encoding="utf-8", errors="replace")


def cmake_words(text):
    """The words of a CMake file without its comments."""
    return re.sub(r'[()"]', " ", without_comments(text)).split()


def without_comments(cmake_text):
    return re.sub(r"#[^\n]*", "", cmake_text)


class Findings:
    """Collects what is wrong. finish() prints it and ends the process, with 1 when there was anything."""

    def __init__(self, root):
        self.root = root
        self.lines = []

    def add(self, path, message):
        self.lines.append(f"{Path(path).relative_to(self.root)}: {message}")

    def finish(self, checked):
        """`checked` says what was looked at and how many; a check that looked at nothing is itself a failure."""
        what, count = checked
        if count == 0:
            self.lines.append(f"found no {what} under {self.root}: nothing was checked")
        for line in self.lines:
            print(line)
        print(f"{len(self.lines)} problem(s), {count} {what} checked")
        sys.exit(1 if self.lines else 0)
