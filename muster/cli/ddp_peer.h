// PyTorch DDP over Gloo as the peer of `muster bench step --against ddp`: the program that python3 runs.
//
// The same model, batch, threads and optimizer, on tensors that are ready in memory; the same lines on standard input
// and output as a team of Muster's (bench_workers.cpp).
#pragma once

#include <string_view>

namespace muster::cli {

constexpr std::string_view kDdpPeer = R"python(
import json, os, sys, time
try:
    import torch
    import torch.distributed as dist
    from torch import nn
    if sys.argv[4] == "resnet18":
        import torchvision
except ImportError as error:
    sys.exit(f"muster: --against ddp needs python3-torch and python3-torchvision ({error})")

rank, size, path, model, batch, threads, steps = (
    int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]), int(sys.argv[6]), int(sys.argv[7]))
torch.set_num_threads(threads)
torch.manual_seed(1)
os.makedirs(os.path.dirname(path), exist_ok=True)
dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=size)
if model == "mlp":
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(),
                        nn.Linear(2048, 10))
    shape = (1, 28, 28)
elif model == "resnet18":
    net = torchvision.models.resnet18(num_classes=10)
    shape = (3, 32, 32)
else:
    sys.exit(f"muster: --against ddp knows mlp and resnet18, not {model}")
net = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)
loss = nn.CrossEntropyLoss()
data = [(torch.randn(batch, *shape), torch.randint(0, 10, (batch,))) for _ in range(8)]
count = 0

def step():
    global count
    start = time.perf_counter()
    x, y = data[count % len(data)]
    count += 1
    optimizer.zero_grad()
    loss(net(x), y).backward()
    optimizer.step()
    return 1e3 * (time.perf_counter() - start)

while True:
    go = torch.zeros(1)
    if rank == 0:
        go[0] = 1 if sys.stdin.readline() else 0
    dist.broadcast(go, 0)
    if go.item() == 0:
        break
    step()
    total = [step() for _ in range(steps)]
    if rank == 0:
        print(json.dumps({"total": total}), flush=True)
)python";

}  // namespace muster::cli
