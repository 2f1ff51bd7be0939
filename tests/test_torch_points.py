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
}
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
