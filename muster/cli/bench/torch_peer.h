// Python's torch and torchvision as the peer of `muster bench models --against torch`: the program that python3 runs.
//
// The nets of muster/model/zoo as a Python user would write them, torchvision's own where it has them. Each line on
// standard input is a turn, answered by one line of JSON (team.h).
#pragma once

#include <string_view>

namespace muster::cli {

constexpr std::string_view kTorchPeer = R"python(
import json, re, sys, time
try:
    import torch
    import torchvision
    from torch import nn
    from torch.nn import functional as F
except ImportError as error:
    sys.exit(f"muster: --against torch needs python3-torch and python3-torchvision ({error})")

name, batch, threads, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
spec = json.loads(sys.argv[5])  # shape, classes, vocabulary, columns
torch.set_num_threads(threads)
torch.manual_seed(1)
shape, classes = spec["shape"], spec["classes"]

def conv(i, o, k, stride=1, groups=1):
    return nn.Conv2d(i, o, k, stride, k // 2, groups=groups, bias=False)

class CifarBlock(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.conv1, self.bn1, self.conv2, self.bn2 = conv(i, o, 3, stride), nn.BatchNorm2d(o), conv(o, o, 3), nn.BatchNorm2d(o)
        self.stride, self.new = stride, o - i
    def forward(self, x):
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True)))
        if self.stride != 1:
            x = F.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, 0, self.new))
        out += x
        return F.relu(out, inplace=True)

class Cifar(nn.Module):
    def __init__(self, depth):
        super().__init__()
        n = (depth - 2) // 6
        self.conv1, self.bn1 = conv(shape[0], 16, 3), nn.BatchNorm2d(16)
        self.blocks = nn.Sequential(*[CifarBlock(16 << s if b or not s else 8 << s, 16 << s, 2 if s and not b else 1)
                                      for s in range(3) for b in range(n)])
        self.fc = nn.Linear(64, classes)
    def forward(self, x):
        x = self.blocks(F.relu(self.bn1(self.conv1(x)), inplace=True))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))

class WideBlock(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.bn1, self.conv1, self.bn2, self.conv2 = nn.BatchNorm2d(i), conv(i, o, 3, stride), nn.BatchNorm2d(o), conv(o, o, 3)
        self.shortcut = conv(i, o, 1, stride) if i != o else None
    def forward(self, x):
        first = F.relu(self.bn1(x), inplace=True)
        out = self.conv2(F.relu(self.bn2(self.conv1(first)), inplace=True))
        return out + (self.shortcut(first) if self.shortcut else x)

class Wide(nn.Module):
    def __init__(self, depth, k):
        super().__init__()
        n = (depth - 4) // 6
        width = [16, 16 * k, 32 * k, 64 * k]
        self.conv1 = conv(shape[0], 16, 3)
        self.blocks = nn.Sequential(*[WideBlock(width[s] if b == 0 else width[s + 1], width[s + 1], 2 if s and not b else 1)
                                      for s in range(3) for b in range(n)])
        self.bn, self.fc = nn.BatchNorm2d(64 * k), nn.Linear(64 * k, classes)
    def forward(self, x):
        x = F.relu(self.bn(self.blocks(self.conv1(x))), inplace=True)
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))

def conv_norm(i, o, k, stride=1, groups=1, relu=True):
    return nn.Sequential(conv(i, o, k, stride, groups), nn.BatchNorm2d(o), *([nn.ReLU(inplace=True)] if relu else []))

class Inverted(nn.Module):
    def __init__(self, i, o, stride, kernel, expansion, groups):
        super().__init__()
        mid = i * expansion
        self.expand = conv_norm(i, mid, 1, groups=groups)
        self.rest = nn.Sequential(conv_norm(mid, mid, kernel, stride, mid), conv_norm(mid, o, 1, groups=groups, relu=False))
        self.groups, self.residual = groups, stride == 1 and i == o
    def forward(self, x):
        out = self.expand(x)
        if self.groups > 1:
            n, c, h, w = out.shape
            out = out.view(n, self.groups, c // self.groups, h, w).transpose(1, 2).reshape(n, c, h, w)
        out = self.rest(out)
        return out + x if self.residual else out

def fbnet(variant):
    places = [(16, 1)] + [(24, 2)] + 3 * [(24, 1)] + [(32, 2)] + 3 * [(32, 1)] + [(64, 2)] + 3 * [(64, 1)] + 4 * [(112, 1)] + [
        (184, 2)] + 3 * [(184, 1)] + [(352, 1)]
    # kernel, expansion, groups of each block; a dash was left out by the search
    choices = {"a": "- 331 311 - - 561 331 511 331 561 531 512 561 361 512 531 312 561 561 531 561 561",
               "b": "311 361 511 311 311 561 531 361 561 561 511 - 531 561 311 511 531 561 511 561 561 361",
               "c": "311 361 - 311 311 561 531 561 361 561 531 561 561 561 561 561 531 561 561 561 561 361"}[variant].split()
    head, width, blocks = 1504 if variant == "a" else 1984, 16, []
    for (o, stride), choice in zip(places, choices):
        if choice != "-":
            blocks.append(Inverted(width, o, stride, *(int(digit) for digit in choice)))
            width = o
    return nn.Sequential(conv_norm(shape[0], 16, 3, 2), *blocks, conv_norm(width, head, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(head, classes))

def block_net(words):
    parts = [{letter: int(number) for letter, number in re.findall(r"([a-z]?)(\d+)", word)} for word in words]
    width = parts[0][""]
    blocks = [conv_norm(shape[0], width, 3, parts[0].get("s", 1))]
    for part in parts[1:-1]:
        blocks.append(Inverted(width, part[""], part.get("s", 1), part["k"], part["e"], part.get("g", 1)))
        width = part[""]
    head = parts[-1][""]
    return nn.Sequential(*blocks, conv_norm(width, head, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(head, classes))

class Recurrent(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(spec["vocabulary"], 64), cell(64, 256, 2, batch_first=True)
        self.fc = nn.Linear(256, classes)
    def forward(self, x):
        return self.fc(self.rnn(self.embedding(x))[0])

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.ln_1, self.ln_2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.attn_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.mlp_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    def forward(self, x, hidden):
        n, t, w = x.shape
        q, k, v = self.c_attn(self.ln_1(x)).view(n, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        a = torch.matmul(q * (w // self.heads) ** -0.5, k.transpose(2, 3)).masked_fill(hidden, float("-inf")).softmax(-1)
        x = x + self.attn_proj(torch.matmul(a, v).transpose(1, 2).reshape(n, t, w))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))

class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(spec["vocabulary"], 256), nn.Embedding(shape[0], 256)
        self.h, self.ln_f = nn.ModuleList([Block(256, 4) for _ in range(4)]), nn.LayerNorm(256)
    def forward(self, tokens):
        t = tokens.shape[1]
        x, hidden = self.wte(tokens) + self.wpe.weight[:t], torch.ones(t, t, dtype=torch.bool).triu(1)
        for block in self.h:
            x = block(x, hidden)
        return F.linear(self.ln_f(x), self.wte.weight)

class WideDeep(nn.Module):
    def __init__(self):
        super().__init__()
        self.columns = spec["columns"]
        widths = [-int(-6 * c ** 0.25 // 1) for c in self.columns if c > 1]
        self.embeddings = nn.ParameterList([nn.Parameter(torch.randn(c, w)) for c, w in
                                            zip([c for c in self.columns if c > 1], widths)])
        inputs = sum(widths) + self.columns.count(1)
        self.wide = nn.Linear(sum(self.columns), classes)
        self.deep = nn.Sequential(nn.Linear(inputs, 256), nn.ReLU(inplace=True), nn.Linear(256, 128), nn.ReLU(inplace=True),
                                  nn.Linear(128, 64), nn.ReLU(inplace=True), nn.Linear(64, classes))
    def forward(self, x):
        parts, tables = [], iter(self.embeddings)
        for part in x.split(self.columns, 1):
            parts.append(part if part.shape[1] == 1 else part @ next(tables))
        return self.wide(x) + self.deep(torch.cat(parts, 1))

def cnn():
    return nn.Sequential(conv(shape[0], 16, 5, 2), nn.BatchNorm2d(16), nn.ReLU(inplace=True), conv(16, 32, 3),
                         nn.BatchNorm2d(32), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.25),
                         nn.Linear(32 * ((shape[1] + 1) // 4) * ((shape[2] + 1) // 4), 128), nn.ReLU(inplace=True),
                         nn.Linear(128, classes))

def mlp():
    inputs = 1
    for extent in shape:
        inputs *= extent
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 2048), nn.ReLU(inplace=True), nn.Linear(2048, 2048),
                         nn.ReLU(inplace=True), nn.Linear(2048, classes))

if name in ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "wide_resnet50_2", "wide_resnet101_2"):
    net = getattr(torchvision.models, name)(num_classes=classes)
elif name.startswith("resnet"):
    net = Cifar(int(name[6:]))
elif name.startswith("wrn-"):
    net = Wide(*(int(number) for number in name.split("-")[1:]))
elif name.startswith("fbnet_"):
    net = fbnet(name[-1])
elif name.startswith("fbnet-"):
    net = block_net(name.split("-")[1:])
else:
    net = {"mlp": mlp, "cnn": cnn, "lstm": lambda: Recurrent(nn.LSTM), "gru": lambda: Recurrent(nn.GRU),
           "transformer": Transformer, "wide_deep": WideDeep}[name]()
x = torch.randint(0, spec["vocabulary"], (batch, *shape)) if spec["vocabulary"] else torch.randn(batch, *shape)
y = torch.zeros(batch * (shape[0] if spec["vocabulary"] else 1), dtype=torch.int64)

def step():
    for parameter in net.parameters():
        parameter.grad = None
    start, cpu_start = time.perf_counter(), time.process_time()
    F.cross_entropy(net(x).flatten(0, -2), y).backward()
    return 1e3 * (time.perf_counter() - start), 1e3 * (time.process_time() - cpu_start)

for line in sys.stdin:
    step()
    wall, cpu = zip(*[step() for _ in range(steps)])
    print(json.dumps({"wall": wall, "cpu": cpu,
                      "parameters": sum(parameter.numel() for parameter in net.parameters())}), flush=True)
)python";

}  // namespace muster::cli
