"""Trains a small convolutional network on a folder of photos, one folder a class: `train.py PHOTOS [SHARDS]`

    python -m packhorse synth images --count 600 --out photos      # if you have no photos
    python examples/python/train.py photos

The first run packs the photos into SHARDS (by default `PHOTOS-shards`). Stop it and start it again: it goes on after the last epoch
that it saved.
"""

import argparse
import os

import torch
from torch import nn

import packhorse

parser = argparse.ArgumentParser(description="Trains a small network on a folder of photos, one folder a class.")
parser.add_argument("photos")
parser.add_argument("shards", nargs="?")
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--size", type=int, default=64)
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
arguments = parser.parse_args()

shards = arguments.shards or arguments.photos.rstrip("/") + "-shards"
checkpoint = shards + ".pt"
packhorse.pack(arguments.photos, shards, to="webdataset", labels="folders", on_error="skip")
dataset = packhorse.open(shards)


def stage(inside, outside):
    return nn.Conv2d(inside, outside, 3, padding=1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(), nn.MaxPool2d(2)


torch.manual_seed(7)
head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, len(dataset.classes)))
network = nn.Sequential(*stage(3, 16), *stage(16, 32), *stage(32, 64), *head).to(arguments.device)
optimizer = torch.optim.Adam(network.parameters(), 2e-3)

picture = packhorse.Image("jpg;jpeg;png", arguments.size, crop="random", scale=(0.5, 1), flip=0.5, normalize="imagenet")
loader = dataset.loader(32, seed=7, fields={"image": picture, "label": "cls"}, on_error="skip", device=arguments.device)
print(loader.explain())
begin = 0
if os.path.exists(checkpoint):
    saved = torch.load(checkpoint, map_location=arguments.device)
    network.load_state_dict(saved["network"])
    optimizer.load_state_dict(saved["optimizer"])
    loader.load_state_dict(saved["loader"])
    begin = saved["epoch"] + 1

# The whole training.
for epoch in range(begin, arguments.epochs):
    losses = []
    for batch in loader:
        loss = nn.functional.cross_entropy(network(batch["image"].torch()), batch["label"].torch())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    saved = {"network": network.state_dict(), "optimizer": optimizer.state_dict(), "loader": loader.state_dict(), "epoch": epoch}
    torch.save(saved, checkpoint)
    stats = loader.stats()
    print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}, {stats['late']} of {stats['batches']} batches were late")
