# SPDX-License-Identifier: MIT
"""pylibcugraphops under its own name: what imports find, and PyTorch Geometric's layers on it."""

import subprocess
import sys

import pytest

pytest.importorskip("torch")


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_import_under_the_old_name():
    assert run("""
import importlib.metadata, importlib.util, sys
assert importlib.util.find_spec("pylibcugraphops") is None
from gnograd.compat import install_pylibcugraphops
install_pylibcugraphops()
install_pylibcugraphops()
assert importlib.util.find_spec("pylibcugraphops.pytorch") is not None
assert importlib.util.find_spec("pylibcugraphops.no_such_module") is None
print(importlib.metadata.version("pylibcugraphops"))
from pylibcugraphops import make_mfg_csr_hg
import pylibcugraphops
assert "torch" not in sys.modules
print(pylibcugraphops.__version__)
import pylibcugraphops.pytorch
from pylibcugraphops.pytorch.graph import CSC
from pylibcugraphops.torch.autograd import mha_gat_n2n
from pylibcugraphops.typing import FgCsr
import gnograd.compat.pylibcugraphops as here
assert CSC is here.pytorch.CSC and pylibcugraphops is here
assert pylibcugraphops.pytorch.operators.__spec__.name.startswith("gnograd.")
""") == ["24.12.00", "24.12.00"]


def test_an_entry_in_sys_modules_is_enough():
    run("""
import sys
from gnograd.compat import pylibcugraphops
sys.modules["pylibcugraphops"] = pylibcugraphops
import torch
from pylibcugraphops.pytorch import CSC
from pylibcugraphops.pytorch.graph import CSC as other
from pylibcugraphops.pytorch.operators import agg_concat_n2n
for graph in (CSC, other):
    agg_concat_n2n(torch.ones(2, 1), graph(torch.tensor([0, 1]), torch.tensor([1]), 2))
""")


def test_another_package_is_not_hidden():
    run("""
import sys, types
sys.modules["pylibcugraphops"] = types.ModuleType("pylibcugraphops")
sys.modules["pylibcugraphops"].__file__ = "elsewhere"
from gnograd.compat import install_pylibcugraphops
try:
    install_pylibcugraphops()
except ImportError as error:
    assert "has been imported already, from elsewhere" in str(error)
else:
    raise SystemExit(1)
""")


# ---- PyTorch Geometric's own layers on it ----

LAYERS = """
import inspect, itertools
from gnograd.compat import install_pylibcugraphops
install_pylibcugraphops()
import torch
from torch_geometric import EdgeIndex
import torch_geometric.nn as nn
from torch_geometric.nn.conv.cugraph import base

# they refuse CPU tensors, since their package knew none
unguarded = inspect.getsource(base).replace("not row.is_cuda", "False")
scope = dict(base.__dict__)
exec(compile(unguarded, base.__file__, "exec"), scope)
for name in ("get_cugraph", "get_typed_cugraph"):
    setattr(base.CuGraphModule, name, getattr(scope["CuGraphModule"], name))
torch.manual_seed(0)
count = 0
for bipartite in (False, True):
    n = 10
    src, dst = torch.randint(n, (2, 40))
    if bipartite:
        dst = dst % 6
    size = n, 6 if bipartite else n
    edges = EdgeIndex(torch.stack([src, dst]), sparse_size=size)
    types = torch.randint(3, (40,))
    x = torch.randn(n, 5, requires_grad=True)
    of_both = (x, x[:size[1]]) if bipartite else x
    pairs = [
        (nn.SAGEConv(5, 4, aggr="max"), nn.CuGraphSAGEConv(5, 4, aggr="max"), ()),
        (nn.RGCNConv(5, 4, 3, 2), nn.CuGraphRGCNConv(5, 4, 3, 2), (types,)),
        (nn.RGCNConv(5, 4, 3, aggr="add"), nn.CuGraphRGCNConv(5, 4, 3, aggr="add"), (types,)),
    ]
    if not bipartite:
        gat = nn.GATConv(5, 4, heads=2, add_self_loops=False, bias=False)
        pairs.append((gat, nn.CuGraphGATConv(5, 4, heads=2, bias=False), (None,)))
    for theirs, on_ops, more in pairs:
        with torch.no_grad():
            if isinstance(theirs, nn.SAGEConv):
                on_ops.lin.weight.copy_(torch.cat([theirs.lin_l.weight, theirs.lin_r.weight], 1))
                on_ops.lin.bias.copy_(theirs.lin_l.bias)
            elif isinstance(theirs, nn.RGCNConv):
                on_ops.weight.copy_(torch.cat([theirs.weight, theirs.root[None]]))
                if theirs.comp is not None:
                    on_ops.comp.copy_(theirs.comp)
            else:
                on_ops.lin.weight.copy_(theirs.lin.weight)
                on_ops.att.copy_(torch.cat([theirs.att_src.flatten(), theirs.att_dst.flatten()]))
        plain = edges.as_tensor()
        expected = theirs(of_both, plain, *[m for m in more if m is not None])
        out = on_ops(x, edges, *more)
        gradients = [torch.autograd.grad(y.square().sum(), x)[0] for y in (out, expected)]
        assert torch.allclose(out, expected, atol=1e-5)
        assert torch.allclose(*gradients, atol=1e-4)
        count += 1
print(count)
"""


@pytest.mark.exhaustive
def test_layers_of_torch_geometric():
    pytest.importorskip("torch_geometric", minversion="2.6")
    assert run(LAYERS) == ["7"]
