# SPDX-License-Identifier: MIT
"""DimeNet++ in PyTorch: PyG's blocks and differences of the energy as references."""

from __future__ import annotations

import inspect
import sys
import types
import warnings

import numpy as np
import pytest

import gnograd as gg

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gnograd.torch")

CUTOFF = 2.5
SPHERICAL, RADIAL = 7, 6
SIZES = dict(hidden_channels=16, int_emb_size=8, basis_emb_size=4, num_spherical=SPHERICAL)
# SymPy takes a minute for the formulas of 7
MODEL = SIZES | dict(
    num_spherical=5, num_radial=RADIAL, out_channels=1, num_blocks=2, out_emb_channels=12
)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def molecules(sizes=(9, 5), seed=0):
    """Atoms, none too close to another, their molecules, and edges in random order."""
    rng = np.random.default_rng(seed)
    positions, src, dst = [], [], []
    for number, size in enumerate(sizes):
        points = np.empty((0, 3))
        while len(points) < size:
            point = rng.random(3) * 2.6
            if np.all(np.linalg.norm(points - point, axis=1) > 0.8):
                points = np.concatenate([points, [point]])
        graph = gg.Graph.radius(points, CUTOFF, include_self=False)
        first = sum(sizes[:number])
        src.append(graph.src + first)
        dst.append(graph.dst + first)
        positions.append(points)
    order = rng.permutation(sum(map(len, src)))
    n = sum(sizes)
    graph = gg.Graph.from_edges(np.concatenate(src)[order], np.concatenate(dst)[order], n, n)
    z = torch.from_numpy(rng.choice([1, 6, 7, 8], n))
    batch = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    return z, torch.from_numpy(np.concatenate(positions)), graph, batch


def triplets(graph):
    """Edges k -> j and j -> i of all triplets with k other than i."""
    kj, ji = np.nonzero(
        (graph.dst[:, None] == graph.src[None, :]) & (graph.src[:, None] != graph.dst[None, :])
    )
    return torch.from_numpy(kj), torch.from_numpy(ji)


def ends(graph):
    return torch.from_numpy(graph.src).long(), torch.from_numpy(graph.dst).long()


@pytest.fixture(scope="module")
def pyg_model():
    """PyG's model, which takes sympy long to make."""
    pyg = pytest.importorskip("torch_geometric.nn.models.dimenet")
    pytest.importorskip("sympy")
    torch.manual_seed(1)
    return pyg.DimeNetPlusPlus(**MODEL, cutoff=CUTOFF, output_initializer="glorot_orthogonal")


def own_model():
    return gt.DimeNetPlusPlus(**MODEL, cutoff=CUTOFF, output_initializer="glorot_orthogonal")


def pyg_energy(model, z, pos, graph, batch):
    """``forward`` of PyG's model after its neighbour search, which needs torch_cluster."""
    kj, ji = triplets(graph)
    src, dst = ends(graph)
    vector = pos[dst] - pos[src]
    length = vector.pow(2).sum(dim=-1).sqrt()
    cross = torch.linalg.cross(vector[ji], vector[kj]).norm(dim=-1)
    angle = torch.atan2(cross, (vector[ji] * vector[kj]).sum(dim=-1))
    rbf, sbf = model.rbf(length), model.sbf(length, angle, kj)
    x = model.emb(z, rbf, dst, src)
    out = model.output_blocks[0](x, rbf, dst, num_nodes=len(z))
    for interact, read in zip(model.interaction_blocks, model.output_blocks[1:], strict=True):
        x = interact(x, rbf, sbf, kj, ji)
        out = out + read(x, rbf, dst, num_nodes=len(z))
    return out.new_zeros(int(batch.max()) + 1, 1).index_add(0, batch, out)


def compare(actual, expected, tolerance):
    """Compare relative to the largest entry."""
    assert actual.shape == expected.shape
    scale = float(expected.detach().abs().max())
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance * scale)


def derivatives(out, loss_weight, inputs, parameters):
    """First derivatives of a sum, and those of the squares of the derivatives by the inputs."""
    first = torch.autograd.grad(
        (loss_weight * out).sum(), [*inputs, *parameters], create_graph=True
    )
    loss = sum(g.square().sum() for g in first[: len(inputs)])
    second = torch.autograd.grad(loss, [*inputs, *parameters], allow_unused=True)
    return first, second


# ---- PyG's block and model ----


@pytest.mark.parametrize("seed", range(3))
def test_block_equals_pyg(seed):
    """Values, first and second derivatives.

    In float32 some draws are worse conditioned than others: there the two may differ by what PyG's
    own results are off.
    """
    pyg = pytest.importorskip("torch_geometric.nn.models.dimenet")
    arguments = (16, 8, 4, SPHERICAL, RADIAL, 1, 2)
    theirs = pyg.InteractionPPBlock(*arguments, torch.nn.functional.silu)
    ours = gt.InteractionPPBlock(*arguments)
    ours.load_state_dict(theirs.state_dict())
    names = [name for name, _ in ours.named_parameters()]

    _, pos, graph, _ = molecules(seed=seed)
    src, dst = ends(graph)
    vector = (pos[dst] - pos[src]).float()
    rbf, sbf = gt.radial_basis(
        vector.norm(dim=1, keepdim=True) / CUTOFF, torch.pi * torch.arange(1.0, RADIAL + 1)
    )
    arrays = [vector, torch.randn(graph.n_edges, 16), rbf, sbf]
    weight = torch.randn(graph.n_edges, 16)
    kj, ji = triplets(graph)

    def pyg_block(vector, x, rbf, sbf):
        unit = vector / vector.norm(dim=1, keepdim=True)
        angular = legendre((unit[kj] * unit[ji]).sum(dim=1))
        basis = sbf[kj].view(-1, SPHERICAL, RADIAL) * angular.unsqueeze(2)
        return theirs(x, rbf, basis.flatten(1), kj, ji)

    def our_block(vector, x, rbf, sbf):
        return ours(x, rbf, sbf, vector, graph)

    def results(block, module, dtype):
        module.to(dtype)
        inputs = [a.to(dtype).requires_grad_() for a in arrays]
        out = block(*inputs)
        parameters = [module.get_parameter(name) for name in names]
        first, second = derivatives(out, weight.to(dtype), inputs, parameters)
        return out, *first, *second

    single = results(our_block, ours, torch.float32)
    pyg_single = results(pyg_block, theirs, torch.float32)
    double = results(our_block, ours, torch.float64)
    exact = results(pyg_block, theirs, torch.float64)
    for a, b, c, d in zip(single, pyg_single, double, exact, strict=True):
        assert (a is None) == (d is None)
        if d is not None:
            scale = float(d.detach().abs().max())
            own_error = float((b - d).detach().abs().max()) / scale
            compare(c, d, 1e-10)
            compare(a.double(), d, 1e-5 + 4 * own_error)


def legendre(c):
    """The angular part: Legendre polynomials with the factor of spherical harmonics."""
    p = [torch.ones_like(c), c]
    for k in range(2, SPHERICAL):
        p.append(((2 * k - 1) * c * p[-1] - (k - 1) * p[-2]) / k)
    degree = torch.arange(SPHERICAL, dtype=c.dtype)
    return torch.stack(p, dim=1) * ((2 * degree + 1) / (4 * torch.pi)).sqrt()


@pytest.mark.exhaustive
def test_model_equals_pyg(pyg_model):
    theirs, ours = pyg_model.double(), own_model().double()
    ours.load_state_dict(theirs.state_dict())
    z, pos, graph, batch = molecules()
    pos.requires_grad_()
    expected = pyg_energy(theirs, z, pos, graph, batch)
    energy = ours(z, pos, graph, batch)
    # PyG keeps zeros of the Bessel functions in float32
    compare(energy, expected, 1e-6)
    names = [name for name, _ in ours.named_parameters()]
    weight = torch.tensor([[1.0], [-0.5]], dtype=torch.float64)
    got = derivatives(energy, weight, [pos], [ours.get_parameter(n) for n in names])
    want = derivatives(expected, weight, [pos], [theirs.get_parameter(n) for n in names])
    for ours_of_order, theirs_of_order in zip(got, want, strict=True):
        for a, b in zip(ours_of_order, theirs_of_order, strict=True):
            compare(a, b, 1e-6)


def test_same_distribution_of_parameters_as_pyg(pyg_model):
    theirs, ours = pyg_model.float().state_dict(), own_model().state_dict()
    assert list(theirs) == list(ours)
    for name, value in theirs.items():
        assert ours[name].shape == value.shape
        if name.endswith("bias") and "emb" not in name:
            assert not ours[name].any()
        elif value.dim() == 2:
            torch.testing.assert_close(ours[name].std(), value.std(), rtol=0.3, atol=0)
    torch.testing.assert_close(ours["rbf.freq"], theirs["rbf.freq"])


def test_no_energy_before_training():
    model = gt.DimeNetPlusPlus(**MODEL)
    z, pos, graph, batch = molecules()
    assert torch.equal(model(z, pos.float(), graph, batch), torch.zeros(2, 1))
    with pytest.raises(ValueError, match="DimeNetPlusPlus: output_initializer is 'ones'"):
        gt.DimeNetPlusPlus(**MODEL, output_initializer="ones")


def test_call_of_pyg():
    """PyG's call works: positional arguments, activation by name, edges looked for."""
    pyg = pytest.importorskip("torch_geometric.nn.models.dimenet")
    arguments = (8, 1, 1, 8, 4, 8, 3, 4, 2.0, 5, 6, 1, 2, 3, "swish", "glorot_orthogonal")
    model = gt.DimeNetPlusPlus(*arguments).double()
    theirs = inspect.signature(pyg.DimeNetPlusPlus).parameters
    ours = inspect.signature(gt.DimeNetPlusPlus).parameters
    assert list(ours)[: len(theirs)] == list(theirs)
    assert [p.default for p in ours.values()][: len(theirs)] == [p.default for p in theirs.values()]
    assert (model.cutoff, model.max_num_neighbors, model.envelope_exponent) == (2.0, 5, 6)

    z, pos, _, batch = molecules()
    distance = torch.cdist(pos, pos) + torch.where(batch[:, None] == batch, 0.0, torch.inf)
    distance.fill_diagonal_(torch.inf)
    nearest, index = distance.topk(5, largest=False)  # sources of a row
    dst, rank = torch.nonzero(nearest <= 2.0, as_tuple=True)
    assert (torch.bincount(dst, minlength=len(z)) < (distance <= 2.0).sum(1)).any()
    graph = gg.Graph.from_edges(index[dst, rank].numpy(), dst.numpy(), len(z), len(z))
    expected = model(z, pos, graph, batch)
    torch.testing.assert_close(model(z, pos, batch), expected)
    torch.testing.assert_close(model(z, pos, batch=batch), expected)
    alone = batch == 0
    torch.testing.assert_close(model(z[alone], pos[alone]), expected[0])
    with pytest.raises(ValueError, match="batch needs the molecule of every atom, in ascending"):
        model(z, pos, batch.flip(0))
    with pytest.raises(TypeError, match=r"graph is of type Tensor, needs a gnograd\.Graph"):
        model(z, pos, batch, batch)
    with pytest.raises(ValueError, match=r"act is 'swoosh', which torch\.nn"):
        gt.DimeNetPlusPlus(**MODEL, act="swoosh")


@pytest.mark.parametrize("act", ["SiLU", "leaky_relu", "LeakyReLU", "relu", "ELU", "swish"])
def test_activations_by_pygs_names(act):
    resolver = pytest.importorskip("torch_geometric.nn.resolver")
    block = gt.InteractionPPBlock(8, 4, 4, 2, 3, 1, 1, act)
    x = torch.linspace(-3, 3, 9)
    torch.testing.assert_close(block.act(x), resolver.activation_resolver(act)(x))


# ---- published weights ----

PUBLISHED = dict(
    hidden_channels=128, out_channels=1, num_blocks=4, int_emb_size=64, basis_emb_size=8,
    out_emb_channels=256, num_spherical=7, num_radial=6,
)  # fmt: skip


def checkpoint():
    """Variables of the authors' network, by shapes (inputs, outputs)."""
    rng = np.random.default_rng(0)
    shapes = {"rbf_layer/frequencies": (6,), "emb_block/embeddings": (95, 128)}

    def dense(name, inputs, outputs, bias=True):
        shapes[f"{name}/kernel"] = inputs, outputs
        if bias:
            shapes[f"{name}/bias"] = (outputs,)

    dense("emb_block/dense_rbf", 6, 128)
    dense("emb_block/dense", 384, 128)
    for i in range(5):
        at = f"output_blocks/{i}"
        dense(f"{at}/dense_rbf", 6, 128, bias=False)
        dense(f"{at}/up_projection", 128, 256, bias=False)
        for j in range(3):
            dense(f"{at}/dense_layers/{j}", 256, 256)
        dense(f"{at}/dense_final", 256, 1, bias=False)
    for i in range(4):
        at = f"int_blocks/{i}"
        for name, sizes in {
            "dense_rbf1": (6, 8), "dense_rbf2": (8, 128), "dense_sbf1": (42, 8),
            "dense_sbf2": (8, 64), "down_projection": (128, 64), "up_projection": (64, 128),
        }.items():  # fmt: skip
            dense(f"{at}/{name}", *sizes, bias=False)
        for name in ("dense_ji", "dense_kj", "final_before_skip"):
            dense(f"{at}/{name}", 128, 128)
        for skip, number in ("before", 1), ("after", 2):
            for j in range(number):
                for k in (1, 2):
                    dense(f"{at}/layers_{skip}_skip/{j}/dense_{k}", 128, 128)
    return {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


@pytest.mark.exhaustive
def test_published_weights_as_pyg_takes_them(tmp_path, monkeypatch):
    pyg = pytest.importorskip("torch_geometric.nn.models.dimenet")
    pytest.importorskip("sympy")
    variables = {f"{k}/.ATTRIBUTES/VARIABLE_VALUE": v for k, v in checkpoint().items()}
    others = {
        "save_counter/.ATTRIBUTES/VARIABLE_VALUE": np.array(3),
        "int_blocks/0/dense_ji/kernel/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE":
            np.zeros((128, 128), np.float32),
        "_CHECKPOINTABLE_OBJECT_GRAPH": np.array(b"graph"),
    }  # fmt: skip

    # PyG reads through TensorFlow what it finds under its root
    reader = types.SimpleNamespace(get_tensor=variables.__getitem__)
    tensorflow = types.ModuleType("tensorflow")
    tensorflow.train = types.SimpleNamespace(load_checkpoint=lambda path: reader)
    monkeypatch.setitem(sys.modules, "tensorflow", tensorflow)
    # without parameters, and SymPy takes a minute for its formulas
    monkeypatch.setattr(pyg, "SphericalBasisLayer", lambda *_: torch.nn.Identity())
    found = tmp_path / "pretrained_dimenet_pp" / pyg.qm9_target_dict[7]
    found.mkdir(parents=True)
    (found / "checkpoint").touch()
    theirs, _ = pyg.DimeNetPlusPlus.from_qm9_pretrained(str(tmp_path), torch.arange(130831), 7)

    state = gt.dimenet_state_dict(variables | others)
    expected = theirs.state_dict()
    assert state.keys() == expected.keys()
    assert all(torch.equal(state[name], expected[name]) for name in expected)
    gt.DimeNetPlusPlus(**PUBLISHED).load_state_dict(state, strict=True)
    assert gt.dimenet_state_dict(checkpoint()).keys() == state.keys()


def test_variables_that_are_no_weights():
    with pytest.raises(ValueError, match="none of the variables is a parameter of DimeNet"):
        gt.dimenet_state_dict({"save_counter": np.array(1)})
    with pytest.raises(ValueError, match=r"int_blocks/0/dense_ji/kernel has shape \(3,\), needs"):
        gt.dimenet_state_dict({"int_blocks/0/dense_ji/kernel": np.zeros(3)})


# ---- forces ----


def forces(model, z, pos, graph, batch):
    pos = pos.detach().requires_grad_()
    energy = model(z, pos, graph, batch).sum()
    return -torch.autograd.grad(energy, pos, create_graph=True)[0]


def test_forces_are_differences_of_the_energy():
    model = own_model().double()
    z, pos, graph, batch = molecules()
    actual = -forces(model, z, pos, graph, batch).detach()
    step = 1e-4
    differences = torch.empty_like(pos)
    with torch.no_grad():
        for entry in np.ndindex(*pos.shape):
            move = torch.zeros_like(pos)
            move[entry] = step
            e = [float(model(z, pos + k * move, graph, batch).sum()) for k in (-2, -1, 1, 2)]
            differences[entry] = (e[0] - 8 * e[1] + 8 * e[2] - e[3]) / (12 * step)
    compare(actual, differences, 1e-7)


def test_gradient_of_a_force_loss_to_every_weight():
    model = own_model().double()
    z, pos, graph, batch = molecules((6, 4))
    target = torch.randn_like(pos)

    def loss():
        return (forces(model, z, pos, graph, batch) - target).square().sum()

    names, parameters = zip(*model.named_parameters(), strict=True)
    gradients = torch.autograd.grad(loss(), parameters, allow_unused=True)
    for name, parameter, gradient in zip(names, parameters, gradients, strict=True):
        if gradient is None:  # does not move with the atoms
            continue
        direction = torch.randn_like(parameter)
        direction /= direction.norm()
        along, step = (gradient * direction).sum(), 1e-3
        with torch.no_grad():
            start = parameter.clone()
        values = []
        for k in (-2, -1, 1, 2):
            with torch.no_grad():
                parameter.copy_(start + k * step * direction)
            values.append(loss().detach())
        with torch.no_grad():
            parameter.copy_(start)
        difference = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step)
        scale = max(1.0, float(gradient.norm()))
        assert abs(along - difference) <= 1e-6 * scale, name


# ---- symmetry and periodic cells ----


def test_turned_and_reordered_molecule():
    model = own_model().double()
    z, pos, graph, batch = molecules((7,))
    rotation = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64))[0]
    order = torch.randperm(7)
    inverse = torch.argsort(order).numpy()
    src, dst = inverse[graph.src], inverse[graph.dst]
    shuffle = np.random.default_rng(1).permutation(graph.n_edges)
    other = gg.Graph.from_edges(src[shuffle], dst[shuffle], 7, 7)
    energy = model(z, pos, graph, batch)
    compare(model(z[order], pos[order] @ rotation + 1.5, other, batch), energy, 1e-12)
    force = forces(model, z, pos, graph, batch)
    turned = forces(model, z[order], pos[order] @ rotation, other, batch)
    compare(turned, force[order] @ rotation, 1e-11)


def crystal(repeat):
    """A small cell with edges to images, repeated along its axes."""
    rng = np.random.default_rng(4)
    cell = np.array([[2.1, 0, 0], [0.3, 2.2, 0], [-0.2, 0.4, 2.0]])
    base = (np.array([[0.1, 0.2, 0.3], [0.6, 0.5, 0.7]]) + 0.03 * rng.random((2, 3))) @ cell
    images = np.array(list(np.ndindex(*repeat))) @ cell
    pos = (images[:, None] + base).reshape(-1, 3)
    periods = cell * np.array(repeat)[:, None]
    shifts = (np.array(list(np.ndindex(7, 7, 7))) - 3) @ periods
    reach = pos[None, :, None] + shifts - pos[:, None, None]  # from an atom to all images
    length = np.linalg.norm(reach, axis=-1)
    src, dst, which = np.nonzero((length < CUTOFF) & (length > 0))
    n = len(pos)
    z = torch.tensor([6, 8] * (n // 2))
    offset = torch.from_numpy(shifts[which])
    return z, torch.from_numpy(pos), gg.Graph.from_edges(src, dst, n, n), offset


def test_a_repeated_cell_has_as_much_energy_an_atom():
    model = own_model().double()
    energies, all_forces = [], []
    for repeat in ((1, 1, 1), (2, 1, 3)):
        z, pos, graph, offset = crystal(repeat)
        pos.requires_grad_()
        energy = model(z, pos, graph, offset=offset)
        all_forces.append(torch.autograd.grad(energy.sum(), pos)[0])
        energies.append(energy / len(z))
    compare(energies[1], energies[0], 1e-12)
    compare(all_forces[1], all_forces[0].repeat(6, 1), 1e-10)


# ---- compilation ----


def test_compile_block():
    block = gt.InteractionPPBlock(16, 8, 4, SPHERICAL, RADIAL, 1, 2).double()
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    for seed in range(2):
        _, pos, graph, _ = molecules((6 + seed,), seed)
        src, dst = ends(graph)
        inputs = [
            torch.randn(graph.n_edges, width, dtype=torch.float64)
            for width in (16, RADIAL, SPHERICAL * RADIAL)
        ]
        results = []
        for function in (block, compiled):
            block.zero_grad()
            vector = (pos[dst] - pos[src]).requires_grad_()
            function(*inputs, vector, graph).square().sum().backward()
            results.append([vector.grad, *(p.grad.clone() for p in block.parameters())])
        for eager, traced in zip(*results, strict=True):
            torch.testing.assert_close(traced, eager, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_atoms_all_but_at_one_place(dtype):
    """Forces are finite, however near two atoms are."""
    torch.manual_seed(0)
    model = gt.DimeNetPlusPlus(8, 1, 1, 8, 4, 8, 3, 3, output_initializer="glorot_orthogonal").to(
        dtype
    )
    for distance in (0, 1e-310, 1e-300, 1e-160, 1e-120, 1e-25, 1e-15):
        pos = torch.tensor([[0, 0, 0], [distance, 0, 0], [1, 0.5, 0]], dtype=dtype)
        pos.requires_grad_()
        (forces,) = torch.autograd.grad(model(torch.tensor([1, 6, 8]), pos).sum(), pos)
        assert forces.isfinite().all(), distance


def test_neighbours_that_are_left_out_are_told():
    torch.manual_seed(0)
    model = gt.DimeNetPlusPlus(8, 1, 1, 8, 4, 8, 3, 3, max_num_neighbors=4)
    z, pos = torch.ones(12, dtype=torch.int64), torch.rand(12, 3)
    with pytest.warns(UserWarning, match="84 edges shorter than cutoff=5.0 .* max_num_neighbors=4"):
        model(z, pos)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(z[:5], pos[:5])
