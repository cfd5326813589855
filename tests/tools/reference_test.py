#!/usr/bin/env python3
"""The reference that Doxygen makes of the public headers has what their comments say; skipped where Doxygen is not.

usage: reference_test.py DOXYFILE OUTPUT_DIR
    DOXYFILE is the one of the target `reference`, which writes to OUTPUT_DIR.
"""
import html
import os
import re
import shutil
import subprocess
import sys

# Of a page: what stands above a function, behind a member, and at the beginning of a file.
WANTED = {
    "structmuster_1_1trainer_1_1SessionOptions.html": ["samples of a step, over all lanes", "after_commit"],
    "classmuster_1_1trainer_1_1Session.html": ["Becomes one of the workers that train", "tensors that the program has made"],
    "classmuster_1_1trainer_1_1Worker.html": ["Replaces every gradient by its mean over the workers"],
    "structmuster_1_1compute_1_1Adam.html": ["lr"],
    "session_8h.html": ["one model in synchronous training"],
}


def main():
    doxyfile, output = sys.argv[1:3]
    if shutil.which("doxygen") is None or not os.path.exists(doxyfile):
        print("doxygen is not installed")
        sys.exit(77)
    done = subprocess.run(["doxygen", doxyfile], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for page, texts in WANTED.items():
        path = os.path.join(output, "html", page)
        assert os.path.exists(path), f"there is no {page}"
        with open(path) as file:
            text = html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", file.read())))
        for wanted in texts:
            assert re.search(wanted, text), f"{page} does not say \"{wanted}\""
    print(f"{len(WANTED)} pages were read")


main()
