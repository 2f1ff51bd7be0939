# SPDX-License-Identifier: MIT
"""Models of PyTorch's users under DistributedDataParallel: FOLDER gets their weights."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from setting import world
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).parents[1]))
import models_of_torch as models


def train(name: str, folder: Path) -> None:
    model = models.make(name)
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(3):
        inputs, target = models.sample(name, dist.get_world_size() * step + dist.get_rank())
        optimizer.zero_grad()
        (parallel(*inputs) - target).square().mean().backward()
        optimizer.step()
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), folder / f"{name}.pt")


world()
for name in sorted(models.MODELS):
    train(name, Path(sys.argv[1]))
