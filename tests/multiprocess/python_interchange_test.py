#!/usr/bin/env python3
"""Files of weights and of optimizers' states travel between Muster and Python's torch, both ways.

usage: python_interchange_test.py MUSTER [TEST]
Skips itself (exit code 77) where there is no torch for Python; of Debian: apt-get install python3-torch python3-torchvision.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
DEBIAN = "/usr/bin/python3"

try:
    import torch
except ImportError:
    if os.path.realpath(sys.executable) != os.path.realpath(DEBIAN) and os.path.exists(DEBIAN):
        os.execv(DEBIAN, [DEBIAN] + sys.argv)
    print("skipped: no torch for Python here (apt-get install python3-torch python3-torchvision)")
    sys.exit(SKIPPED)
import numpy

MUSTER = os.path.abspath(sys.argv[1])
SAMPLES, FEATURES, CLASSES = 24, 6, 3

JOB = """
[job]
name = "exchange"
steps = {steps}
lanes = 1
[data]
source = "numpy"
path = "data.npz"
batch = 24
mean = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
std = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
[model]
name = "mlp"
hidden = [5]
dropout = 0.0
{model}
[optimizer]
{optimizer}
[checkpoint]
every_steps = 1
keep = 100
"""

# What both sides train with: the job's lines, and the same in Python.
OPTIMIZERS = {
    "sgd": ('name = "sgd"\nlr = 0.1\nmomentum = 0.9\nweight_decay = 0.01\nnesterov = true',
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True)),
    "adam": ('name = "adam"\nlr = 0.01\nweight_decay = 0.01',
             lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.01)),
    "adamw": ('name = "adamw"\nlr = 0.01', lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.01)),
}


class Mlp(torch.nn.Module):
    """The zoo's mlp."""

    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(FEATURES, 5)
        self.fc2 = torch.nn.Linear(5, CLASSES)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


def safetensors(path):
    """Float tensors of a safetensors file, with nothing but Python."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    header.pop("__metadata__", None)
    kinds = {"F32": "<f4", "F64": "<f8", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1",
             "BOOL": "?"}
    return {name: numpy.frombuffer(data[slice(*entry["data_offsets"])], kinds[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items() if entry["dtype"] in kinds}


class Exchange(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="muster-exchange-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        torch.manual_seed(1)

    def muster(self, *arguments, fails=False):
        result = subprocess.run([MUSTER, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=200,
                                check=False)
        self.assertEqual(result.returncode != 0, fails, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def checkpoint(self, step):
        run, = os.listdir(self.path("runs"))
        return os.path.join("runs", run, "checkpoints", f"step-{step:012}")

    def make_data(self):
        random = numpy.random.default_rng(1)
        x = random.standard_normal((SAMPLES, FEATURES)).astype(numpy.float32)
        y = random.integers(0, CLASSES, SAMPLES).astype(numpy.int64)
        y[:CLASSES] = range(CLASSES)
        numpy.savez(self.path("data.npz"), x_train=x, y_train=y, x_test=x, y_test=y)
        return torch.from_numpy(x), torch.from_numpy(y)

    def step(self, net, optimizer, x, y):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()

    def assert_same(self, state, tensors):
        for name, value in state.items():
            numpy.testing.assert_allclose(tensors[name], value.detach().numpy(), rtol=1e-4, atol=1e-6, err_msg=name)

    def test_pythons_optimizer_goes_on_from_ours(self):
        for name, (lines, make) in OPTIMIZERS.items():
            with self.subTest(name):
                self.setUp()
                x, y = self.make_data()
                self.write("job.toml", JOB.format(steps=4, model="", optimizer=lines))
                self.muster("train", "job.toml")
                self.muster("model", "convert", self.checkpoint(3), "net.pth", "--optimizer", "optimizer.pth")
                net = Mlp()
                net.load_state_dict(torch.load(self.path("net.pth"), weights_only=True))
                optimizer = make(net.parameters())
                # Not with weights_only: that of PyTorch 1.13 knows no floats, in files of its own neither.
                optimizer.load_state_dict(torch.load(self.path("optimizer.pth")))
                self.assertTrue(optimizer.state_dict()["state"])
                self.step(net, optimizer, x, y)
                ours = safetensors(os.path.join(self.folder, self.checkpoint(4), "model.safetensors"))
                self.assert_same(net.state_dict(), ours)

    def test_we_go_on_from_pythons_optimizer(self):
        for name, (lines, make) in OPTIMIZERS.items():
            with self.subTest(name):
                self.setUp()
                x, y = self.make_data()
                net = Mlp()
                optimizer = make(net.parameters())
                for _ in range(3):
                    self.step(net, optimizer, x, y)
                torch.save(net.state_dict(), self.path("net.pth"))
                torch.save(optimizer.state_dict(), self.path("optimizer.pth"))
                self.step(net, optimizer, x, y)
                self.write("job.toml", JOB.format(steps=1, model='init = "net.pth"',
                                                  optimizer=lines + '\ninit = "optimizer.pth"'))
                output = self.muster("train", "job.toml")
                self.assertRegex(output, r"loaded 4 of 4 tensors from \S*net\.pth")
                self.assertIn("optimizer's state of 4 parameters", output)
                ours = safetensors(os.path.join(self.folder, self.checkpoint(1), "model.safetensors"))
                self.assert_same(net.state_dict(), ours)

    def test_tensors_of_every_kind_are_read(self):
        base = torch.arange(24, dtype=torch.float32)
        tensors = {"plain": base.reshape(2, 3, 4), "transposed": base.reshape(4, 6).t(), "offset": base[5:9],
                   "strided": base[1::3], "scalar": torch.tensor(2.5), "empty": torch.zeros(0, 3),
                   "parameter": torch.nn.Parameter(torch.ones(2)), "half": base[:4].half(), "double": base[:4].double(),
                   "long": torch.arange(3), "int": torch.arange(3, dtype=torch.int32), "bool": torch.tensor([True, False]),
                   "byte": torch.arange(3, dtype=torch.uint8), "channels_last":
                   torch.arange(48.).reshape(2, 3, 2, 4).contiguous(memory_format=torch.channels_last)}
        torch.save({"epoch": 3, "state_dict": tensors, "best": None}, self.path("a.pth"))
        output = self.muster("model", "convert", "a.pth", "a.safetensors")
        self.assertIn('"state_dict"', output)
        read = safetensors(self.path("a.safetensors"))
        self.assertEqual(set(read), set(tensors))
        self.muster("model", "convert", "a.safetensors", "b.pth")
        back = torch.load(self.path("b.pth"), weights_only=True)
        for name, value in tensors.items():
            numpy.testing.assert_array_equal(read[name], value.detach().numpy(), err_msg=name)
            self.assertEqual(back[name].dtype, value.dtype)
            self.assertTrue(torch.equal(back[name], value.detach()), name)
        # The same contents whatever the format.
        hashes = {json.loads(self.muster("model", "show", name, "--json"))["contents"]
                  for name in ("a.pth", "a.safetensors", "b.pth")}
        self.assertEqual(len(hashes), 1)

    def test_nothing_of_a_file_is_executed(self):
        class Evil:
            def __reduce__(self):
                return os.system, ("touch executed",)
        torch.save({"w": torch.ones(1), "x": Evil()}, self.path("evil.pth"))
        self.assertIn("posix.system", self.muster("model", "show", "evil.pth", fails=True))
        self.assertFalse(os.path.exists(self.path("executed")))
        torch.save({"w": torch.ones(1)}, self.path("old.pth"), _use_new_zipfile_serialization=False)
        self.assertIn("before 1.6", self.muster("model", "show", "old.pth", fails=True))

    def test_resnet18_is_torchvisions(self):
        try:
            import torchvision
        except ImportError:
            self.skipTest("no torchvision for Python here")
        net = torchvision.models.resnet18(num_classes=10)
        net.train()
        for _ in range(2):
            net(torch.randn(4, 3, 32, 32))  # statistics of its own
        net.eval()
        torch.save(net.state_dict(), self.path("theirs.pth"))
        self.write("job.toml", '[job]\nsteps = 1\n[data]\nsource = "synthetic"\nshape = [3, 32, 32]\nclasses = 10\n'
                               'samples = 8\ntest_samples = 4\nbatch = 8\n[model]\nname = "resnet18"\n'
                               'init = "theirs.pth"\n[optimizer]\nlr = 0.01\n')
        # Their weights in our net, which Python then runs as TorchScript.
        self.muster("model", "convert", "theirs.pth", "ours.pt", "--job", "job.toml")
        script = torch.jit.load(self.path("ours.pt")).eval()
        batch = torch.randn(5, 3, 32, 32)
        with torch.no_grad():
            self.assertTrue(torch.allclose(script(batch), net(batch), atol=1e-4, rtol=1e-4))
        # What we train from their weights, in their net.
        self.assertIn("loaded 122 of 122 tensors", self.muster("train", "job.toml"))
        self.muster("model", "convert", self.checkpoint(1), "trained.pth")
        self.muster("model", "convert", self.checkpoint(1), "trained.pt")
        net.load_state_dict(torch.load(self.path("trained.pth"), weights_only=True))
        script = torch.jit.load(self.path("trained.pt")).eval()
        with torch.no_grad():
            self.assertTrue(torch.allclose(script(batch), net(batch), atol=1e-4, rtol=1e-4))
        # A script that Python wrote is read without running it.
        torch.jit.script(net).save(self.path("theirs.pt"))
        self.muster("model", "convert", "theirs.pt", "back.pth")
        back = torch.load(self.path("back.pth"), weights_only=True)
        for name, value in net.state_dict().items():
            self.assertTrue(torch.equal(back[name], value), name)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
