// PyTorch's tensor and pipeline parallelism over Gloo as peers of `muster bench tensor|pipeline --against torch`: the
// program that python3 runs. The same net, batch, micro-batches, threads and optimizer, on tensors that are ready in
// memory; the same lines on standard input and output as a team of Muster's (team.h).
#pragma once

#include <string_view>

namespace muster::cli {

constexpr std::string_view kMeshPeer = R"python(
import json, sys, time
try:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module
except ImportError as error:
    sys.exit(f"muster: --against torch needs a current PyTorch ({error}). pip install torch into a virtual environment "
             "and name its Python by --python")

rank, size, meeting, by, schedule = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5]
layers, width, heads, context, vocabulary, batch, lanes, threads, steps, chunks = map(int, sys.argv[6:])
torch.set_num_threads(threads)
torch.manual_seed(1)
dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=size)
members = size if by == "tensor" else 1

# As muster/model/zoo/transformer.cpp; in a team queries, keys and values are apart, so that their rows can be divided by
# heads.
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        if members > 1:
            self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        else:
            self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        n, t, _ = x.shape
        depth = width // heads
        apart = (self.q(x), self.k(x), self.v(x)) if members > 1 else self.qkv(x).split(width, 2)
        q, k, v = (y.view(n, t, heads // members, depth).transpose(1, 2) for y in apart)
        a = torch.matmul(q * depth ** -0.5, k.transpose(2, 3))
        a = a.masked_fill(hidden, float("-inf")).softmax(-1)
        return self.proj(torch.matmul(a, v).transpose(1, 2).reshape(n, t, -1))

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2, self.attn = nn.LayerNorm(width), nn.LayerNorm(width), Attention()
        self.c_fc, self.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.c_proj(nn.functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))

class Embed(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)

    def forward(self, tokens):
        return self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]

class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, x):
        return self.lm_head(self.ln_f(x))

hidden = torch.ones(context, context, dtype=torch.bool).triu(1)
data = [torch.randint(0, vocabulary, (batch, context + 1), generator=torch.Generator().manual_seed(i)) for i in range(8)]

def loss_of(scores, target):
    return nn.functional.cross_entropy(scores.flatten(0, 1), target.flatten())

if by == "tensor":
    mesh = init_device_mesh("cpu", (size,))
    net = nn.Sequential(Embed(), *[Block() for _ in range(layers)], Head())
    plan = {"0.wte": RowwiseParallel(input_layouts=Replicate()),
            f"{layers + 1}.lm_head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)}
    for i in range(1, layers + 1):
        plan |= {f"{i}.attn.{name}": ColwiseParallel() for name in ("q", "k", "v")}
        plan |= {f"{i}.attn.proj": RowwiseParallel(), f"{i}.c_fc": ColwiseParallel(), f"{i}.c_proj": RowwiseParallel()}
    net = parallelize_module(net, mesh, plan)
    net[-1].lm_head.weight = net[0].wte.weight
    def forward_backward(tokens):
        for part in tokens.chunk(lanes):
            with loss_parallel():
                (loss_of(net(part[:, :-1]), part[:, 1:]) / lanes).backward()
else:
    # Embedding and output layer are on different stages, so each has a copy, as users of torch's pipelining have it.
    parts = size * (chunks if schedule == "interleaved" else 1)
    net, stages = nn.ModuleList(), []
    for part in range(rank, parts, size):
        blocks = range(layers * part // parts, layers * (part + 1) // parts)
        net.append(nn.Sequential(*([Embed()] if part == 0 else []), *[Block() for _ in blocks],
                                 *([Head()] if part == parts - 1 else [])))
        stages.append(PipelineStage(net[-1], part, parts, torch.device("cpu")))
    if schedule == "interleaved":
        pipeline = ScheduleInterleaved1F1B(stages, lanes, loss_fn=loss_of)
    else:
        pipeline = (ScheduleGPipe if schedule == "gpipe" else Schedule1F1B)(stages[0], lanes, loss_fn=loss_of)
    def forward_backward(tokens):
        if rank == 0:
            pipeline.step(tokens[:, :-1])
        elif rank == size - 1:
            pipeline.step(target=tokens[:, 1:])
        else:
            pipeline.step()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
count = 0

def step():
    global count
    dist.barrier()
    start = time.perf_counter()
    optimizer.zero_grad()
    forward_backward(data[count % len(data)])
    count += 1
    optimizer.step()
    dist.barrier()
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
