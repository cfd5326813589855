"""torchvision_rate.py FOLDER: the peer of picture_rate, where Debian's python3-torchvision is installed.

Decodes and crops (random-resized, to 224) every picture of FOLDER, which picture_rate has made, in this one process, and
prints how many were done in a second of processor time. Not a test; nothing depends on it.
"""
import json
import sys
import time

import torch
import torchvision

torch.set_num_threads(1)
transforms = torchvision.transforms.Compose([
    torchvision.transforms.RandomResizedCrop(224),
    torchvision.transforms.ToTensor(),
    torchvision.transforms.Normalize([0.5] * 3, [0.25] * 3),
])
pictures = torchvision.datasets.ImageFolder(sys.argv[1], transforms)
for i in range(min(20, len(pictures))):
    pictures[i]
begin = time.process_time()
for i in range(len(pictures)):
    pictures[i]
took = time.process_time() - begin
print(json.dumps({"bench": "data", "source": "torchvision", "threads": 1, "pictures": len(pictures),
                  "samples_per_cpu_s": len(pictures) / took}))
