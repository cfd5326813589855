// PyTorch DDP over Gloo as the peer of `muster bench step --against ddp`: the program that python3 runs.
//
// The same model, batch, threads and optimizer, on tensors that are ready in memory; the same lines on standard input
// and output as a team of Muster's (workers.cpp).
#pragma once

#include <string_view>

namespace muster::cli {

constexpr std::string_view kDdpPeer = R"python(
import json, sys, time
try:
    import torch
    import torch.distributed as dist
    from torch import nn
    if sys.argv[4].startswith("resnet"):
        import torchvision
except ImportError as error:
    sys.exit(f"muster: --against ddp needs python3-torch and python3-torchvision ({error}). Install these packages, or "
             "pip install torch torchvision into a virtual environment and name its Python by --python")

rank, size, meeting, model, batch, threads, steps, chosen, turns = (
    int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]), int(sys.argv[6]), int(sys.argv[7]),
    sys.argv[8], sys.argv[9])
asks, answers = sys.stdin, sys.stdout
if turns and rank == 0:
    asks, answers = open(turns + ".in"), open(turns + ".out", "w")
torch.set_num_threads(threads)
torch.manual_seed(1)
dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=size)

# As muster/model/zoo/transformer.cpp, operation by operation.
class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.attn_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.mlp_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, hidden):
        n, t, w = x.shape
        q, k, v = self.c_attn(self.ln_1(x)).view(n, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        a = torch.matmul(q * (w // self.heads) ** -0.5, k.transpose(2, 3))
        a = a.masked_fill(hidden, float("-inf")).softmax(-1)
        x = x + self.attn_proj(torch.matmul(a, v).transpose(1, 2).reshape(n, t, w))
        return x + self.mlp_proj(nn.functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))

class Transformer(nn.Module):
    def __init__(self, layers, width, heads, context, vocabulary):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.h = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):
        t = tokens.shape[1]
        x = self.wte(tokens) + self.wpe.weight[:t]
        hidden = torch.ones(t, t, dtype=torch.bool).triu(1)
        for block in self.h:
            x = block(x, hidden)
        return nn.functional.linear(self.ln_f(x), self.wte.weight)

cross_entropy = nn.CrossEntropyLoss()
if model == "transformer":
    net = Transformer(4, 256, 4, 64, 256)
    data = [(torch.randint(0, 256, (batch, 65)), None) for _ in range(8)]
    def loss(net, x, y):
        return cross_entropy(net(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
else:
    if model == "mlp":
        net = nn.Sequential(nn.Flatten(), nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(),
                            nn.Linear(2048, 10))
        shape = (1, 28, 28)
    elif model in ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152"):
        net = getattr(torchvision.models, model)(num_classes=10)
        shape = (3, 32, 32)
    else:
        sys.exit(f"muster: --against ddp knows mlp, transformer and resnet18 to resnet152, not {model}")
    data = [(torch.randn(batch, *shape), torch.randint(0, 10, (batch,))) for _ in range(8)]
    def loss(net, x, y):
        return cross_entropy(net(x), y)
net = nn.parallel.DistributedDataParallel(net)
if chosen == "adam":
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
else:
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)
count = 0

def step():
    global count
    start = time.perf_counter()
    x, y = data[count % len(data)]
    count += 1
    optimizer.zero_grad()
    loss(net, x, y).backward()
    optimizer.step()
    return 1e3 * (time.perf_counter() - start)

# What this process holds of the model's state: parameters, gradients, optimizer state, and the buckets, which are a
# second copy of the gradients; their sizes are DDP's own word.
def state_bytes():
    tensors = []
    for parameter in net.parameters():
        tensors += [parameter, parameter.grad]
        tensors += [value for value in optimizer.state[parameter].values() if torch.is_tensor(value)]
    log = net._get_ddp_logging_data()
    buckets = log.get("rebuilt_bucket_sizes") or log.get("bucket_sizes") or ""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor is not None) + sum(
        int(bytes) for bytes in buckets.split(",") if bytes.strip())

while True:
    go = torch.zeros(1)
    if rank == 0:
        go[0] = 1 if asks.readline() else 0
    dist.broadcast(go, 0)
    if go.item() == 0:
        break
    step()
    total = [step() for _ in range(steps)]
    state = torch.tensor([float(state_bytes())], dtype=torch.float64)
    dist.all_reduce(state)
    if rank == 0:
        print(json.dumps({"total": total, "state_bytes": state.item()}), file=answers, flush=True)
)python";

}  // namespace muster::cli
