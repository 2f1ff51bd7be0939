# SPDX-License-Identifier: MIT
"""Weights on disk between Python, Fortran and C; files of Fortran."""

from __future__ import annotations

import random
import resource
import signal
import struct
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file

import gnograd as gg
from programs import PACKAGE, ROOT, build, build_and_run, run


def sample(rng: np.random.Generator, folder: Path, **arrays: np.ndarray) -> gg.Graph:
    """Some points and their neighbours, written for Fortran."""
    points = rng.random((60, 2))
    graph = gg.Graph.radius(points, 0.25)
    edges = (points[graph.dst] - points[graph.src]).astype(np.float32)
    nodes = rng.normal(size=(60, 3)).astype(np.float32)
    gg.save_weights(
        folder / "data.safetensors",
        {"offsets": graph.offsets, "indices": graph.indices, "nodes": nodes, "edges": edges},
    )
    return graph


@pytest.mark.parametrize("what", ["gno", "mesh_graph_net"])
def test_fortran_runs_what_pytorch_has_trained(what, rng, tmp_path):
    torch = pytest.importorskip("torch")
    import gnograd.torch as gt

    torch.manual_seed(0)
    graph = sample(rng, tmp_path)
    data = {n: torch.tensor(a) for n, a in gg.load_weights(tmp_path / "data.safetensors").items()}
    if what == "gno":
        model = gt.GNO(3, 4, coord_dim=2, hidden_channels=16, activation="silu")
    else:
        model = gt.MeshGraphNet(3, 2, 4, 3, **{
            f"hidden_dim_{part}": 16
            for part in ("processor", "node_encoder", "edge_encoder", "node_decoder")
        })  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(5):
        loss = model(data["nodes"], data["edges"], graph).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    gg.save_weights(tmp_path / "model.safetensors", model)
    expected = model(data["nodes"], data["edges"], graph).detach().numpy()
    build_and_run("gfortran", ROOT / "tests/consumer/trained.f90", tmp_path, what)
    found = gg.load_weights(tmp_path / "out.safetensors")["out"]
    assert found.dtype == np.float32 and found.shape == expected.shape
    assert np.linalg.norm(found - expected) <= 1e-6 * np.linalg.norm(expected)


@pytest.mark.parametrize(
    "what",
    ["outputs", "near outputs", "queries", "states in a periodic box", "states that are smooth"],
)
def test_fortran_runs_models_on_points(what, rng, tmp_path):
    torch = pytest.importorskip("torch")
    from gnograd import models
    from gnograd.data import Field, Layout, PointData, Sample

    apart, in_time = what == "queries", what.startswith("states")
    x = rng.random((80, 2)) + 3
    queries = rng.random((50, 2)) + 3 if apart else x
    f = rng.normal(size=(80, 2)).astype(np.float32)
    p = rng.normal(size=0 if apart else 2).astype(np.float32)
    states = rng.normal(size=(3, 80, 2)).astype(np.float32) if in_time else None
    if what.endswith("smooth"):
        states = states[:1] + 0.1 * states
    outputs = None if in_time else rng.normal(size=(len(queries), 2)).astype(np.float32)
    if what == "near outputs":
        outputs = f + 0.1 * outputs
    layout = Layout(
        2, (Field("f", 2),), (Field("u", 2),), (Field("p", len(p)),) if len(p) else (),
        (1.0, 0.0) if in_time else None, in_time, apart,
    )  # fmt: skip
    torch.manual_seed(0)
    sample = Sample(x, f, queries, outputs, p, states)
    model = models.PointModel.for_data(PointData([sample], layout), "gno", "small")
    models.save(model, tmp_path)
    inputs = f if states is None else np.concatenate([f, states[0]], axis=1)
    data = {"points": x.astype(np.float32), "inputs": inputs, "parameters": p[None]}
    if apart:
        data["queries"] = queries.astype(np.float32)
    gg.save_weights(tmp_path / "data.safetensors", data)

    known = model.tensor(inputs).requires_grad_()
    where = model.tensor(queries) if apart else None
    out = model(model.tensor(x), known, where, model.tensor(p) if len(p) else None)
    out.square().mean().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.01 * parameter.grad
    build_and_run("gfortran", ROOT / "tests/consumer/point_gno.f90", tmp_path)
    found = gg.load_weights(tmp_path / "out.safetensors")
    for value, expected in ((found["out"], out.detach()), (found["gradient"], known.grad)):
        np.testing.assert_allclose(value, expected, atol=1e-5 * float(expected.abs().max()))
    (tmp_path / "further.safetensors").rename(tmp_path / "model.safetensors")
    for name, values in gg.load(tmp_path).state_dict().items():
        torch.testing.assert_close(values, model.state_dict()[name], rtol=0, atol=1e-6)


def test_c_names_saves_and_loads(tmp_path):
    weight, scale = np.arange(6, dtype=np.float32).reshape(2, 3), 1 / 3
    files = tmp_path / "from c.safetensors", tmp_path / "from python.safetensors"
    gg.save_weights(files[1], {"lift.weight": weight, "scale": np.array(scale)})
    output = build_and_run("gcc", ROOT / "tests/consumer/weights.c", tmp_path, *map(str, files))
    assert float(output.split()[-1]) == scale
    found = gg.load_weights(files[0])
    assert found.keys() == {"lift.weight", "scale"}
    assert_array_equal(found["lift.weight"], np.array([[1, 2, 3], [4, 5, 6.5]], np.float32))
    assert found["scale"].shape == () and found["scale"] == 0.1


def test_fortran_runs_the_darcy_model(tmp_path):
    from typer.testing import CliRunner

    from gnograd.cli.app import app

    out = tmp_path / "out"
    options = "--samples 8 --test-samples 4 --grid 15 --nodes 60 --epochs 2 --batch 4 --width 8"
    done = CliRunner().invoke(app, ["train", "darcy", *options.split(), "--out", str(out)])
    assert done.exit_code == 0, done.output
    program_output = build_and_run(
        "gfortran", ROOT / "examples/fortran/run_darcy.f90", tmp_path, str(out)
    )
    error, difference = (float(line.split()[-1]) for line in program_output.splitlines()[1:])
    sample = load_file(out / "sample.safetensors")
    truth, prediction = sample["solution"], sample["prediction"]
    expected = np.linalg.norm(prediction - truth) / np.linalg.norm(truth)
    assert abs(error - expected) < 1e-5
    assert difference <= 1e-6


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """A program of a host that reads big-endian data, which it says to all of Fortran."""
    folder = tmp_path_factory.mktemp("files")
    return build(
        "gfortran",
        ROOT / "tests/consumer/files.f90",
        folder,
        "-fconvert=big-endian",
        "-fno-backtrace",
    )


def started(program: Path, folder: Path, *arguments: str, **options) -> subprocess.Popen:
    return subprocess.Popen(
        [program, *arguments], cwd=folder, env={"LD_LIBRARY_PATH": str(PACKAGE / "lib")}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
    )  # fmt: skip


def test_fortran_names_in_variables_of_fixed_length(files, tmp_path):
    told = run(files, "save and load", folder=tmp_path, LD_LIBRARY_PATH=str(PACKAGE / "lib"))
    assert told == " 1.0 2.0\n'u'\n"
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
    assert_array_equal(load_file(tmp_path / "model.safetensors")["u"], [1.0, 2.0])


def test_fortran_on_a_full_disk(files, tmp_path):
    path = tmp_path / "model.safetensors"
    gg.save_weights(path, {"u": np.arange(3.0)})
    good = path.read_bytes()

    def no_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    told, _ = started(files, tmp_path, "large", preexec_fn=no_room).communicate(timeout=60)
    assert told == "save: save_weights: model.safetensors cannot be written: File too large\n"
    assert path.read_bytes() == good
    assert list(tmp_path.iterdir()) == [path]


def test_fortran_when_a_call_fails(files, tmp_path):
    failing = tmp_path / "failing.so"
    source = ROOT / "tests/consumer/failing.c"
    run("gcc", "-shared", "-fPIC", source, "-ldl", "-o", failing, folder=tmp_path)
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "model.safetensors"
    gg.save_weights(path, {"u": np.arange(3.0)})
    good = path.read_bytes()

    def told(what: str) -> str:
        return run(
            files, "large", folder=folder,
            LD_LIBRARY_PATH=str(PACKAGE / "lib"), LD_PRELOAD=str(failing), FAILING=what,
        )  # fmt: skip

    refused = "save: save_weights: model.safetensors cannot be written: "
    for call in ("write 1", "write 2", "write 3", "fsync 1", "close 1", "rename 1"):
        assert told(call) == f"{refused}Input/output error\n", call
        assert path.read_bytes() == good and list(folder.iterdir()) == [path]
    assert told("fsync 2") == f"{refused}it is in place, but may be lost where the power fails\n"
    gg.save_weights(path, {"u": np.arange(3.0)})
    assert told("short") == ""
    assert_array_equal(load_file(path)["u"], np.full(100000, 2.0))


def test_fortran_processes_that_save_by_one_name(files, tmp_path):
    path = tmp_path / "model.safetensors"
    writers = [started(files, tmp_path, "many", str(number)) for number in range(3)]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            seen |= set(np.unique(load_file(path)["u"]).tolist())
            assert len(np.unique(load_file(path)["u"])) == 1
    for writer in writers:
        assert writer.communicate(timeout=60)[0] == ""
    assert seen <= {0.0, 1.0, 2.0} and list(tmp_path.iterdir()) == [path]


def test_fortran_writes_through_no_link(files, tmp_path):
    """Nobody foresees the name of a part, and a link in place of the file is replaced."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("model.safetensors", "model.safetensors.gnograd-part"):
        (folder / name).symlink_to(victim)
    assert started(files, folder, "large").communicate(timeout=60)[0] == ""
    assert victim.read_text() == "mine"
    assert not (folder / "model.safetensors").is_symlink()
    assert load_file(folder / "model.safetensors")["u"].shape == (100000,)


def verdicts(program: Path, headers: list[bytes], numbers: bytes, folder: Path) -> list[str]:
    """Differences between the verdicts of Fortran and Python on files with these headers."""
    paths = [folder / str(k) for k in range(len(headers))]
    for path, header in zip(paths, headers, strict=True):
        path.write_bytes(struct.pack("<Q", len(header)) + header + numbers)
    names = "".join(f"{path}\n" for path in paths)
    told, _ = started(program, folder, "read").communicate(names, timeout=60)
    lines = [line for line in told.splitlines() if line.startswith(("taken ", "refused "))]
    assert len(lines) == len(headers)
    other = []
    for path, header, line in zip(paths, headers, lines, strict=True):
        try:
            with safe_open(path, framework="np") as file:
                expected = f"taken {len(file.keys())}"
        except SafetensorError:
            expected = "refused"
        if not line.startswith(expected):
            other.append(f"{header!r}: {line}, needs {expected}")
    return other


X = b'"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'


def test_fortran_takes_what_python_takes(files, tmp_path):
    entry = b'{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":%s}}'
    headers = [
        b"{%s}" % X, b" {%s}" % X, b"{%s}\n\t\r " % X, b"{%s}\0" % X, b"{%s} x" % X, b"{%s,}" % X,
        b'{"__metadata__":null,%s}' % X, b'{"__metadata__":{"a":"1","a":"2"},%s}' % X,
        b'{"__metadata__":{},"__metadata__":{},%s}' % X, b'{"__metadata__ ":{"a":"b"},%s}' % X,
        b'{"__metadata__":{"a":1},%s}' % X, b'{"__metadata__":{"\xff":"1"},%s}' % X,
    ]  # fmt: skip
    for name in (
        b"", b"a\\u0000", b"a\x01", b"a\t", b"a\x7f", b"a\\/\\b", b"\\ud800", b"\\ud83d\\ude00",
        b"\xff", b"\xc3", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", "é\U0001f600".encode(),
    ):  # fmt: skip
        headers.append(b"{%s}" % X.replace(b"x", name, 1))
    for change in (
        (b"F32", b"F32 "), (b"dtype", b"dtype "), (b"[2]", b"[02]"), (b"[2]", b"[2.0]"),
        (b"[2]", b"[2,1,0]"), (b"[2]", b"[%s2]" % (40 * b"1,")), (b"[0,8]", b"[-0,8]"),
        (b"[0,8]", b"[0,8,9]"), (b"[0,8]", b"[0, 8\n]"), (b'"F32"', b'"F32","dtype":"F32"'),
        (b"F32", b"C64"), (b"F32", b"F64"), (b"[2]", b"[4294967296,4294967296,0]"),
    ):  # fmt: skip
        headers.append(b"{%s}" % X.replace(*change))
    for dtype, shape in (
        ("C64", 1), ("F4", 16), ("F4", 15), ("F8_E8M0", 8), ("F8_E4M3FNUZ", 8), ("F8_E5M2FNUZ", 8),
        ("I4", 16), ("C128", 0), ("BOOL", 8),
    ):  # fmt: skip
        changed = X.replace(b"F32", dtype.encode()).replace(b"[2]", b"[%d]" % shape)
        headers.append(b"{%s}" % changed)
    for value in (
        b"1", b"-0", b"01", b"1.", b".5", b"1e5", b"1E+05", b"1e", b"1e999", b"-1e999", b"1e-999",
        b"0e999", 400 * b"9", b"1.7976931348623157e308", b"1.8e308", b"true", b"nul", b"nulll",
        b'{"a":[]}', b'{"a":1,}', b"[1,]", b'{1:2}', 125 * b"[" + 125 * b"]",
        126 * b"[" + 126 * b"]",
    ):  # fmt: skip
        headers.append(entry % value)
    assert not verdicts(files, headers, bytes(8), tmp_path)


def test_fortran_refuses_damage_that_python_refuses(files, tmp_path):
    chance = random.Random(1)
    whole = (
        b'{"__metadata__":{"k":"\xc3\xa9 \\n"},%s,' % X
        + b'"y":{"shape":[2],"dtype":"I64","data_offsets":[8,24]}}'
    )
    pieces = [
        b'"',
        b"\\",
        b"{",
        b"}",
        b"[",
        b",",
        b":",
        b"0",
        b"-",
        b"e1",
        b" ",
        b"\n",
        b"\0",
        b"\x1f",
        b"\xff",
    ]
    headers = []
    for _ in range(600):
        header = bytearray(whole)
        place = chance.randrange(len(header))
        header[place : place + chance.randrange(3)] = chance.choice([b"", *pieces])
        headers.append(bytes(header))
    assert not verdicts(files, headers, bytes(24), tmp_path)


def test_fortran_reads_many_texts_in_time(files, tmp_path):
    lines = b",".join(b'"%d":""' % k for k in range(100_000))
    before = time.perf_counter()
    assert not verdicts(files, [b'{"__metadata__":{%s},%s}' % (lines, X)], bytes(8), tmp_path)
    assert time.perf_counter() - before < 20  # one that is quadratic takes minutes
