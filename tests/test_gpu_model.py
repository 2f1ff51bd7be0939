# SPDX-License-Identifier: MIT
"""The time model's arithmetic and tables, from counts that are made up."""

import json
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

PTX = Path(__file__).parent / "cuda" / "ptx"
sys.path.insert(0, str(PTX))

import baseline  # noqa: E402
import model  # noqa: E402
import usable  # noqa: E402

KERNEL = {
    "label": "gat/forward", "kernel": "walk_rows<Sum<float>>", "symbol": "_Z3sum", "launches": 1,
    "blocks": 264, "threads": 264 * 128, "warps": 264 * 4, "threads_per_block": 128,
    "dynamic_shared": 0, "static_shared": 0, "barriers": 0, "block_cycles": 264_000,
    "sectors_read": 1000, "sectors_written": 24, "code": 10,
    "instructions": {
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": ["tensor", 1000, 32000, 1, 0],
        "fma.rn.f32": ["fp32", 4_000_000, 128_000_000, 1, 0],
    },
    "memory": [{"op": "ld.global.f32", "line": "a.cu:1", "space": "global", "requests": 10,
                "lanes": 320, "wavefronts": 10, "least": 0, "ideal": 0, "sectors": 40, "fresh": 40,
                "bytes": 1280}],
}  # fmt: skip
CASE = {"case": "gat/forward", "what": "a graph", "scale": 5.0, "bytes": 1e9}
LOG = """ptxas info    : Compiling entry function '_Z3sum' for 'sm_90'
    8 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers, used 0 barriers
{"source": "attention/gat.cu", "seconds": 12.5, "bytes": 2000000}
"""
MARKS = "a\n<!-- begin: {0} -->\nold\n<!-- end: {0} -->\nb\n"


@pytest.fixture
def counts(tmp_path):
    path = tmp_path / "counts.json"
    path.write_text(json.dumps(CASE) + "\n" + json.dumps(KERNEL) + "\n")
    (tmp_path / "gat.log").write_text(LOG)
    return path


@pytest.fixture
def usual(monkeypatch):
    """One usual case."""
    import cases

    gat = SimpleNamespace(usual=True, described=lambda: [("gat/forward", CASE)])
    monkeypatch.setattr(cases, "CASES", {"gat": gat})


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["model.py", *map(str, arguments)])
    model.main()


def count(monkeypatch, path, *arguments):
    """baseline.py, whose calls only write that there was one."""

    def counted(case):
        with path.open("a") as file:
            for label in (f"{case.name}/forward", "-"):
                file.write(json.dumps({"label": label, "kernel": "k"}) + "\n")

    monkeypatch.setenv("PTX_COUNT", str(path))
    monkeypatch.setattr(baseline, "count", counted)
    monkeypatch.setattr(sys, "argv", ["baseline.py", *arguments])
    baseline.main()
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_busiest_unit_bounds_a_kernel():
    kernel = model.Kernel(KERNEL, {"_Z3sum": (40, 12)}, CASE)
    sm = 5 / (132 * 1.755e9)
    assert kernel.bound == "issue"  # products are issued, too
    assert kernel.seconds["issue"] == pytest.approx(4_001_000 / 4 * sm)
    assert kernel.seconds["fp32"] == pytest.approx(1e6 * sm)
    assert kernel.seconds["tensor"] == pytest.approx(5 * 1000 * 4096 / (989e12 * 0.62))
    assert kernel.dram == 5 * 1024 * 32
    assert (kernel.registers, kernel.spilled) == (40, 12)


def test_no_launch_ends_before_its_longest_block():
    kernel = model.Kernel({**KERNEL, "longest_block": 3_510_000}, {}, CASE)
    assert kernel.latency == kernel.longest == pytest.approx(2e-3)
    assert "longest block 2 |" in kernel.line()


def test_kernels_go_by_what_they_do():
    assert model.short("walk_rows<SumEdges<float>>") == "SumEdges"
    assert model.short("gemm_tiles<float, false, GemmLayout<true, false>>") == "gemm_tiles"
    assert model.short("gno_find_rows") == "gno_find_rows"


def test_kernels_of_unnamed_namespaces_have_names():
    symbol = "_ZN7gnograd48_GLOBAL__N__5f2a1b3c_15_nsa_compress_cu_0a1b2c3d4findEPl"
    assert model.plain(symbol) == "_ZN7gnograd30_GLOBAL__N__15_nsa_compress_cu4findEPl"
    assert model.plain(symbol) == model.plain(symbol.replace("5f2a1b3c", "0123abcd"))


def test_what_is_counted_again_replaces_its_counts_alone(tmp_path, monkeypatch, capsys):
    path = tmp_path / "counts.json"
    count(monkeypatch, path, "gno_64", "gat")
    lines = count(monkeypatch, path, "gat*")
    labels = [x["label"] for x in lines if x.get("label", "-") != "-"]
    assert labels == [f"{c}/forward" for c in ("gno_64", "gat", "gat_4x32", "gat_bf16", "gat_v2")]
    told = [x["case"] for x in lines if "case" in x]
    assert len(told) == len(set(told)) == 10
    # by a pattern the usual cases, by its name any
    assert "agg_max_32" not in [x.get("case") for x in count(monkeypatch, path, "agg_max*")]
    assert "agg_max_32/forward" in [x.get("case") for x in count(monkeypatch, path, "agg_max_32")]
    capsys.readouterr()
    with pytest.raises(SystemExit):
        count(monkeypatch, path, "gat", "none")
    assert "no such case: none" in capsys.readouterr().err


def test_a_case_that_fails_has_no_earlier_counts_left(tmp_path, monkeypatch):
    path = tmp_path / "counts.json"
    count(monkeypatch, path, "gno_64", "gat")

    def fails(case):
        raise MemoryError(case.name)

    monkeypatch.setattr(baseline, "count", fails)
    monkeypatch.setattr(baseline, "done", lambda label: None)
    monkeypatch.setattr(sys, "argv", ["baseline.py", "gat"])
    with pytest.raises(SystemExit, match="not counted: gat"):
        baseline.main()
    text = path.read_text()
    assert '"label": "gno_64/forward"' in text and '"label": "gat/forward"' not in text


def test_tables_go_into_the_page(counts, usual, tmp_path, monkeypatch, capsys):
    page, data = tmp_path / "page.md", tmp_path / "now.json"
    page.write_text("".join(MARKS.format(m) for m in ("model", "compiled")))
    arguments = counts, "--registers", tmp_path / "gat.log", "--json", data
    run(monkeypatch, *arguments, "--summary")
    assert "| gat/forward | 0.0216 |" in capsys.readouterr().out
    run(monkeypatch, *arguments, "--page", page)
    text = page.read_text()
    assert "old" not in text and text.count("a\n<!-- begin") == 2
    assert "| attention/gat.cu | 12.5 | 2.00 | 1 | 40 | 1 |" in text
    assert "| all | 12.5 | 2.00 | 1 | 40 | 1 |" in text
    assert "| 12 |" in text  # bytes spilled
    before = tmp_path / "before.json"
    kept = json.loads(data.read_text())
    kept["kernels"][0]["seconds"]["issue"] *= 2
    before.write_text(json.dumps(kept))
    capsys.readouterr()
    run(monkeypatch, "--compare", before, data)
    assert "| gat/forward | 0.0432 | 0.0216 | 2 |" in capsys.readouterr().out


def test_a_page_has_the_usual_cases_in_order_or_stays(counts, tmp_path, monkeypatch, capsys):
    import cases

    page = tmp_path / "page.md"
    page.write_text(MARKS.format("model"))
    described = {"a": ["a/forward", "a/vjp"], "gat": ["gat/forward"], "rare": ["rare/forward"]}
    some = {
        name: SimpleNamespace(
            usual=name != "rare", described=lambda labels=labels: [(x, {}) for x in labels]
        )
        for name, labels in described.items()
    }
    monkeypatch.setattr(cases, "CASES", some)

    def add(label):
        with counts.open("a") as file:
            file.write(json.dumps({**KERNEL, "label": label}) + "\n")

    add("rare/forward")
    add("a/vjp")
    run(monkeypatch, counts, "--page", page)
    assert "not counted: a/forward\n" in capsys.readouterr().out
    assert page.read_text() == MARKS.format("model")
    add("a/forward")
    run(monkeypatch, counts, "--page", page)
    rows = [line.split(" | ")[0] for line in page.read_text().splitlines() if "/" in line]
    assert rows == ["| a/forward", "| a/vjp", "| gat/forward"]


def test_figures_have_three_digits():
    assert [model.ms(t) for t in (0.001234, 0.1, 1.0987)] == ["1.23", "100", "1,099"]


def test_what_one_side_lacks_is_told():
    data = {"cases": {}, "kernels": [{"label": "x", "kernel": "k", "bound": "DRAM",
            "seconds": {"DRAM": 1e-3}, "latency": 0.0, "dram": 1e6}]}  # fmt: skip
    table = model.compared({"cases": {}, "kernels": []}, data)
    assert "| x | not counted | 1 |" in table


def test_where_it_cannot_run_it_says_why(monkeypatch):
    monkeypatch.setattr(usable.platform, "machine", lambda: "aarch64")
    assert "x86-64" in usable.problem()
    with pytest.raises(SystemExit, match="nothing was run"):
        runpy.run_path(str(PTX / "usable.py"), run_name="__main__")


def test_without_nvcc_it_says_so(monkeypatch):
    monkeypatch.setattr(usable.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(usable.platform, "system", lambda: "Linux")
    flags = "flags : avx2 fma f16c bmi2\n"
    monkeypatch.setattr(usable.Path, "read_text", lambda *_: flags)
    failed = usable.subprocess.CompletedProcess([], 1, "", "none")
    monkeypatch.setattr(usable.subprocess, "run", lambda *_, **__: failed)
    assert usable.problem() == "there is no nvcc that works"
    flags = "flags : sse2\n"
    assert usable.problem().startswith("the processor lacks avx2")
