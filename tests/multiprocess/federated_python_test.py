#!/usr/bin/env python3
"""A client written in Python from the public contract trains beside one of Muster's, through a server that is killed.

usage: federated_python_test.py MUSTER PROTO
Skips itself (exit code 77) where there is no gRPC for Python; of Debian: apt-get install python3-grpcio.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
DEBIAN = "/usr/bin/python3"

try:
    import grpc  # noqa: F401
except ImportError:
    if os.path.realpath(sys.executable) != os.path.realpath(DEBIAN) and os.path.exists(DEBIAN):
        os.execv(DEBIAN, [DEBIAN] + sys.argv)
    print("skipped: no gRPC for Python here (apt-get install python3-grpcio)")
    sys.exit(SKIPPED)

MUSTER = os.path.abspath(sys.argv[1])
PROTO = pathlib.Path(sys.argv[2]).resolve()
CLIENT = pathlib.Path(__file__).resolve().parent / "federated_client.py"
PATIENCE = 120

JOB = """
[data]
source = "synthetic"
shape = [6]
classes = 3
samples = 60
test_samples = 30
batch = 10
[model]
name = "mlp"
hidden = [0]
[federated]
clients = 2
per_round = 2
rounds = 5
wait_for = 2
"""


def until(what, deadline=PATIENCE):
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.05)  # sleeps: looks again at files, which tell nobody
    raise AssertionError("it does not come")


def rows(run):
    text = (run / "metrics.jsonl").read_text() if (run / "metrics.jsonl").exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def main(folder):
    subprocess.run(
        ["protoc", f"--proto_path={PROTO.parent}", f"--python_out={folder}", f"--grpc_python_out={folder}",
         "--plugin=protoc-gen-grpc_python=/usr/bin/grpc_python_plugin", PROTO.name], check=True)
    (folder / "job.toml").write_text(JOB)
    started = []

    def start(*words):
        started.append(subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True))
        return started[-1]

    try:
        server = start(MUSTER, "federated", "server", "job.toml", "--listen", "127.0.0.1:0", "--quiet")
        run = until(lambda: [path.parent for path in folder.glob("runs/*/address")])[0]
        address = (run / "address").read_text().strip()
        python = start(sys.executable, str(CLIENT), str(folder), address, "in-python")
        ours = start(MUSTER, "federated", "client", "--join", address, "--as", "1")
        until(lambda: len(rows(run)) >= 2)
        server.send_signal(signal.SIGKILL)
        server.wait()
        server = start(MUSTER, "federated", "server", "job.toml", "--listen", address, "--run", str(run), "--quiet")
        assert server.wait(PATIENCE) == 0
        out, _ = python.communicate(timeout=PATIENCE)
        assert python.returncode == 0, out
        assert ours.wait(PATIENCE) == 0
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
                process.wait()
    rounds = [row for row in rows(run) if row["event"] == "round"]
    assert [row["round"] for row in rounds] == [1, 2, 3, 4, 5], rounds
    assert all(row["counted"] == 2 for row in rounds), rounds
    assert sorted((run / "clients.txt").read_text().split()) == ["0", "1", "client-1", "in-python"]
    losses = [float(line.split()[3]) for line in out.splitlines() if line.endswith("ACCEPTED")]
    assert len(losses) >= 5 and losses[-1] < losses[0], out


if __name__ == "__main__":
    assert len(CLIENT.read_text().splitlines()) < 150
    with tempfile.TemporaryDirectory() as name:
        main(pathlib.Path(name))
