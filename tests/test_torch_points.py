# SPDX-License-Identifier: MIT
"""`PointAttention` beside the published layers, written in plain PyTorch."""

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

import gnograd.torch as gt  # noqa: E402


@pytest.fixture(autouse=True)
def double():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def close(a, b, rule=1e-10):
    for x, y in zip(a, b, strict=True):
        assert (x - y).abs().max() <= rule * max(y.abs().max(), 1)


class BallMSA(nn.Module):
    """Erwin's attention of ordered points in full balls, with gradients by positions."""

    def __init__(self, dim, num_heads, ball_size, dimensionality):
        super().__init__()
        self.num_heads, self.ball_size = num_heads, ball_size
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.pe_proj = nn.Linear(dimensionality, dim)
        self.sigma_att = nn.Parameter(-1 + 0.01 * torch.randn(1, num_heads, 1, 1))

    def forward(self, x, pos):
        balls = pos.unflatten(0, (-1, self.ball_size))
        x = x + self.pe_proj((balls - balls.mean(1, keepdim=True)).flatten(0, 1))
        qkv = self.qkv(x).view(*balls.shape[:2], self.num_heads, -1, 3)
        q, k, v = qkv.permute(4, 0, 2, 1, 3)
        apart = (balls[:, :, None] - balls[:, None]).square().sum(-1)
        distance = torch.where(apart > 0, apart, 1).sqrt() * (apart > 0)
        logits = q @ k.mT / q.shape[-1] ** 0.5 + self.sigma_att * distance[:, None]
        return self.proj((logits.softmax(-1) @ v).transpose(1, 2).flatten(0, 1).flatten(1))


class Chunked(nn.Module):
    """MSPT's attention of ordered points in V equal chunks, with one mean token a chunk."""

    def __init__(self, dim, heads, V):
        super().__init__()
        self.V = V
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        chunks = x.unflatten(0, (self.V, -1))
        pooled = chunks.mean(1)[None].expand(self.V, -1, -1)
        seq = self.norm(torch.cat([chunks, pooled], 1))
        n, (wq, wk, wv) = self.attn.num_heads, self.attn.in_proj_weight.chunk(3)
        bq, bk, bv = self.attn.in_proj_bias.chunk(3)
        q, k, v = (
            (seq @ w.T + b).unflatten(-1, (n, -1)).transpose(1, 2)
            for w, b in ((wq, bq), (wk, bk), (wv, bv))
        )
        out = ((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v).transpose(1, 2).flatten(2)
        return self.attn.out_proj(out)[:, : chunks.shape[1]].flatten(0, 1)


class BallSparse(nn.Module):
    """The attention of BSA's authors to ordered points, with gradients by positions.

    The balls are full or not; `queries` says how the queries of a group become one.
    """

    def __init__(
        self, dim, heads, ball, block, group, selected, mlp=True, queries="mlp", coarse=True
    ):
        super().__init__()
        self.heads, self.ball, self.block, self.group = heads, ball, block, group
        self.selected, self.queries, self.coarse = selected, queries, coarse
        self.qkv, self.out_proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.position_proj = nn.Linear(3, dim)
        self.sigma_att = nn.Parameter(-1 + 0.01 * torch.randn(1, heads, 1, 1))
        self.gated_attention = nn.Module()
        self.gated_attention.to_strategy = nn.Sequential(nn.Linear(dim, 3 * heads), nn.Sigmoid())
        width = block * dim // heads
        for name in "kv" * mlp + "q" * (queries == "mlp"):
            perceptron = nn.Sequential(
                nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, dim // heads)
            )
            self.add_module(f"{name}_compress_mlp", perceptron)

    def compressed(self, name, a, size):
        """`a` (heads, points, features) has full stretches of so many points."""
        stretches = a.unflatten(1, (-1, size))
        mlp = getattr(self, f"{name}_compress_mlp", None)
        return stretches.mean(2) if mlp is None else mlp(stretches.flatten(2))

    def forward(self, x, positions):
        balls = positions.split(self.ball)
        x = x + self.position_proj(torch.cat([b - b.mean(0) for b in balls]))
        q, k, v = self.qkv(x).unflatten(1, (3, self.heads, -1)).permute(1, 2, 0, 3)
        scale = q.shape[-1] ** -0.5
        near = []
        for points, *qkv in zip(balls, *(a.split(self.ball, 1) for a in (q, k, v)), strict=True):
            apart = (points[:, None] - points).square().sum(-1)
            distance = torch.where(apart > 0, apart, 1).sqrt() * (apart > 0)
            logits = scale * qkv[0] @ qkv[1].mT + self.sigma_att[0] * distance
            near.append(logits.softmax(-1) @ qkv[2])
        full = len(x) // self.block * self.block
        tokens, values = (
            self.compressed(n, a[:, :full], self.block) for n, a in (("k", k), ("v", v))
        )
        far, fine = [], []
        for number, own in enumerate(q.split(self.group, 1)):
            missing = self.group - own.shape[1]
            filled = torch.cat([own, own.mean(1, keepdim=True).expand(-1, missing, -1)], 1)
            one = self.compressed("q", filled, self.group)
            logits = scale * (one if self.coarse else own) @ tokens.mT
            far.append((logits.softmax(-1) @ values).expand_as(own))
            ball = number * self.group // self.ball
            scores = (one @ tokens.mT)[:, 0].detach()
            scores[:, torch.arange(tokens.shape[1]) * self.block // self.ball == ball] = -torch.inf
            chosen = scores.topk(self.selected).indices[..., None] * self.block
            rows = (
                (chosen + torch.arange(self.block))
                .flatten(1)[..., None]
                .expand_as(k[:, : self.selected * self.block])
            )
            weights = (scale * own @ k.gather(1, rows).mT).softmax(-1)
            fine.append(weights @ v.gather(1, rows))
        gates = self.gated_attention.to_strategy(x).unflatten(1, (self.heads, 3)).permute(2, 1, 0)
        parts = (torch.cat(part, 1) for part in (near, far, fine))
        out = sum(g[..., None] * part for g, part in zip(gates, parts, strict=True))
        return self.out_proj(out.transpose(0, 1).flatten(1))


AUTHORS = {
    "as it is": ({}, {}),
    "means": (
        {"mlp": False, "queries": "mean"}, {"compression": "mean", "query_compression": "mean"}
    ),
    "coarse queries select only": ({"coarse": False}, {"coarse_queries": False}),
    "mean logits select": (
        {"coarse": False, "queries": "mean", "group": 8},
        {"coarse_queries": False, "query_compression": "mean", "query_group": 8},
    ),
    "every point selects": (
        {"coarse": False, "queries": "mean", "group": 1},
        {"coarse_queries": False, "query_compression": "mean", "query_group": 1},
    ),
}  # fmt: skip
BSA = {
    "selected": 2, "compress_size": 4, "selected_size": 4, "query_group": 4, "distance_bias": True,
    "compression": "mlp", "query_compression": "mlp", "coarse_queries": True, "shared_kv": True,
}  # fmt: skip


def of_authors(name="as it is"):
    """The layer of the authors with such settings, and ours with its parameters."""
    theirs, ours = AUTHORS[name]
    theirs = BallSparse(8, 2, 8, **{"block": 4, "group": 4, "selected": 2} | theirs)
    with torch.no_grad():
        for p in theirs.parameters():
            p.copy_(torch.randn_like(p) / 4)
    layer = gt.PointAttention(8, 2, 8, **BSA | ours)
    layer.load_state_dict(theirs.state_dict())
    return theirs, layer


def derivatives(function, x, positions, parameters):
    """Value, gradients, and those of their squares."""
    inputs = [x.clone().requires_grad_(), positions.clone().requires_grad_()]
    out = function(*inputs)
    every = [*inputs, *parameters]
    first = torch.autograd.grad(
        out.square().sum(), every, create_graph=True, materialize_grads=True
    )
    second = torch.autograd.grad(
        sum(g.square().sum() for g in first), every, materialize_grads=True
    )
    return out, first, second


@pytest.mark.parametrize("dimension", [2, 3])
def test_erwin(dimension):
    theirs = BallMSA(8, 2, 8, dimension)
    ours = gt.PointAttention(8, 2, 8, pooled=False, coord_dim=dimension, distance_bias=True)
    ours.load_state_dict(theirs.state_dict())
    x, positions = torch.randn(32, 8), torch.rand(32, dimension)
    positions[3] = positions[4]
    parameters = [theirs.sigma_att, theirs.pe_proj.weight, theirs.proj.bias]
    expected = derivatives(theirs, x, positions, parameters)
    own = [ours.sigma_att, ours.position.weight, ours.to_out.bias]
    got = derivatives(lambda x, p: ours(x, p, ordered=True), x, positions, own)
    close(got[:1], expected[:1])
    close(got[1], expected[1])
    close(got[2], expected[2])


def test_mspt():
    theirs = Chunked(8, 2, 4)
    ours = gt.PointAttention(8, 2, 9, norm=True, offsets=False)
    ours.load_state_dict(theirs.state_dict())
    x, positions = torch.randn(36, 8), torch.rand(36, 3)
    parameters = [theirs.norm.weight, theirs.attn.out_proj.weight]
    expected = derivatives(lambda x, _: theirs(x), x, positions, parameters)
    own = [ours.norm.weight, ours.to_out.weight]
    got = derivatives(lambda x, p: ours(x, p, ordered=True), x, positions, own)
    close(got[:1], expected[:1])
    close(got[1], expected[1])
    close(got[2], expected[2])
    with pytest.raises(RuntimeError, match=r"ff\.0\.weight"):
        ours.load_state_dict({**theirs.state_dict(), "ff.0.weight": torch.ones(1)})


def test_loads_ball_sparse_attention():
    """BSA is a setting; its state dict has the names of the layer's own."""
    sizes = {"compress_size": 4, "distance_bias": True}
    theirs = gt.BallSparseAttention(
        8, 2, ball_size=8, position_dim=3, num_selected_balls=2, **sizes
    )
    ours = gt.PointAttention(8, 2, 8, selected=2, **sizes)
    ours.load_state_dict(theirs.state_dict())
    x, positions = torch.randn(50, 8), torch.rand(50, 3)
    assert torch.equal(ours(x, positions), theirs(x, positions))
    # of 7 balls all are kept
    down = gt.PointAttention(8, 2, 8, selected=2, keep=7, **sizes)
    down.load_state_dict(theirs.state_dict())
    assert torch.equal(down(x, positions), ours(x, positions))


@pytest.mark.parametrize("name", AUTHORS)
@pytest.mark.parametrize("n", [32, 29])
def test_bsa(name, n):
    """The last ball, token and group are full, or the last group has one point."""
    theirs, ours = of_authors(name)
    x, positions = torch.randn(n, 8), torch.rand(n, 3)
    perceptrons = [getattr(theirs, f"{a}_compress_mlp", None) for a in "kvq"]
    parameters = [theirs.sigma_att, theirs.position_proj.weight, theirs.out_proj.bias]
    parameters += [p for m in perceptrons if m is not None for p in m.parameters()]
    expected = derivatives(theirs, x, positions, [*parameters, theirs.qkv.weight])
    own = [ours.sigma_att, ours.position.weight, ours.to_out.bias]
    own += [p for name, p in ours.named_parameters() if name.startswith("compress_")]
    function = lambda x, p: ours(x, p, ordered=True)  # noqa: E731
    got = derivatives(function, x, positions, [*own, ours.to_q.weight, ours.to_kv.weight])
    close(got[:1], expected[:1])
    for some, wanted in zip(got[1:], expected[1:], strict=True):
        close([*some[:-2], torch.cat(some[-2:])], wanted)
    single = ours.float()(x.float(), positions.float(), ordered=True)
    assert (single - expected[0]).abs().max() <= 1e-4 * expected[0].abs().max()


def test_bsa_down_the_tree():
    """Of 7 blocks and those of the own ball all are kept."""
    theirs, ours = of_authors()
    down = gt.PointAttention(8, 2, 8, keep=6, **BSA)
    down.load_state_dict(theirs.state_dict())
    x, positions = torch.randn(32, 8), torch.rand(32, 3)
    assert torch.equal(down(x, positions), ours(x, positions))


def test_bsa_without_other_balls():
    """Where a ball is all there is, nothing is selected."""
    _, ours = of_authors()
    x, positions = torch.randn(8, 8), torch.rand(8, 3)
    q, one, lse = torch.randn(8, 2, 4), torch.randn(2, 2, 4), torch.randn(2, 2)
    blocks = ours._chosen(q, q, one, torch.randn(2, 2, 4), lse, None)
    assert blocks.shape == (2, 2, 2) and (blocks == -1).all()
    assert ours(x, positions).isfinite().all()


@pytest.mark.parametrize("name", ["as it is", "means"])
def test_every_key_of_bsa_is_needed(name):
    theirs, ours = of_authors(name)
    state = theirs.state_dict()
    names = {
        "qkv": "to_q", "out_proj": "to_out", "position_proj": "position",
        "gated_attention.to_strategy.0": "to_gate",
        **{f"{a}_compress_mlp.{k}": f"compress_{a}.{k}" for a in "kvq" for k in (0, 2)},
    }  # fmt: skip
    for key, value in state.items():
        prefix, _, kind = key.rpartition(".")
        renamed = f"{names[prefix]}.{kind}" if prefix else key
        fewer = {k: v for k, v in state.items() if k != key}
        with pytest.raises(RuntimeError, match=rf'Missing key\(s\) .*"{renamed}"'):
            ours.load_state_dict(fewer)
        with pytest.raises(RuntimeError, match=f"size mismatch for {renamed}"):
            ours.load_state_dict({**state, key: value.repeat(*[2] * value.ndim)})
        with pytest.raises(RuntimeError, match=rf'"{key}"|for {renamed}'):
            ours.load_state_dict({**state, key: torch.cat([value, value[:1]])})
    for key in ("gated_attention.gates", "k_compress_mlp.4.weight", "scale"):
        with pytest.raises(RuntimeError, match=rf'Unexpected key\(s\) .*"{key}"'):
            ours.load_state_dict({**state, key: torch.ones(1)})


def test_bsa_needs_its_setting():
    theirs, _ = of_authors()
    for setting, message in (
        ({"compression": "mean"}, r'Unexpected key\(s\) .*"k_compress_mlp.0.weight"'),
        ({"compression": "weighted"}, r'Missing key\(s\) .*"compress_k"'),
        ({"coarse_queries": False, "query_compression": None}, '"q_compress_mlp.2.bias"'),
        ({"shared_kv": False}, "size mismatch for to_kv.weight"),
        ({"distance_bias": False}, '"sigma_att"'),
        ({"offsets": False}, '"position_proj.weight", "position_proj.bias"'),
        ({"mlp_ratio": 3}, "size mismatch for compress_q.2.weight"),
    ):
        with pytest.raises(RuntimeError, match=message):
            gt.PointAttention(8, 2, 8, **BSA | setting).load_state_dict(theirs.state_dict())


SETTINGS = {
    "pooled": {},
    "pooled, finer": {"compress_size": 3, "norm": True},
    "pooled, rotary": {"rotary": True},
    "Erwin": {"pooled": False, "distance_bias": True},
    "balls": {"pooled": False, "offsets": False},
    "distance bias and tokens": {"distance_bias": True, "compress_size": 4},
    "BSA": {"selected": 2, "compress_size": 2},
    "all selected": {"pooled": False, "selected": 4, "keep": 2},
    "BSA, rotary": {"selected": 2, "compress_size": 4, "rotary": True, "keep": 2},
    "selected": {"pooled": False, "selected": 2},
    "down the tree": {"pooled": False, "selected": 1, "keep": 1, "num_kv_heads": 1},
    "BSA of the authors": BSA | {"compress_size": 2, "selected_size": 2, "query_group": 2},
    "one query, means": {
        "selected": 2, "compress_size": 2, "selected_size": 2, "compression": "mean",
        "query_compression": "mean", "rotary": True,
    },
    "one query attends": {
        "selected": 2, "query_compression": "weighted", "coarse_queries": True, "num_kv_heads": 1,
        "rotary": True, "query_group": 2,
    },
    "one query down the tree": {
        "pooled": False, "selected": 1, "keep": 1, "selected_size": 2, "query_compression": "mlp"
    },
    "parts of balls": {"selected": 3, "selected_size": 2, "compress_size": 2, "query_group": 1},
    "perceptrons and a bias": {"distance_bias": True, "compression": "mlp", "compress_size": 2},
}  # fmt: skip
every_setting = pytest.mark.parametrize("setting", SETTINGS.values(), ids=list(SETTINGS))


@every_setting
def test_clouds_alone_and_packed(setting):
    layer = gt.PointAttention(12, 2, 4, **setting)
    sizes = [13, 0, 3, 26]
    x, positions = torch.randn(42, 12), torch.rand(42, 3)
    alone = torch.cat(
        [layer(a, b) for a, b in zip(x.split(sizes), positions.split(sizes), strict=True) if len(a)]
    )
    close([layer(x, positions, [0, 13, 13, 16, 42])], [alone])
    batch = torch.arange(4).repeat_interleave(torch.tensor(sizes))
    shuffled = torch.randperm(42)
    got = layer(x[shuffled], positions[shuffled], batch=batch[shuffled])
    close([got], [alone[shuffled]])


@every_setting
def test_derivatives(setting, monkeypatch):
    """Differences along which the selection stays as it is."""
    layer = gt.PointAttention(12, 2, 4, **setting)
    x, positions = torch.randn(14, 12), torch.rand(14, 3)
    order = gt.ball_tree_order(positions)
    given = x[order].requires_grad_(), positions[order].requires_grad_()
    chosen = []
    select = gt.functional.select_blocks

    def once(*arguments, **static):
        chosen.append(chosen[0] if chosen else select(*arguments, **static))
        return chosen[0]

    monkeypatch.setattr(gt.functional, "select_blocks", once)

    def call(x, positions):
        return layer(x, positions, ordered=True)

    assert torch.autograd.gradcheck(call, given, fast_mode=True)
    assert torch.autograd.gradgradcheck(call, given, fast_mode=True)
    assert bool(chosen) == ("selected" in setting)


@every_setting
def test_no_points(setting):
    layer = gt.PointAttention(12, 2, 4, **setting)
    assert layer(torch.randn(0, 12), torch.rand(0, 3)).shape == (0, 12)


def test_pooled_tokens_beside_the_formula():
    """Ragged balls, and tokens of fewer points than balls: one softmax over both."""
    layer = gt.PointAttention(8, 2, 4, compress_size=3)
    x, positions = torch.randn(10, 8), torch.rand(10, 3)
    balls = positions.split(4)
    rows = x + layer.position(torch.cat([b - b.mean(0) for b in balls]))
    tokens = torch.stack([r.mean(0) for r in rows.split(3)])
    wanted = []
    for own in rows.split(4):
        keys = torch.cat([own, tokens])
        q = layer.to_q(own).unflatten(1, (2, 4)).transpose(0, 1)
        k, v = (a.transpose(0, 1) for a in layer.to_kv(keys).unflatten(1, (2, 2, 4)).unbind(1))
        wanted.append(scaled_dot_product_attention(q, k, v).transpose(0, 1).flatten(1))
    close([layer(x, positions, ordered=True)], [layer.to_out(torch.cat(wanted))])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ball_size": 300}, "PointAttention: ball_size is 300, needs 1 to 256"),
        ({"query_group": 3}, "query_group 3 does not divide ball_size 8"),
        ({"selected": -1}, "selected -1, need at least 1 and 0"),
        ({"keep": 2}, "keep is 2, but no balls are selected"),
        ({"norm": True, "selected": 1}, "norm needs pooled tokens in the softmax"),
        ({"rotary": True}, "RotaryPoints: dim_head is 4 and coord_dim 3"),
        ({"selected": 1, "selected_size": 3}, "selected_size 3 does not divide ball_size 8"),
        ({"selected_size": 4}, "selected_size is 4, but no balls are selected"),
        ({"query_compression": "mean"}, "query_compression is mean, but no balls are selected"),
        ({"compression": "sum"}, "compression is 'sum', needs one of"),
        ({"compression": "mlp"}, "compression 'mlp' needs pooled tokens besides selected balls"),
        ({"selected": 1, "pooled": False, "compression": "mean"}, "'mean' needs pooled tokens"),
        ({"selected": 1, "coarse_queries": True}, "coarse_queries needs query_compression"),
        ({"mlp_ratio": 0}, "mlp_ratio is 0, needs more than 0"),
    ],
)
def test_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        gt.PointAttention(8, 2, **{"ball_size": 8, **arguments})


def test_errors_name_the_layer():
    layer = gt.PointAttention(8, 2, 4)
    with pytest.raises(
        ValueError, match=r"PointAttention: x has shape \(5, 8\), positions \(4, 3\)"
    ):
        layer(torch.randn(5, 8), torch.rand(4, 3))
    with pytest.raises(ValueError, match=r"x has shape \(5, 1\), .* need \(N, 8\) and \(N, d\)"):
        layer(torch.randn(5, 1), torch.rand(5, 3))
    for wrong in (torch.bool, torch.complex64):
        with pytest.raises(ValueError, match=f"batch is of {wrong} .*, needs integers"):
            layer(torch.randn(5, 8), torch.rand(5, 3), batch=torch.zeros(5, dtype=wrong))
        with pytest.raises(ValueError, match=f"cu_seqlens is of {wrong} .*, needs integers"):
            layer(torch.randn(1, 8), torch.rand(1, 3), torch.tensor([0, 1], dtype=wrong))
    with pytest.raises(ValueError, match="PointAttention: batch and cu_seqlens are both given"):
        layer(torch.randn(5, 8), torch.rand(5, 3), [0, 5], batch=torch.zeros(5, dtype=torch.int64))
    batch = torch.tensor([0, 0, 1, 1, 2])
    with pytest.raises(ValueError, match="PointAttention: batch has 2, but batch_size is 2"):
        layer(torch.randn(5, 8), torch.rand(5, 3), batch=batch, batch_size=2)
    with pytest.raises(ValueError, match=r"positions has shape \(5, 0\), needs \(N, d\), d > 0"):
        gt.ball_tree_order(torch.rand(5, 0))
    with pytest.raises(ValueError, match=r"batch has shape \(5,\), needs \(4,\)"):
        gt.ball_tree_order(torch.rand(4, 3), batch)
