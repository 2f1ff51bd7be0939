# SPDX-License-Identifier: MIT
"""Models whose parameters are in parts on the processes (FSDP): FOLDER gets them whole."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

sys.path.insert(0, str(Path(__file__).parents[1]))
import models_of_torch as models


def train(name: str, folder: Path) -> None:
    model = models.make(name)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.children():
        if not isinstance(layer, torch.nn.ModuleList):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(3):
        inputs, target = models.sample(name, dist.get_world_size() * step + dist.get_rank())
        optimizer.zero_grad()
        (model(*inputs) - target).square().mean().backward()
        optimizer.step()
    whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
    parameters = get_model_state_dict(model, options=whole)
    if dist.get_rank() == 0:
        torch.save(parameters, folder / f"{name}.pt")


dist.init_process_group("gloo")
for name in sorted(models.MODELS):
    train(name, Path(sys.argv[1]))
dist.destroy_process_group()
