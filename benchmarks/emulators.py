# SPDX-License-Identifier: MIT
"""APEBench's scenarios in one dimension: its five networks, and models of gnograd beside them.

The protocol is APEBench's (arXiv:2411.00180), from its package, which also makes the data: 50
trajectories of 50 steps on 160 points, 10,000 steps of Adam with 20 pairs of successive states
each, a rate that rises to 1e-3 in 2000 steps and falls by a cosine, and 30 new trajectories of 200
steps from their first state. Its networks see a periodic grid, models of gnograd 160 points in a
periodic box. Printed is the normalised RMSE after 1, 10 and 100 steps, and the geometric mean over
the first 100 steps, by which APEBench compares.

With `--json FILE` results are kept after every training, and the same command makes what is
missing: all scenarios with three seeds take a night. A training has one thread.

usage: pip install apebench    (needs JAX, and no GPU)
       python benchmarks/emulators.py --json FILE [--scenarios diff_adv ..] [--models gino ..]
"""

from __future__ import annotations

import argparse
import math
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

os.environ.setdefault("TQDM_DISABLE", "1")

import apebench
import jax
import numpy as np
import torch
from learning import train
from results import Results, add_option

import gnograd as gg
from gnograd.cli.config import PointsConfig
from gnograd.cli.point_batches import PointBatches
from gnograd.cli.point_problem import PointProblem
from gnograd.cli.torch_engine import TorchEngine
from gnograd.data import Field, Layout, PointData, Sample
from gnograd.models import NAMES, Cloud, PointModel

SCENARIOS = (
    "diff_adv", "diff_diff", "diff_adv_diff", "diff_disp", "diff_hyp_diff", "diff_burgers",
    "diff_kdv", "diff_ks", "diff_ks_cons", "diff_fisher",
)  # fmt: skip
NETS = {
    "APEBench Conv": "Conv;34;10;relu",
    "APEBench Res": "Res;26;8;relu",
    "APEBench UNet": "UNet;12;2;relu",
    "APEBench Dil": "Dil;2;32;2;relu",
    "APEBench FNO": "FNO;12;18;4;gelu",
}
"""Networks of the paper, some 30,000 parameters each."""
PEAK, RISE = 1e-3, 0.2
"""Learning rate, and the part of the training in which it rises."""


def theirs(scenario: str, net: str, seed: int, steps: int) -> dict[str, float]:
    """Train and test a network of APEBench."""
    made = apebench.scenarios.scenario_dict[scenario](
        optim_config=f"adam;{steps};warmup_cosine;0.0;{PEAK};{round(RISE * steps)}"
    )
    parameters = made.get_parameter_count(NETS[net])
    start = time.process_time()
    table, _ = made(
        task_config="predict", network_config=NETS[net], train_config="one", start_seed=seed,
        num_seeds=1,
    )  # fmt: skip
    taken = time.process_time() - start
    columns = sorted(c for c in table.columns if c.startswith("mean_nRMSE_"))
    errors = table[columns].to_numpy(float)[0]
    return {**summary(errors), "parameters": parameters, "seconds": taken / steps}


def ours(scenario: str, name: str, size: str, seed: int, steps: int) -> dict[str, float]:
    """Train and test a model of gnograd."""
    made = apebench.scenarios.scenario_dict[scenario]()
    training, test = (np.array(x) for x in (made.get_train_data(), made.get_test_data()))
    data = points_of(training)
    torch.manual_seed(seed)
    model = PointModel.for_data(data, name, size)
    config = PointsConfig(
        batch=made.batch_size, learning_rate=PEAK, weight_decay=0.0, clip=0.0, seed=seed
    )
    batches = PointBatches(model, data)
    problem = PointProblem(model, config, batches, batches, TorchEngine("cpu"))
    taken = train(problem, config, steps, rate)
    made_states = rollouts(model.eval(), data.samples[0].points, test)
    found = made.perform_tests_on_rollout(jax.numpy.asarray(made_states)[None])
    errors = np.asarray(found["mean_nRMSE"])[0]
    parameters = sum(p.numel() for p in model.parameters())
    return {**summary(errors), "parameters": parameters, "seconds": taken}


def points_of(trajectories: np.ndarray) -> PointData:
    """Trajectories (n, times, channels, points) on points of a periodic box."""
    x = np.arange(trajectories.shape[-1])[:, None] / trajectories.shape[-1]
    none, channels = np.zeros((len(x), 0), np.float32), trajectories.shape[2]
    samples = [
        Sample(x, none, x, None, none[0], np.ascontiguousarray(u.transpose(0, 2, 1), np.float32))
        for u in trajectories
    ]
    return PointData(samples, Layout(1, (), (Field("u", channels),), (), (1.0,), True))


@torch.no_grad()
def rollouts(model: PointModel, x: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Predicted states behind the first, in APEBench's form."""
    n, n_times, channels, points = test.shape
    cloud = Cloud.of(n * [model.positions(x)])
    graphs = model.graphs(cloud)
    state = model.tensor(test[:, 0].transpose(0, 2, 1).reshape(n * points, channels))
    states = []
    for _ in range(n_times - 1):
        state = model(cloud, state, None, None, graphs)
        states.append(state.view(n, points, channels).movedim(-1, 1).numpy())
    return np.stack(states, axis=1)


def rate(part: float) -> float:
    """Learning rate at a finished part of the training."""
    if part < RISE:
        return PEAK * part / RISE
    return PEAK * 0.5 * (1 + math.cos(math.pi * (part - RISE) / (1 - RISE)))


def summary(errors: np.ndarray) -> dict[str, float]:
    """Errors after some steps, and their geometric mean over the first hundred."""
    bounded = np.nan_to_num(errors, nan=1e9, posinf=1e9).clip(1e-12, 1e9)
    mean = float(np.exp(np.log(bounded[:100]).mean()))
    return {"error": mean} | {f"step {k}": float(bounded[k - 1]) for k in (1, 10, 100)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--models", nargs="+", choices=[*NAMES, *NETS], default=[*NETS, *NAMES])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--size", default="small", help="of models of gnograd")
    parser.add_argument("--steps", type=int, default=10_000, help="fewer are not the protocol")
    add_option(parser)
    given = parser.parse_args()
    torch.set_num_threads(1)
    gg.set_num_threads(1)
    results = Results(given.json)
    try:
        found = results.resume()
    except ValueError as error:
        parser.error(f"--json: {error}")
    for scenario in given.scenarios:
        for seed in given.seeds:
            for name in given.models:
                case = f"{scenario}, seed {seed}"
                if (case, name) in found:
                    continue
                if name in NETS:
                    measured = theirs(scenario, name, seed, given.steps)
                else:
                    measured = ours(scenario, name, given.size, seed, given.steps)
                results.add(case, "", name, threads=1, steps=given.steps, **measured)
                numbers = ", ".join(f"{what} {x:.4g}" for what, x in measured.items())
                print(f"{case}, {name}: {numbers}", flush=True)


if __name__ == "__main__":
    main()
