# SPDX-License-Identifier: MIT
"""Layers with PyG's arguments beside PyG's own: random configurations in float64."""

import random

import pytest

torch = pytest.importorskip("torch")
pyg = pytest.importorskip("torch_geometric")

import gnograd.torch as gt  # noqa: E402
from calls import DST, SRC  # noqa: E402

float64 = torch.float64
LAYERS = ["GATConv", "GATv2Conv", "TransformerConv", "SAGEConv", "GCNConv"]
ATTENTION = LAYERS[:3]


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def pair(name, *arguments, **options):
    """PyG's layer and ours, with the same parameters after a walk of its state dict and back."""
    theirs = getattr(pyg.nn, name)(*arguments, **options).double()
    ours = getattr(gt, name)(*arguments, **options).double()
    ours.load_state_dict(theirs.state_dict(), strict=True)
    theirs.load_state_dict(ours.state_dict(), strict=True)
    assert repr(ours) == repr(theirs)
    names = [[n for n, _ in layer.named_parameters()] for layer in (theirs, ours)]
    assert names[0] == names[1]  # optimizers know parameters by their order
    return theirs, ours


def same(theirs, ours, inputs, **given):
    """Values and all gradients are equal; `given` may name inputs that are differentiated."""
    results = []
    for layer in (theirs, ours):
        out = layer(**inputs, **given)
        outputs = [out] if isinstance(out, torch.Tensor) else [out[0], *out[1]]
        real = [o for o in outputs if o.is_floating_point() and o.layout == torch.strided]
        generator = torch.Generator().manual_seed(0)
        loss = sum(
            (o * torch.rand(o.shape, generator=generator, dtype=o.dtype)).sum() for o in real
        )
        parameters = [p for p in layer.parameters() if not is_lazy(p)]
        wanted = [*leaves(inputs), *parameters]
        gradients = torch.autograd.grad(loss, wanted, allow_unused=True)
        results.append((outputs, gradients))
    (expected, expected_gradients), (outputs, gradients) = results
    for a, b in zip(outputs, expected, strict=True):
        close(dense(a), dense(b))
    for a, b in zip(gradients, expected_gradients, strict=True):
        a, b = (torch.zeros(()) if g is None else dense(g) for g in (a, b))
        close(*torch.broadcast_tensors(a.double(), b.double()))
    return outputs


def is_lazy(parameter):
    return isinstance(parameter, torch.nn.parameter.UninitializedParameter)


def dense(x):
    return x if x.layout == torch.strided else x.to_dense()


def leaves(inputs):
    found = []
    for x in inputs.values():
        for part in x if isinstance(x, tuple) else (x,):
            if isinstance(part, torch.Tensor) and part.requires_grad:
                found.append(part)
    return found


def real(*shape):
    return torch.randn(*shape, dtype=float64).requires_grad_()


def random_edges(choose, n_src, n_dst):
    """Repeated edges, self-loops and isolated nodes among them; sometimes no edges."""
    n_edges = choose([0, 1, 7, 30])
    return torch.stack([torch.randint(n, (n_edges,)) for n in (n_src, n_dst)])


def attention_case(choose, name):
    n_src, width, heads = choose([1, 5, 9]), choose([1, 4]), choose([1, 2, 3])
    bipartite = choose([False, True])
    n_dst = choose([1, 4, 9, 12]) if bipartite else n_src
    channels = (6, 3) if bipartite else choose([6, 6, -1])
    edge_dim = choose([None, None, 1, 3])
    options = dict(
        heads=heads, concat=choose([True, False]), bias=choose([True, False]), edge_dim=edge_dim,
        dropout=choose([0.0, 0.5]), aggr=choose(["add", "sum"]),
    )  # fmt: skip
    if name == "TransformerConv":
        options |= dict(beta=choose([True, False]), root_weight=choose([True, False]))
    else:
        options |= dict(
            negative_slope=choose([0.2, 0.05]), residual=choose([True, False]),
            add_self_loops=choose([True, False]),
            fill_value=choose(["mean", "add", "min", "max", 0.5, torch.rand(edge_dim or 1)]),
        )  # fmt: skip
        if name == "GATv2Conv":
            options |= dict(share_weights=choose([True, False]) and not bipartite)
    if bipartite and options.get("add_self_loops") and edge_dim and n_src < n_dst:
        options["add_self_loops"] = False  # PyG raises
    edges = random_edges(choose, n_src, n_dst)
    x = (real(n_src, 6), real(n_dst, 3)) if bipartite else real(n_src, 6)
    inputs = dict(x=x, edge_index=edges)
    if edge_dim:
        attr = real(edges.shape[1], edge_dim)
        if edge_dim == 1 and name != "TransformerConv" and choose([True, False]):
            attr = real(edges.shape[1])
        inputs["edge_attr"] = attr
    if not bipartite:
        options["flow"] = choose(["source_to_target", "target_to_source"])
    return (channels, width), options, inputs


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_equals_pyg(name):
    choose = random.Random(name).choice
    torch.manual_seed(1)
    for _ in range(120):
        arguments, options, inputs = attention_case(choose, name)
        if arguments[0] == -1:
            theirs = getattr(pyg.nn, name)(*arguments, **options)
            ours = getattr(gt, name)(*arguments, **options)
            with torch.no_grad():
                theirs.eval().double()(**inputs)
            ours.double().load_state_dict(theirs.state_dict())
        else:
            theirs, ours = pair(name, *arguments, **options)
        theirs.eval(), ours.eval()
        same(theirs, ours, inputs)
        outputs = same(theirs, ours, inputs, return_attention_weights=True)
        assert len(outputs) == 3


def test_size_and_absent_destinations_equal_pyg():
    theirs, ours = pair("GATConv", (6, 3), 4, heads=2, add_self_loops=False, residual=True)
    x, edges = real(5, 6), torch.tensor([SRC, DST])
    out = ours((x, None), edges, size=(5, 7))
    assert out.shape == (7, 8)
    close(out, theirs((x, None), edges, size=(5, 7)))
    close(ours((x, None), edges), theirs((x, None), edges))
    theirs, ours = pair("GATConv", 6, 4)
    close(ours(x, edges, size=(5, 5)), theirs(x, edges, size=(5, 5)))
    with pytest.raises(ValueError, match=r"GATConv: size is \(5, 4\), but x has 5 sources and 5"):
        ours(x, edges, size=(5, 4))
    for name in ATTENTION[1:]:
        with pytest.raises(TypeError, match=f"{name}: x has no features of destinations"):
            getattr(gt, name)(6, 4).double()((x, None), edges)


def sage_case(choose):
    n_src, bipartite = choose([1, 5, 9]), choose([False, True])
    n_dst = choose([1, 4, 12]) if bipartite else n_src
    project = choose([True, False])
    channels = (6, 3) if bipartite else 6 if project else choose([6, -1])
    options = dict(
        aggr=choose(["mean", "sum", "add", "max", "min", ["mean", "max"], ["sum", "min"]]),
        normalize=choose([True, False]), root_weight=choose([True, False]), project=project,
        bias=choose([True, False]),
    )  # fmt: skip
    if isinstance(options["aggr"], list) and channels == -1:
        channels = 6
    if not bipartite:
        options["flow"] = choose(["source_to_target", "target_to_source"])
    x = (real(n_src, 6), real(n_dst, 3)) if bipartite else real(n_src, 6)
    inputs = dict(x=x, edge_index=random_edges(choose, n_src, n_dst))
    if bipartite and choose([True, False]):
        inputs |= dict(x=(x[0], None), size=(n_src, n_dst))
    return (channels, 4), options, inputs


def test_sage_equals_pyg():
    choose = random.Random(1).choice
    torch.manual_seed(2)
    for _ in range(200):
        arguments, options, inputs = sage_case(choose)
        if arguments[0] == -1:
            theirs, ours = (
                pyg.nn.SAGEConv(*arguments, **options),
                gt.SAGEConv(*arguments, **options),
            )
            theirs.double()(**inputs)
            ours.double().load_state_dict(theirs.state_dict())
        else:
            theirs, ours = pair("SAGEConv", *arguments, **options)
        same(theirs, ours, inputs)


def test_gcn_equals_pyg():
    choose = random.Random(2).choice
    torch.manual_seed(3)
    for _ in range(200):
        n = choose([1, 5, 9])
        normalize = choose([True, True, False])
        options = dict(
            improved=choose([True, False]), normalize=normalize, bias=choose([True, False]),
            add_self_loops=normalize and choose([True, False, None]),
            flow=choose(["source_to_target", "target_to_source"]),
        )  # fmt: skip
        theirs, ours = pair("GCNConv", 6, choose([4, 8]), **options)
        edges = random_edges(choose, n, n)
        loops = edges[0] == edges[1]
        once = torch.zeros(n, dtype=torch.bool)
        for k in torch.nonzero(loops).flatten().tolist():  # PyG keeps any one of several
            if once[edges[0, k]]:
                loops[k] = False
            once[edges[0, k]] = True
        edges = edges[:, (edges[0] != edges[1]) | loops]
        inputs = dict(x=real(n, 6), edge_index=edges)
        if choose([True, False]):
            weight = (torch.rand(edges.shape[1], dtype=float64) + 0.1).requires_grad_()
            inputs["edge_weight"] = weight
        same(theirs, ours, inputs)


# ---- sparse matrices ----


def matrix_case(layout, n_src, n_dst, values=None):
    """A matrix with a row for every destination, and its edges in the order of its values."""
    filled = torch.rand(n_dst, n_src) < 0.4
    dst, src = torch.nonzero(filled).T
    if layout == "csc":
        order = (src * n_dst + dst).argsort()
        src, dst = src[order], dst[order]
    shape = (n_dst, n_src)
    values = torch.ones(len(src), dtype=float64) if values is None else values(len(src))
    coo = torch.sparse_coo_tensor(torch.stack([dst, src]), values, (*shape, *values.shape[1:]))
    coo = coo.coalesce()
    matrix = {"coo": coo, "csr": coo.to_sparse_csr, "csc": coo.to_sparse_csc}[layout]
    return (matrix if layout == "coo" else matrix()), torch.stack([src, dst])


@pytest.mark.parametrize("layout", ["coo", "csr"])
@pytest.mark.parametrize("name", LAYERS)
def test_sparse_matrices_equal_pyg(name, layout):
    torch.manual_seed(5)
    aggregations = ["mean", "sum", "max", "min"] if name == "SAGEConv" and layout == "csr" else [""]
    for aggr in aggregations:
        theirs, ours = pair(name, 6, 4, **({"aggr": aggr} if aggr else {}))
        matrix, _ = matrix_case(layout, 7, 7, lambda n: torch.rand(n, dtype=float64) + 0.1)
        same(theirs, ours, dict(x=real(7, 6), edge_index=matrix))
    if name in ATTENTION[:2]:  # TransformerConv has the matrix as it came
        same(theirs, ours, dict(x=real(7, 6), edge_index=matrix), return_attention_weights=True)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
@pytest.mark.parametrize("name", LAYERS)
def test_sparse_matrix_is_its_edges(name, layout):
    torch.manual_seed(6)
    edge_dim = {"edge_dim": 3} if name in ATTENTION else {}
    layer = getattr(gt, name)(6, 4, **edge_dim).double()
    x, rows = real(7, 6), real(49, 3)
    matrix, edges = matrix_case(layout, 7, 7)
    attributes = (rows[: edges.shape[1]],) if edge_dim else ()
    if name == "GCNConv":  # loops that are there count besides
        edges = torch.cat([edges[:, edges[0] == edges[1]], edges], dim=1)
        layer.add_self_loops = False
        matrix, edges = matrix_case(layout, 7, 7)
    close(layer(x, matrix, *attributes), layer(x, edges, *attributes))
    if edge_dim:
        of_values, edges = matrix_case(layout, 7, 7, lambda n: rows[:n].detach())
        if layout == "csc":  # their order is that by rows
            return
        close(layer(x, of_values), layer(x, edges, rows[: edges.shape[1]]))


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_gradient_to_values_of_a_matrix(layout):
    torch.manual_seed(7)
    layer = gt.GCNConv(3, 2, add_self_loops=False).double()
    x = torch.randn(4, 3, dtype=float64)
    _, edges = matrix_case("coo", 4, 4)
    values = (torch.rand(edges.shape[1], dtype=float64) + 0.1).requires_grad_()

    def of_matrix(values):
        matrix = torch.sparse_coo_tensor(edges.flip(0), values, (4, 4)).coalesce()
        return layer(x, matrix if layout == "coo" else matrix.to_sparse(layout=LAYOUTS[layout]))

    got, expected = (
        torch.autograd.grad(out.square().sum(), values)[0]
        for out in (of_matrix(values), layer(x, edges, values))
    )
    close(got, expected)


LAYOUTS = {"csr": torch.sparse_csr, "csc": torch.sparse_csc}


@pytest.mark.parametrize("name", LAYERS)
def test_matrices_that_do_not_fit(name):
    x = torch.ones(4, 6)
    matrix = torch.eye(5).to_sparse_csr()
    with pytest.raises(ValueError, match=rf"{name}: edge_index is a sparse matrix of shape \(5, 5"):
        getattr(gt, name)(6, 4)(x, matrix)
    layer = getattr(gt, name)(6, 4, flow="target_to_source")
    with pytest.raises(ValueError, match=f"{name}: flow is 'target_to_source', which a sparse"):
        layer(torch.ones(5, 6), matrix)
    blocks = torch.eye(4).to_sparse_bsr((2, 2))
    with pytest.raises(ValueError, match=r"of layout torch\.sparse_bsr, needs"):
        getattr(gt, name)(6, 4)(x, blocks)
