# SPDX-License-Identifier: MIT
"""The Ascend-shaped front: values, gradients, every limit with its code."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gnograd as gg
from gnograd.compat import ascend

ENDS = {"actual_seq_qlen": [9, 9, 20], "actual_seq_kvlen": [64, 96, 160]}


def arguments(rng, dtype=np.float64, **change):
    """Arrays of three sequences, and the other arguments of the forward function."""
    shapes = {"query": (20, 6, 5), "key": (160, 2, 5), "value": (160, 2, 4)}
    arrays = {name: rng.normal(size=shape).astype(dtype) for name, shape in shapes.items()}
    topk = np.concatenate([rng.integers(0, 4, (9, 2, 2)), rng.integers(0, 4, (11, 2, 2))])
    static = {
        "scale_value": 0.7, "head_num": 6, "select_block_size": 16, "select_block_count": 2, **ENDS
    }  # fmt: skip
    return {**arrays, "topk_indices": topk.astype(np.int32), **static, **change}


def grad_arguments(forward, results, cotangent):
    renamed = {name.replace("select_", "selected_"): v for name, v in forward.items()}
    names = ("attention_out", "softmax_max", "softmax_sum")
    results = dict(zip(names, results, strict=True))
    return {**renamed, **results, "attention_out_grad": cotangent}


def plain(given, sparse_mode=0):
    """The arguments of `selected_attention` that mean the same."""
    ends = (np.array([0, *given[name]], np.int64) for name in ENDS)
    inputs = tuple(given[name] for name in ("query", "key", "value"))
    return inputs, {
        "block_index": given["topk_indices"],
        "block_size": 16,
        "scale": 0.7,
        "duplicates": "count",
        "causal": sparse_mode == 2,
        **dict(zip(("cu_q", "cu_k"), ends, strict=True)),
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse_mode", [0, 2])
def test_values_and_gradients(sparse_mode, dtype, rng):
    given = arguments(rng, dtype, sparse_mode=sparse_mode)
    results = ascend.nsa_selected_attention(**given)
    inputs, static = plain(given, sparse_mode)
    out, saved = gg.selected_attention.forward(*inputs, return_saved=True, **static)
    assert_array_equal(results[0], out)
    with np.errstate(divide="ignore"):
        lse = results[1] + np.log(results[2])
    assert results[1].shape == results[2].shape == (20, 6, 8)
    eps = np.finfo(dtype).eps
    assert_allclose(lse, np.repeat(saved[1][..., None], 8, axis=2), rtol=8 * eps, atol=8 * eps)
    cotangent = rng.normal(size=out.shape).astype(dtype)
    gradients = ascend.nsa_selected_attention_grad(**grad_arguments(given, results, cotangent))
    expected = gg.selected_attention.vjp(cotangent, inputs, saved=saved, **static)
    for a, b in zip(gradients, expected[:3], strict=True):
        assert a.dtype == dtype
        assert_allclose(a, b, rtol=0, atol=60 * eps * np.abs(b).max())


def test_the_maximum_is_that_of_the_logits(rng):
    given = arguments(rng)
    _, largest, _ = ascend.nsa_selected_attention(**given)
    blocks = given["topk_indices"][3, 1]
    keys = np.concatenate([given["key"][16 * b : 16 * b + 16, 1] for b in blocks])
    assert_allclose(largest[3, 4], 0.7 * np.max(keys @ given["query"][3, 4]))


def test_rows_that_see_nothing(rng):
    given = arguments(rng, sparse_mode=2)
    given["topk_indices"][:9] = 3
    out, largest, total = results = ascend.nsa_selected_attention(**given)
    assert not out[:9].any()
    assert np.isneginf(largest[:9]).all()
    assert not total[:9].any()
    gradients = ascend.nsa_selected_attention_grad(
        **grad_arguments(given, results, np.ones_like(out))
    )
    assert not gradients[0][:9].any()
    assert all(np.isfinite(g).all() for g in gradients)


def test_half_precision(rng):
    given = arguments(rng, np.float16)
    results = ascend.nsa_selected_attention(**given)
    assert [x.dtype for x in results] == [np.float16, np.float32, np.float32]
    wide = {k: v.astype(np.float32) if k in ("query", "key", "value") else v
            for k, v in given.items()}  # fmt: skip
    assert_array_equal(results[0], ascend.nsa_selected_attention(**wide)[0].astype(np.float16))
    gradients = ascend.nsa_selected_attention_grad(
        **grad_arguments(given, results, np.ones_like(results[0]))
    )
    assert all(g.dtype == np.float16 for g in gradients)


LIMITS = [
    ({"input_layout": "BSND"}, "input_layout must be TND"),
    ({"input_layout": "TN"}, "input_layout must be TND"),
    ({"sparse_mode": 1}, "sparse_mode must be 0 or 2"),
    ({"atten_mask": np.ones(1)}, "atten_mask is not supported"),
    ({"head_num": 5}, "head_num must be the number of heads of query"),
    ({"query": np.ones((20, 129, 5)), "head_num": 129}, "head_num must lie between 1 and 128"),
    ({"query": np.ones((20, 7, 5)), "head_num": 7}, "head_num must be a multiple"),
    ({"query": np.ones((20, 66, 5)), "head_num": 66}, "head_num must be at most 32 times"),
    ({"value": np.ones((160, 2, 6))}, "value must have features, and not more"),
    (
        {"query": np.ones((20, 6, 257)), "key": np.ones((160, 2, 257))},
        "query must not have more than 256 features",
    ),
    *(({"{}_block_size": n}, "_block_size must be a multiple of 16") for n in (0, 8, 24, 144)),
    *(
        ({"{}_block_count": n, "topk_indices": np.zeros((20, 2, n), np.int32)},
         "_block_count must lie between 1 and 128")
        for n in (0, 129)
    ),
    (
        {"{}_block_count": 64, "{}_block_size": 128, "topk_indices": np.zeros((20, 2, 64), "i4")},
        "_block_count times .*_block_size must be less than 8192",
    ),
    ({"{}_block_count": 2**31, "topk_indices": np.zeros((20, 2, 1), np.int32)}, "_block_count is"),
    ({"head_num": 2**63}, "head_num is 9223372036854775808, needs at most"),
    ({"actual_seq_qlen": [], "actual_seq_kvlen": []}, "actual_seq_qlen must have at least one"),
    ({"actual_seq_qlen": [9, 8, 20]}, "actual_seq_qlen must rise to the number"),
    ({"actual_seq_qlen": [9, 9, 19]}, "actual_seq_qlen must rise to the number"),
    ({"actual_seq_qlen": [20]}, "different lengths"),
    ({"actual_seq_qlen": [9.0, 9.0, 20.0]}, "actual_seq_qlen needs a sequence of integers"),
    ({"actual_seq_kvlen": [64, 96, 150]}, "actual_seq_kvlen must rise to the number"),
    ({"actual_seq_kvlen": [64, 80, 160]}, "actual_seq_kvlen must give every sequence at least"),
    ({"actual_seq_kvlen": [60, 96, 160]}, "actual_seq_kvlen must be multiples of"),
    ({"topk_indices": np.full((20, 2, 2), 4, np.int32)}, "topk_indices names a block"),
    ({"topk_indices": np.full((20, 2, 2), -1, np.int32)}, "topk_indices names a block"),
    ({"topk_indices": np.zeros((20, 2, 2), np.int64)}, "topk_indices is int64, needs int32"),
    ({"topk_indices": np.zeros((20, 2, 3), np.int32)}, "topk_indices has shape"),
    ({"key": np.ones((160, 2, 4))}, "key has shape"),
    ({"key": np.ones((160, 2, 5), np.float32)}, "key is float32, needs float64"),
    ({"query": np.ones((20, 6, 5), int)}, "query is int64, needs a floating-point type"),
]  # fmt: skip


@pytest.mark.parametrize("gradient", [False, True], ids=["forward", "gradient"])
@pytest.mark.parametrize(("change", "message"), LIMITS, ids=[m for _, m in LIMITS])
def test_limits(change, message, gradient, rng):
    change = {name.format("select"): value for name, value in change.items()}
    given = arguments(rng)
    function, name = ascend.nsa_selected_attention, "nsa_selected_attention"
    if gradient:
        results = ascend.nsa_selected_attention(**given)
        given = {**given, **change}
        n_q, d_v = given["query"].shape[1], given["value"].shape[2]
        out = np.zeros((20, n_q, d_v), given["query"].dtype)
        softmax = np.zeros((20, n_q, 8))
        given = grad_arguments(given, (out, softmax, softmax), out)
        function, name = ascend.nsa_selected_attention_grad, name + "_grad"
        assert len(results) == 3
    with pytest.raises(ascend.InvalidParameterError, match=f"^{name}: .*{message}") as caught:
        function(**{**given, **({} if gradient else change)})
    assert caught.value.code == 161002


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("head_num", 6.0),
        ("head_num", "6"),
        ("select_block_size", 16.5),
        ("select_block_count", True),
        ("select_block_count", np.array([2])),
        ("sparse_mode", None),
        ("scale_value", "0.7"),
        ("scale_value", np.ones(2)),
    ],
)
def test_wrong_kinds(name, value, rng):
    with pytest.raises(TypeError, match=f"^nsa_selected_attention: {name} is .*, needs a"):
        ascend.nsa_selected_attention(**arguments(rng, **{name: value}))
    given = grad_arguments(arguments(rng), [np.ones((20, 6, 4)), *np.ones((2, 20, 6, 8))], None)
    name = name.replace("select_", "selected_")
    with pytest.raises(TypeError, match=f"^nsa_selected_attention_grad: {name} is .*, needs a"):
        ascend.nsa_selected_attention_grad(**{**given, name: value})


def test_masks_would_be_ignored(rng):
    given = arguments(rng)
    given["key"] = np.ma.array(given["key"])
    with pytest.raises(TypeError, match="nsa_selected_attention: key is a masked array"):
        ascend.nsa_selected_attention(**given)


def test_arguments_by_position(rng):
    """Arguments by position come in the order of torch_npu, and take numbers of every kind."""
    given = arguments(rng)
    expected = ascend.nsa_selected_attention(**given)
    names = ("query", "key", "value", "topk_indices")
    ends = {name: given[name] for name in ENDS}
    arrays = [given[name] for name in names]
    actual = ascend.nsa_selected_attention(
        *arrays, np.array(0.7), np.int32(6), np.array(16), 2, **ends
    )
    for a, b in zip(actual, expected, strict=True):
        assert_array_equal(a, b)
    positional = [given["query"], given["key"], given["value"], actual[0], actual[0], *actual[1:]]
    by_name = ascend.nsa_selected_attention_grad(**grad_arguments(given, actual, actual[0]))
    by_position = ascend.nsa_selected_attention_grad(
        *positional, given["topk_indices"], 0.7, 6, 16, 2, **ends
    )
    for a, b in zip(by_position, by_name, strict=True):
        assert_array_equal(a, b)


@pytest.mark.parametrize(("count", "size"), [(33, 64), (127, 64), (128, 16), (64, 112)])
def test_many_blocks(count, size, rng):
    n_keys = count * size
    q, (k, v) = rng.normal(size=(3, 2, 4)), rng.normal(size=(2, n_keys, 1, 4))
    topk = np.array([rng.permutation(count)[None] for _ in range(3)], np.int32)
    ends = {"actual_seq_qlen": [3], "actual_seq_kvlen": [n_keys]}
    out, largest, total = ascend.nsa_selected_attention(q, k, v, topk, 0.5, 2, size, count, **ends)
    scores = np.einsum("qhd,kd->qhk", q, k[:, 0]) * 0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    assert_allclose(total[..., 0], weights.sum(-1), rtol=1e-12)
    assert_allclose(out, (weights / weights.sum(-1, keepdims=True)) @ v[:, 0], atol=1e-12)
    gradients = ascend.nsa_selected_attention_grad(
        q, k, v, out, q, largest, total, topk, 0.5, 2, size, count, **ends
    )
    expected = gg.selected_attention.vjp(
        q, (q, k, v), block_index=topk, block_size=size, scale=0.5, duplicates="count"
    )
    for a, b in zip(gradients, expected[:3], strict=True):
        assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["query", "key", "value", "topk_indices", "actual_seq_qlen", "actual_seq_kvlen",
             "input_layout"],
)  # fmt: skip
def test_nothing_may_be_null(name, rng):
    given = arguments(rng, **{name: None})
    with pytest.raises(ascend.NullPointerError, match=f"{name} is None") as caught:
        ascend.nsa_selected_attention(**given)
    assert caught.value.code == 161001
    given = grad_arguments(arguments(rng), [np.ones((20, 6, 4)), *np.ones((2, 20, 6, 8))], None)
    with pytest.raises(ascend.NullPointerError, match="attention_out_grad is None"):
        ascend.nsa_selected_attention_grad(**given)


def test_codes_of_the_c_interface(rng):
    """The two calls as a C program makes them."""
    from gnograd import _core
    from gnograd.backends.cpu import address

    given = arguments(rng)
    arrays = [given[name] for name in ("query", "key", "value", "topk_indices")]
    ends = [np.array(given[name], np.int64) for name in ENDS]
    results = [np.empty(s) for s in ((20, 6, 4), (20, 6, 8), (20, 6, 8))]
    layout = np.frombuffer(b"TND\0", np.uint8)
    size = np.zeros(1, np.int64)

    def passed(**null):
        named = {"query": arrays[0], "attention_out": results[0]}
        pointers = [address(x) for x in arrays]
        pointers[0] = 0 if "query" in null else address(named["query"])
        outs = [address(x) for x in results]
        outs[0] = 0 if "attention_out" in null else outs[0]
        return (20, 160, 6, 2, 5, 4, 3, *pointers, 0, *map(address, ends), 0.7, 6, 16, 2,
                address(layout), 0, *outs)  # fmt: skip

    first = _core.gnograd_nsa_selected_attention_get_workspace_size_r64
    second = _core.gnograd_nsa_selected_attention_r64
    assert first(*passed(), address(size)) == 0
    workspace = np.empty(size[0], np.uint8)
    assert second(*passed(), address(workspace), int(size[0]), 0) == 0
    assert_array_equal(results[0], ascend.nsa_selected_attention(**given)[0])
    assert first(*passed(), 0) == 161001
    assert first(*passed(query=True), address(size)) == 161001
    assert first(*passed(attention_out=True), address(size)) == 161001
    assert second(*passed(), 0, int(size[0]), 0) == 161001
    assert second(*passed(), address(workspace), int(size[0]) - 1, 0) == 161002


# ---- tensors ----


def tensors(given, torch, dtype=None):
    """The arrays as tensors; those of floating-point numbers want gradients."""
    found = {}
    for name, value in given.items():
        if isinstance(value, np.ndarray):
            value = torch.from_numpy(value)
            if value.is_floating_point():
                value = value.to(dtype or value.dtype).requires_grad_()
        found[name] = value
    return found


@pytest.mark.parametrize("sparse_mode", [0, 2])
def test_tensors(sparse_mode, rng):
    torch = pytest.importorskip("torch")
    given = arguments(rng, sparse_mode=sparse_mode)
    expected = ascend.nsa_selected_attention(**given)
    moved = tensors(given, torch)
    results = ascend.nsa_selected_attention(**moved)
    for a, b in zip(results, expected, strict=True):
        assert isinstance(a, torch.Tensor)
        assert_array_equal(a.detach(), b)
    assert results[0].requires_grad
    assert not results[1].requires_grad
    cotangent = rng.normal(size=results[0].shape)
    inputs = [moved[name] for name in ("query", "key", "value")]
    gradients = torch.autograd.grad(results[0], inputs, torch.from_numpy(cotangent))
    of_arrays = ascend.nsa_selected_attention_grad(**grad_arguments(given, expected, cotangent))
    detached = [x.detach() for x in results]
    of_tensors = ascend.nsa_selected_attention_grad(
        **grad_arguments(moved, detached, torch.from_numpy(cotangent))
    )
    for a, b, c in zip(gradients, of_arrays, of_tensors, strict=True):
        assert_array_equal(a, b)
        assert_array_equal(c.detach(), b)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_tensors_in_half_precision(kind, rng):
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, kind)
    given = tensors(arguments(rng, np.float32), torch, dtype)
    out, largest, total = ascend.nsa_selected_attention(**given)
    assert [out.dtype, largest.dtype, total.dtype] == [dtype, torch.float32, torch.float32]
    wide = {
        k: v.detach().float() if k in ("query", "key", "value") else v for k, v in given.items()
    }
    torch.testing.assert_close(
        out, ascend.nsa_selected_attention(**wide)[0].to(dtype), rtol=0, atol=0
    )
    inputs = [given[name] for name in ("query", "key", "value")]
    assert all(g.dtype == dtype for g in torch.autograd.grad(out.float().sum(), inputs))


def test_limits_of_tensors(rng):
    torch = pytest.importorskip("torch")
    given = tensors(arguments(rng, head_num=5), torch)
    with pytest.raises(ascend.InvalidParameterError, match="head_num must be the number of heads"):
        ascend.nsa_selected_attention(**given)
    with pytest.raises(ascend.NullPointerError, match="topk_indices is None"):
        ascend.nsa_selected_attention(**{**given, "topk_indices": None})
