// torchrun as a peer of `muster bench start --torchrun`: what it starts as its workers, a small net on pictures made by
// chance, up to its first step over Gloo. The row on standard output is what the benchmark waits for.
#pragma once

#include <string_view>

namespace muster::cli {

constexpr std::string_view kStartPeer = R"python(
import json, os, sys, time
try:
    import torch
    import torch.distributed as dist
    from torch import nn
except ImportError as error:
    sys.exit(f"muster: --torchrun needs PyTorch ({error}). pip install torch into a virtual environment and name its "
             "Python by --python")

torch.set_num_threads(1)
dist.init_process_group("gloo")
net = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
                    nn.Flatten(), nn.Linear(800, 10))
net = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
pictures, labels = torch.randn(64, 1, 28, 28), torch.randint(10, (64,))
nn.functional.cross_entropy(net(pictures), labels).backward()
optimizer.step()
if dist.get_rank() == 0:
    print(json.dumps({"step": 1}), flush=True)
time.sleep(600)  # until it is ended
)python";

}  // namespace muster::cli
