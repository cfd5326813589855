#!/usr/bin/env python3
"""Compiles every C++ snippet of the pages, in one translation unit, against the headers that are installed.

usage: docs_snippets_test.py SOURCE_DIR COMPILER HEADERS FLAG...
    HEADERS names the public headers, one a line, as #include has them; FLAG... are those for LibTorch.

A snippet becomes the body of a function, in which names that it does not declare itself are those of PRELUDE; one with a
main() or a macro of ours stands outside of functions. Messages name page and line.
"""
import os
import re
import subprocess
import sys
import tempfile

PAGES = ["README.md", "docs/cpp-api.md", "docs/migration.md", "docs/data.md", "docs/data-pictures.md", "docs/models.md",
         "docs/model-parallel.md", "docs/parameter-server.md", "docs/training.md", "docs/tuning.md"]

# What pages speak of without saying again what it is.
PRELUDE = """
#include <cstdio>
#include "muster/muster.h"
#include "muster/data/user_sources.h"
#include "muster/model/user_models.h"
#include "muster/trainer/user_tasks.h"
extern muster::Worker worker;
extern muster::Session session;
extern muster::SessionOptions options;
extern torch::nn::Sequential net, target, generator, critic, average;
extern decltype(muster::open_source({})) data;
extern std::shared_ptr<const muster::Dataset> dataset;
extern decltype(torch::data::datasets::MNIST("").map(torch::data::transforms::Stack<>())) train;
extern std::string folder;
extern std::vector<float> gradient, weights, embeddings, features;
extern std::vector<std::int64_t> keys;
torch::Tensor kl_of(const torch::Tensor&);
std::shared_ptr<muster::model::Net> make_highway(const muster::model::ModelOptions&);
muster::data::OwnSets open_ring(const muster::data::OwnSourceOptions&);
std::shared_ptr<const muster::trainer::OwnTask> make_focal(const muster::data::SampleSpec&, const muster::OwnOptions&);
"""
PRELUDES = {"docs/tuning.md": "extern muster::StudyPlan plan;\ndouble branin(double, double);\n"}
OUTSIDE = re.compile(r"^(int main\(|MUSTER_(MODELS|SOURCES|TASKS)\()", re.MULTILINE)
# In a fence, by page: what is there to be looked at beside other code.
FEWEST = {"docs/cpp-api.md": 17, "docs/migration.md": 5, "docs/training.md": 1, "README.md": 2}


def snippets_of(text):
    """Of a page: the number of the first line of each, and its lines."""
    found, lines, first = [], None, 0
    for number, line in enumerate(text.splitlines(), 1):
        if lines is None and line.strip() == "```cpp":
            lines, first = [], number + 1
        elif lines is not None and line.strip() == "```":
            found.append((first, lines))
            lines = None
        elif lines is not None:
            lines.append(line)
    assert lines is None, "a fence is not closed"
    return found


def unit_of(source):
    """The translation unit, and how many snippets each page has."""
    includes, bodies, counts = [], [], {}
    for page in PAGES:
        with open(os.path.join(source, page)) as file:
            snippets = snippets_of(file.read())
        counts[page] = len(snippets)
        bodies.append(PRELUDES.get(page, ""))
        for first, lines in snippets:
            includes += [line.split("//")[0] for line in lines if line.startswith("#include")]
            text = "\n".join("" if line.startswith("#include") or line.strip() == "..." else line for line in lines)
            name = re.sub(r"\W", "_", f"{page}_{first}")
            place = f'\n#line {first} "{page}"\n'
            if OUTSIDE.search(text):
                bodies.append(f"namespace {name} {{{place}{text}\n}}\n")
            else:
                bodies.append(f"void {name}(int argc, char** argv) {{ for (;;) {{{place}{text}\n}} }}\n")
    return "\n".join(includes) + PRELUDE + "".join(bodies), counts


def make_headers(source, names, folder):
    for name in names:
        place = os.path.join(folder, name)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.symlink(os.path.join(source, name), place)


def compiles(compiler, flags, folder, text):
    path = os.path.join(folder, "snippets.cpp")
    with open(path, "w") as file:
        file.write(text)
    command = [compiler, "-std=c++20", "-fsyntax-only", "-w", "-I", os.path.join(folder, "include")] + flags + [path]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.returncode == 0, done.stderr


def main():
    source, compiler, headers = sys.argv[1:4]
    text, counts = unit_of(source)
    for page, least in FEWEST.items():
        assert counts[page] >= least, f"{page}: {counts[page]} snippets were found, and there are {least}"
    with tempfile.TemporaryDirectory(prefix="muster-snippets-") as folder:
        with open(headers) as file:
            make_headers(source, file.read().split(), os.path.join(folder, "include"))
        good, said = compiles(compiler, sys.argv[4:], folder, text)
        errors = [line for line in said.splitlines() if re.search(r"error|required from here", line)]
        assert good, "\n".join(errors[:40]) or said[:4000]
    print(f"{sum(counts.values())} snippets of {len(counts)} pages")


main()
