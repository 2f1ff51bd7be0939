# SPDX-License-Identifier: MIT
"""Attention over points that are divided among processes, beside all points on one."""

import copy

import numpy as np
import torch
from setting import world

import gnograd as gg
import gnograd.autodiff as ad
import gnograd.torch as gt
from gnograd.distributed import shared, sum

torch.set_default_dtype(torch.float64)
CLOUDS, N = 2, 40


def close(a, b, of):
    a, b = (np.asarray(x.detach() if isinstance(x, torch.Tensor) else x) for x in (a, b))
    worst = np.abs(a - b).max(initial=0)
    assert worst <= 1e-12 * max(np.abs(b).max(initial=0), 1), f"{of}: {worst}"


class PartSlices(gt.SliceAttention):
    """Slice attention of clouds whose points several processes have."""

    def total(self, pooled):
        return shared(self.comm, sum(self.comm, pooled))


class PartFLARE(gt.FLARE):
    """FLARE's attention to points that several processes have."""

    def encode(self, latents, keys, values, cu_q, cu_k):
        step = {"block": 1, "stride": 1, "cu_q": cu_q, "cu_k": cu_k, "scale": self.scale}
        out, lse = gt.compressed_attention(latents, keys, values, **step)
        every = self.comm.all_gather(lse.detach().flatten().numpy())
        weight = torch.exp(lse - torch.tensor(every.max(0)).reshape(lse.shape))[..., None]
        total = shared(self.comm, sum(self.comm, torch.cat([weight * out, weight], -1)))
        return total[..., :-1] / total[..., -1:]


def derivatives(layer, x, weights):
    """Value, gradient, and gradients of a number made of it: as a residual is trained."""
    x = x.clone().requires_grad_()
    out = layer(x)
    (first,) = torch.autograd.grad((out * weights).sum() + out.square().sum(), x, create_graph=True)
    first.square().sum().backward()
    return out, first, x.grad


def check_layer(comm, label, whole, part, owner):
    """A layer on the points of all processes, and on each one's, in two clouds."""
    rng = np.random.default_rng(5)
    x, weights = torch.tensor(rng.normal(size=(2, CLOUDS, N, whole.dim)))
    part.load_state_dict(whole.state_dict())
    part.comm = comm
    mine = torch.tensor(owner == comm.rank)
    expected = derivatives(whole, x, weights)
    got = derivatives(part, x[:, mine], weights[:, mine])
    for of, a, b in zip(("value", "first", "second"), got, expected, strict=True):
        close(a, b[:, mine], f"{label}: {of}")
    gg.distributed.sum_gradients(comm, part)
    for (name, p), q in zip(whole.named_parameters(), part.parameters(), strict=True):
        close(q.grad, torch.zeros_like(p) if p.grad is None else p.grad, f"{label}: {name}")


def check_tape(comm, owner):
    """Slices by the operators themselves, with tokens that are attended to, on the tape."""
    rng = np.random.default_rng(6)
    points, content, seen = rng.normal(size=(3, N, 2, 3))
    slices, bias = rng.normal(size=(5, 2, 3)), rng.normal(size=(5, 2))
    mine = owner == comm.rank

    def run(rows, whole):
        tape = ad.Tape("float64")
        q, c, y = (tape.parameter(a[rows]) for a in (points, content, seen))
        k, b = tape.parameter(slices), tape.parameter(bias)
        pooled = ad.attention_pool(q, k, c, b, scale=1.0)
        if not whole:
            pooled = shared(comm, sum(comm, pooled))
        out = ad.attention(y, k, pooled, b)
        first = ad.grad(ad.sum(out * out), [q, c], create_graph=True)
        ad.sum(first[0] * first[0] + first[1] * first[1]).backward()
        return [out.value, first[0].value, q.grad, c.grad], [k.grad, b.grad]

    (expected, of_slices), (got, parts) = run(slice(None), True), run(mine, False)
    for a, b in zip(got, expected, strict=True):
        close(a, b[mine], "tape")
    for a, b in zip(parts, of_slices, strict=True):
        close(comm.sum(a), b, "tape: gradients of slices")
    pooled = gg.attention_pool(points, slices, content, bias)
    part = gg.attention_pool(points[mine], slices, content[mine], bias)
    close(shared(comm, sum(comm, part)), pooled, "NumPy")


def layers():
    torch.manual_seed(0)
    sizes = {"dim": 8, "heads": 2, "dim_head": 4}
    for plus in False, True:
        yield (
            f"slices, plus={plus}",
            *(
                kind(**sizes, slice_num=6, plus=plus, gumbel=False)
                for kind in (gt.SliceAttention, PartSlices)
            ),
        )
    yield "FLARE", gt.FLARE(**sizes, n_global_queries=5), PartFLARE(**sizes, n_global_queries=5)


def main():
    comm = world()
    rng = np.random.default_rng(comm.size)
    for owner in rng.integers(0, comm.size, N), np.full(N, comm.size - 1):
        for label, whole, part in layers():
            check_layer(comm, label, copy.deepcopy(whole), part, owner)
        check_tape(comm, owner)
    if comm.rank == 0:
        print(f"attention on {comm.size} processes")


main()
