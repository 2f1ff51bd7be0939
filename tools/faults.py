# SPDX-License-Identifier: MIT
"""Faults for `planted_faults.py`: what a slip of the keyboard or of the mind makes of a line."""

from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
OPERATORS = "tests/operators"


@dataclass(frozen=True)
class Fault:
    """Text of a file, what stands there instead, and the tests that should notice."""

    name: str
    file: str
    old: str
    """Stands once in the file."""
    new: str
    tests: str
    """Test files, without folder, ``test_`` and ``.py``."""

    @property
    def layer(self) -> str:
        """First folder of the file."""
        return self.file.partition("/")[0]

    @property
    def test_files(self) -> list[str]:
        """Paths of the test files; the laws of operators stand in files of their own."""
        folders = {name: self._folder(name) for name in self.tests.split()}
        files = [f"{folder}/test_{name}.py" for name, folder in folders.items()]
        laws = [f"{OPERATORS}/test_{name}.py" for name in ("faces", "fronts")]
        return files + laws if OPERATORS in folders.values() else files

    @property
    def selection(self) -> list[str]:
        """Arguments of pytest: the test files, and of the laws those on the operators they name."""
        return [*self.test_files, "-k", " or ".join(self.tests.split())]

    @staticmethod
    def _folder(name: str) -> str:
        return OPERATORS if (TESTS / "operators" / f"test_{name}.py").is_file() else "tests"


def _faults(folder: str, *rows: tuple[str, str, str, str, str]) -> list[Fault]:
    return [Fault(name, folder + file, old, new, tests) for name, file, old, new, tests in rows]


ATTENTION = _faults(
    "fortran/kernels/attention/",
    ("softmax: a new maximum rescales nothing", "attention_forward.fypp",
     "factor = exp_of(soft(h, 1) - m_new(h))", "factor = 1", "attention"),
    ("softmax: pieces of a long row join without their maxima", "attention_forward.fypp",
     "w_later = exp_of(later_soft(h, 1) - m)", "w_later = 1", "attention"),
    ("heads are summed, not averaged", "attention_forward.fypp",
     "row(:n_channels) = row(:n_channels)/n_heads", "continue", "attention"),
    ("gat hvp: no second derivative of the activation", "mha_gat.fypp",
     "*slope(:, :n) + gs(:, :n)*curve(:, :n)*memo(:, :n, memo_tangent)", "*slope(:, :n)",
     "attention"),
    ("gat jvp: tangent of the edge weights is forgotten", "mha_gat.fypp",
     "if (associated(self%dx%weight)) call add_parts(self%x%edge,",
     "if (.false.) call add_parts(self%x%edge,", "attention"),
    ("gat_v2 jvp: tangents of destinations are those of sources", "mha_gat_v2.fypp",
     "if (associated(self%dx%target)) u = u + self%dx%target(:, i)",
     "if (associated(self%dx%target)) u = u - self%dx%target(:, i)", "attention"),
    ("mha_simple hvp: no tangent of keys of edges", "mha_simple.fypp",
     "call add_keys(1, self%dx%edge, edges%row)", "continue", "attention"),
    ("score activation: curve of the sigmoid has the other sign", "score_activation.fypp",
     "curve(a:b) = -t(:m)*e(:m)/(1 + e(:m))**2", "curve(a:b) = t(:m)*e(:m)/(1 + e(:m))**2",
     "attention"),
    ("score activation: curve of ELU without its parameter", "score_activation.fypp",
     "merge(zero, parameter*e(:m), z(a:b) > 0)", "merge(zero, e(:m), z(a:b) > 0)", "attention"),
    ("dropout goes by the place in a list, not the row of the edge", "dropout.c",
     "(uint64_t)row[q] * (uint64_t)n_heads", "(uint64_t)q * (uint64_t)n_heads", "attention"),
    ("edge_softmax hvp: without the mean", "edge_softmax.fypp",
     "(v(m, e) - mean_v(h)) - mean(h)), &", "(v(m, e) - mean_v(h))), &", "edge_softmax"),
)  # fmt: skip

AGGREGATION = _faults(
    "fortran/kernels/",
    ("minimum is the maximum", "aggregation/aggregation_sweep.fypp",
     "real(merge(-1, 1, rows%aggregation == reduce_min), ${rk}$)", "1._${rk}$", "aggregation"),
    ("a later piece of a row wins a tie", "aggregation/aggregation_sweep.fypp",
     "if (exceeds(sums%value(c, later), sums%value(c, s))) then",
     "if (.not. exceeds(sums%value(c, s), sums%value(c, later))) then", "aggregation"),
    ("tangent of the degree of a long row is that of its first piece",
     "aggregation/aggregation_sweep.fypp",
     "sums%t_degree(s) = sums%t_degree(s) + sums%t_degree(later)", "continue", "aggregation"),
    ("mean hvp: turned sign at the weights", "aggregation/aggregation_pull.fypp",
     "weight = weight - t(id)*w_0(edge)", "weight = weight + t(id)*w_0(edge)", "aggregation"),
    ("mean hvp: turned sign at the gradients to weights", "aggregation/aggregation_pull.fypp",
     "dot(:n) = dot(:n) - t(id(:n))*dot_0(:n)", "dot(:n) = dot(:n) + t(id(:n))*dot_0(:n)",
     "aggregation"),
    ("mean of edges alone: one edge too few", "aggregation/aggregation_pull.fypp",
     "real(max(p_last - p_first + 1, 1_int64)", "real(max(p_last - p_first, 1_int64)",
     "aggregation"),
    ("relations: scratch is not cleared", "relational/relational_sums.fypp",
     "if (touched%take(r)) sums(:, r) = 0", "if (touched%take(r)) continue", "relational"),
    ("relations: gradients of blocks replace each other", "relational/relational_gradients.fypp",
     "to = dot(q) + merge(to, 0._${rk}$, add)", "to = dot(q)", "relational"),
    ("relations: tangent of a mean weight", "relational/relational_weights.fypp",
     "(t_w(e) - t_s(r, me)*v(e))/s(r, me)", "t_w(e)/s(r, me)", "relational"),
    ("edge update: destinations are forgotten", "edge_updates/edge_updates.fypp",
     "if (present(x_dst)) target => x_dst", "continue", "edge_updates"),
    ("edge update: gradients to destinations are those to edges", "edge_updates/edge_updates.fypp",
     "at(3), cotangent%out, grad%x_dst, error)", "at(1), cotangent%out, grad%x_dst, error)",
     "edge_updates"),
    ("moments: tangent of the variance without its 2", "moments/moments.fypp",
     "total(2) = total(2) + 2*(", "total(2) = total(2) + (", "moments"),
    ("moments: places of a covariance in three dimensions", "moments/moments.fypp",
     "row*(row - 1)/2 + max(a, b)", "row*(row + 1)/2 + max(a, b)", "moments"),
)  # fmt: skip

GNO = _faults(
    "fortran/kernels/",
    ("gno jvp: tangents of nodes without the weight of the edge", "gno/gno_full_forward.fypp",
     "if (associated(in%edge_weight)) work%x_t(:, q) = work%x_t(:, q)*in%edge_weight(edge(q))",
     "continue", "gno"),
    ("gno hvp: a tangent of nodes alone does not count", "gno/gno_full_backward.fypp",
     "has_q_t = has_v_t .or. associated(tan%h)", "has_q_t = has_v_t", "gno"),
    ("gno: the last hidden weight takes the place of the bias", "gno/gno_kernel.fypp",
     "grad%b_v = d_v(:, static%n_hidden + 1, 0)", "grad%b_v = d_v(:, static%n_hidden, 0)", "gno"),
    ("diagonal gno: tangents of nodes are forgotten", "gno/gno_diagonal.fypp",
     "if (associated(tan%h)) work%h_t(:, q) = tan%h(:, node)", "continue", "gno"),
    ("gno_aggregate: gradients to nodes are not averaged", "gno/gno_aggregate.fypp",
     "d_h(f, j) = d_h(f, j) + s*t", "d_h(f, j) = d_h(f, j) + t", "gno"),
    ("gno: a batch is its first item", "gno/gno_batch.fypp",
     "= items(:, node + 1, item)", "= items(:, node + 1, 1)", "gno_batch"),
    ("gno by matrices: sums in place of means", "gno/gno_matrices_backward.fypp",
     "s = 1/real(degree, ${rk}$)", "s = 1", "gno gno_batch"),
    ("jets: second derivatives of the value with the slope", "gno_jets/jets.fypp",
     "y(i:j, to) = y(i:j, to) + s(i:j, 2)*", "y(i:j, to) = y(i:j, to) + s(i:j, 1)*", "gno_jets"),
    ("jets vjp: turned sign of a mixed derivative", "gno_jets/jets.fypp",
     "grad(i:j, b) = grad(i:j, b) + s(i:j, 2)*", "grad(i:j, b) = grad(i:j, b) - s(i:j, 2)*",
     "gno_jets"),
    ("jets hvp: turned sign of the curve", "gno_jets/jets.fypp",
     "+ s(i:j, 2)*p_t(i:j, 0)*grad(i:j, 0)", "- s(i:j, 2)*p_t(i:j, 0)*grad(i:j, 0)", "gno_jets"),
    ("deep gno hvp: tangents of weights are not averaged", "gno_deep/deep_backward.fypp",
     "work%scaled(:n) = work%scale(:n)*work%w_t(:n)", "work%scaled(:n) = work%w_t(:n)", "gno_deep"),
    ("layer norm hvp: change of the deviation, turned", "edge_mlp/layer_norm.fypp",
     "change(q) = -r(q)*along", "change(q) = r(q)*along", "edge_mlp"),
    ("layer norm jvp: the centre does not move", "edge_mlp/layer_norm.fypp",
     "r(q)*(m_t(:f, q) - centre - normal", "r(q)*(m_t(:f, q) - normal", "edge_mlp"),
    ("layer norm hvp: no tangent of gamma", "edge_mlp/layer_norm.fypp",
     "if (present(gamma_t)) a_t = a_t + gamma_t*g(:, q)", "continue", "edge_mlp"),
)  # fmt: skip

SPARSE = _faults(
    "fortran/kernels/",
    ("nsa: logarithm of the sum is forgotten", "nsa/nsa_forward.fypp",
     "lse(row) = lse(row) + w%total(i*group + g)", "lse(row) = lse(row)", "nsa"),
    ("nsa: causal rows see one key too many", "nsa/nsa_forward.fypp",
     "s(visit%high(j) + 1:, c) = lowest", "s(visit%high(j) + 2:, c) = lowest", "nsa"),
    ("nsa hvp: gradients to gates without the mean", "nsa/nsa_backward.fypp",
     "((w%x(i, c) - rho(row))*(w%d(i, c) - delta(row))", "(w%x(i, c)*(w%d(i, c) - delta(row))",
     "nsa"),
    ("nsa jvp: without the mean", "nsa/nsa_tangents.fypp",
     "out_tangent(j, row) = out_tangent(j, row) - t*out(j, row)",
     "out_tangent(j, row) = out_tangent(j, row)", "nsa"),
    ("dense: keys that no query sees cut the others", "dense/stretches.fypp",
     ".and. .not. plan%alone", "", "dense"),
    ("dense: stretches of keys join without their maxima", "dense/stretches.fypp",
     "part_sums(i*heads + head)*exp(own - lse(row))", "part_sums(i*heads + head)", "dense"),
    ("dense hvp: a temperature's tangent does not turn the gradient", "nsa/nsa_tempering.fypp",
     "dds(:, c) = dds(:, c) + tempering%t_rate(row)/tempering%rate(row)*ds(:, c)", "continue",
     "dense"),
    ("compress: the last block pulls nothing", "nsa/compress.fypp",
     "min(p/plan%stride, n - 1)", "min(p/plan%stride, n - 2)", "nsa_selection nsa"),
    ("selection: the own block is not left out", "nsa/selection.f90",
     "self%exclude_own = static%exclude_own", "self%exclude_own = .false.", "nsa_selection"),
    ("selection down the tree: large balls weigh as small ones", "nsa/select_tree.fypp",
     "w%weight(n_keys) = weight", "w%weight(n_keys) = 1", "nsa_selection"),
    ("radial basis jvp: frequencies do not move", "dimenet/radial_basis.fypp",
     "points%rbf_x(k, :)*along_x + points%rbf_w(k, :)*along_w", "points%rbf_x(k, :)*along_x",
     "radial_basis"),
    ("triplets: a further tile of edges replaces the first", "dimenet/triplets.fypp",
     "out(:, outgoing%edge(k)) = out(:, outgoing%edge(k)) + work%out(:, k)",
     "out(:, outgoing%edge(k)) = work%out(:, k)", "dimenet"),
    ("triplets vjp: turned sign of an angle", "dimenet/triplet_gradients.fypp",
     "turn = sweep%turn_in(:, e) + sweep%turn_out(:, e)",
     "turn = sweep%turn_in(:, e) - sweep%turn_out(:, e)", "dimenet"),
)  # fmt: skip

FORTRAN = _faults(
    "fortran/",
    ("gelu: third derivative", "primitives/activation.fypp",
     "density(:m)*near(:m)*(near(:m)**2 - 4)", "density(:m)*near(:m)*(near(:m)**2 - 3)",
     "gno_jets"),
    ("silu: fourth derivative", "primitives/activation.fypp",
     "both(:m)*(4*(1 - 6*both(:m))", "both(:m)*(4*(1 - 5*both(:m))", "gno_jets"),
    ("tanh: fourth derivative", "primitives/activation.fypp",
     "8*t(:m)*u(:m)*(2 - 3*t(:m)**2)", "8*t(:m)*u(:m)*(2 - 2*t(:m)**2)", "gno_jets"),
    ("mean over an axis is a sum", "autodiff/reduce.fypp",
     "/count_of(from%size, product(shape))", "", "autodiff"),
    ("product of matrices: gradient to the first, not transposed", "autodiff/linalg.fypp",
     "gradients(1) = multiply(g, b, .false., .not. tb)",
     "gradients(1) = multiply(g, b, .false., tb)", "autodiff"),
    ("softmax on the tape: gradient without its sum", "autodiff/reduce.fypp",
     "output*(cotangent - sum(output*cotangent, self%axis, keep_dim=.true.))", "output*cotangent",
     "autodiff"),
    ("broadcast: strides of the other array", "autodiff/elementwise.fypp",
     "stride = strides_of(merged_b)", "stride = strides_of(merged_a)", "autodiff"),
    ("Adam: decay of weights is forgotten", "autodiff/optimizer_loops.fypp",
     "g = grad(i) + decay*value(i)", "g = grad(i)",
     "autodiff_optimizers"),
    ("SGD: momentum averages", "autodiff/optimizer_loops.fypp",
     "m(i) = momentum*m(i) + grad(i)", "m(i) = momentum*m(i) + (1 - momentum)*grad(i)",
     "autodiff_optimizers"),
)  # fmt: skip

PYTHON = _faults(
    "python/gnograd/",
    ("known calls are told apart by how many gradients they want", "faces/operator.py",
     "return (frozenset(wrt), *more)", "return (len(wrt), *more)",
     "operator operator_repeated aggregation"),
    ("known calls forget their static arguments", "faces/operator.py",
     "key = face, choice, of_static, found[0]", "key = face, choice, found[0]",
     "operator operator_repeated"),
    ("an input given twice is taken", "faces/operator.py",
     'raise TypeError(f"{self.name}: {name} is given twice")', "pass", "operator"),
    ("an unknown argument is taken", "faces/operator.py",
     'raise TypeError(f"{self.name}: unknown argument {name!r}")', "pass", "operator static"),
    ("wrt names what is no input", "faces/operator.py",
     "if not isinstance(name, str) or name not in self.inputs:", "if not isinstance(name, str):",
     "operator"),
    ("a tangent of an absent input is taken", "faces/call.py",
     "if tangent is not None and value is None:", "if False:", "operator"),
    ("an array of the wrong size is taken", "notation/shapes.py",
     "return bool(sizes[dim] == length)", "return True", "operator aggregation"),
    ("-0.0 stays in a static argument", "notation/static.py",
     "return exact + 0.0", "return exact", "static"),
    ("edge ids of another length are taken", "graphs/graph.py",
     "if ids is not None and ids.size != sources.size:", "if False:", "graph"),
    ("edge_index of three rows is taken", "graphs/building.py",
     "if edges.ndim != 2 or len(edges) != 2:", "if edges.ndim != 2:", "graph graph_building"),
    ("scipy matrix: ends change places", "graphs/building.py",
     "cls.from_edges(entries.col, entries.row,", "cls.from_edges(entries.row, entries.col,",
     "graph_building"),
    ("radii in float32", "neighbors/cpu.py",
     "limits = np.array(radii, np.float64)", "limits = np.array(radii, np.float32).astype(float)",
     "neighbors"),
    ("points that are not finite are searched", "neighbors/cpu.py",
     "if not np.isfinite(getattr(search, name)).all():", "if False:", "neighbors"),
    ("parameters of another tape are taken", "autodiff/optimizers.py",
     "if any(array.tape is not tape for array in self.params):", "if False:",
     "autodiff_optimizers"),
    ("optimizer: steps taken are not loaded", "autodiff/optimizers.py",
     "_core.gnograd_optimizer_set_steps(self._handle, steps)", "pass", "autodiff_optimizers"),
    ("tape: a static array is taken in any type", "autodiff/operators.py",
     "if array.dtype != needed:", "if False:", "autodiff_graph autodiff_nsa static"),
    ("trajectory of meshes with different points", "data/files.py",
     "if not np.array_equal(each.arrays[mesh.POINTS], first.arrays[mesh.POINTS]):", "if False:",
     "data cli_files points_meaning"),
    ("an array of data named twice is taken", "data/roles.py",
     "if name in seen:", "if False:", "data points_meaning"),
    ("weights of the other byte order are taken", "weights.py",
     'kind.startswith((">", ', "kind.startswith((", "weights"),
    ("a checkpoint of other settings is taken", "cli/checkpoint.py",
     "if differences:", "if False:", "cli cli_files cli_parallel"),
    ("negative weights of a partition are taken", "distributed/partition.py",
     "if not (np.isfinite(work) & (work >= 0)).all():", "if not np.isfinite(work).all():",
     "distributed_partition"),
)  # fmt: skip

FRONTS = _faults(
    "python/gnograd/",
    ("torch: half precision goes to kernels that do not have it", "torch/custom_operators.py",
     "if not self.in_copies(args):", "if True:", "torch_half"),
    ("torch: rounded values are kept for the vjp", "torch/custom_operators.py",
     "return []  # 16-bit results", "pass  # 16-bit results", "torch_half torch_eager"),
    ("torch: third derivatives are 0 without a word", "torch/custom_operators.py",
     "self.hvp.register_autograd(self.refuse)", "pass", "torch torch_eager"),
    ("torch: forward over reverse without the moved cotangent", "torch/derivatives.py",
     "if any(c is not None for c in moved):", "if False:", "torch torch_eager"),
    ("torch: gradients for all inputs under compile", "torch/custom_operators.py",
     "wrt = needed(operands[: self.n], ctx.needs_input_grad[1 : 1 + self.n])",
     "wrt = [False] * self.n", "torch torch_eager"),
    ("torch: known calls forget their static arguments", "torch/eager.py",
     'key = "eager", of_static, layout', 'key = "eager", layout', "torch_eager torch"),
    ("torch: known gradients are those of other inputs", "torch/eager.py",
     'key = "eager vjp", ctx.kind.of_static, layout, wrt',
     'key = "eager vjp", ctx.kind.of_static, layout', "torch_eager torch"),
    ("torch: a tensor that is a negative view is read as it lies", "torch/eager.py",
     "or x.is_neg()", "", "torch_eager torch"),
    ("torch: graphs of numbers that have changed", "torch/made_once.py",
     "and _equal(numbers, tensor)", "", "torch_graph_kept"),
    ("torch: rows of no edge count where a program adds loops", "torch/graph_building.py",
     "dst.masked_fill(places >= offsets[-1], 0)", "dst", "torch_graph_kept"),
    ("torch: points select blocks of their own ball", "torch/point_attention.py",
     "of_block == ball[:, None, None]", "of_block < 0", "torch_points"),
    ("torch: GCN scales one side", "torch/gcn.py",
     "return out if scale is None else scale * out", "return out", "torch_pyg_models"),
    ("torch: features of another number of edges are taken", "torch/edges.py",
     "if edge_attr is not None and edge_attr.shape[0] != n_edges:", "if False:",
     "torch_pyg torch_pyg_models torch_graph_kept"),
    ("torch: frequencies of the embedding without pi", "torch/neuralop.py",
     "frequency = torch.pi * 2**k", "frequency = 2.0**k", "neuralop_block"),
    ("torch: DimeNet's offsets point back", "torch/dimenet.py",
     "vector = pos.index_select(0, dst) - pos.index_select(0, src)",
     "vector = pos.index_select(0, src) - pos.index_select(0, dst)", "torch_dimenet"),
    ("torch: a graph turned round keeps its borders as they were", "torch/graph.py",
     "borders = Borders(borders.dst, borders.src, borders.edges)", "pass",
     "torch_graph_building torch_mesh"),
    ("jax: tangents of tangents are forgotten", "jax/adapter.py",
     'for group in ("cotangents", "tangents", "others"):', 'for group in ("cotangents", "others"):',
     "jax"),
    ("jax: hvp transposed without its direction", "jax/adapter.py",
     "point = at._replace(tangents=spread(task.wrt, given))", "point = at", "jax"),
    ("jax: a padded graph has one edge too many", "jax/graph.py",
     "there = jnp.arange(self.n_edges) < self.offsets[-1]",
     "there = jnp.arange(self.n_edges) <= self.offsets[-1]", "jax_graphs"),
    ("compat: a missing index array is no error", "compat/arrays.py",
     "if value is None:", "if False:", "compat compat_edges"),
)  # fmt: skip

CUDA = _faults(
    "cuda/",
    ("cuda: a row's scores start at zero, not far below", "attention/edge_softmax.cu",
     "ScoresOfRow() { this->top = least; }", "ScoresOfRow() { this->top = 0; }", "cuda"),
    ("cuda: the cotangent of the own features is not added", "aggregation/agg_gradients.cuh",
     "if (g_own)\n", "if (false)\n", "cuda"),
    ("cuda: compress reads one token less", "nsa/nsa_compress.cu",
     "if (i + a < p.stretches.block) sum.add(w[a], x[a].unpack());",
     "if (i + a + 1 < p.stretches.block) sum.add(w[a], x[a].unpack());", "cuda"),
    ("cuda: compress pulls from one stretch less", "nsa/nsa_compress.cu",
     "const int64_t end = min(last + 1, p.compressed.size(s));",
     "const int64_t end = min(last, p.compressed.size(s));", "cuda"),
    ("cuda: moments of a mean distance divide by one more", "moments/moments.cu",
     "/ real_part<S>(n > 0 ? n : 1)", "/ real_part<S>(n + 1)", "cuda"),
)  # fmt: skip

FAULTS = [*ATTENTION, *AGGREGATION, *GNO, *SPARSE, *FORTRAN, *PYTHON, *FRONTS, *CUDA]
