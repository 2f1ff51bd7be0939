# SPDX-License-Identifier: MIT
"""Weights of the DimeNet++ that its authors published, for `gnograd.torch.DimeNetPlusPlus`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["dimenet_state_dict"]

_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"

_PLACES = {
    "emb_block": "emb",
    "int_blocks": "interaction_blocks",
    "output_blocks": "output_blocks",
    "layers_before_skip": "layers_before_skip",
    "layers_after_skip": "layers_after_skip",
}

_LAYERS = {
    "dense": "lin",
    "dense_1": "lin1",
    "dense_2": "lin2",
    "dense_final": "lin",
    "dense_ji": "lin_ji",
    "dense_kj": "lin_kj",
    "dense_layers": "lins",
    "dense_rbf": "lin_rbf",
    "dense_rbf1": "lin_rbf1",
    "dense_rbf2": "lin_rbf2",
    "dense_sbf1": "lin_sbf1",
    "dense_sbf2": "lin_sbf2",
    "down_projection": "lin_down",
    "final_before_skip": "lin",
    "up_projection": "lin_up",
}

_WHOLE = {"rbf_layer/frequencies": "rbf.freq", "emb_block/embeddings": "emb.emb.weight"}

_KINDS = {"kernel": "weight", "bias": "bias"}


def dimenet_state_dict(variables: Mapping[str, Any]) -> dict[str, Tensor]:
    """State dict of `DimeNetPlusPlus` from the variables of a TensorFlow checkpoint.

    This is the mapping of PyG's ``DimeNetPlusPlus.from_qm9_pretrained``, without download and
    data. Dense kernels are transposed; names become those of the modules here.

    Parameters
    ----------
    variables : mapping of str to array
        Values by the names of the authors' programs [1]_, such as
        ``"int_blocks/0/dense_kj/kernel"``, with or without the suffix
        ``/.ATTRIBUTES/VARIABLE_VALUE`` of checkpoints. Variables that are no parameters of the
        network (states of optimizers, averages, counters) are left out.

    Returns
    -------
    dict of str to Tensor
        Parameters in the dtype of the arrays.

    Raises
    ------
    ValueError
        No parameter of a DimeNet++ among the variables, or a kernel that is not a matrix.

    Notes
    -----
    The published networks have ``DimeNetPlusPlus(128, 1, 4, 64, 8, 256, 7, 6)`` in common, all
    other arguments as they are by default. With TensorFlow installed::

        reader = tensorflow.train.load_checkpoint("dimenet_pp/U0/ckpt")
        names = reader.get_variable_to_shape_map()
        model.load_state_dict(dimenet_state_dict({n: reader.get_tensor(n) for n in names}))

    References
    ----------
    .. [1] https://github.com/gasteigerjo/dimenet, ``pretrained/dimenet_pp``.

    Examples
    --------
    >>> import gnograd.torch, numpy as np
    >>> kernel = np.zeros((6, 128), np.float32)
    >>> state = gnograd.torch.dimenet_state_dict({"output_blocks/0/dense_rbf/kernel": kernel})
    >>> {name: tuple(weight.shape) for name, weight in state.items()}
    {'output_blocks.0.lin_rbf.weight': (128, 6)}
    """
    state = {}
    for name, value in variables.items():
        found = _parameter(name.removesuffix(_SUFFIX))
        if found is None:
            continue
        array = np.asarray(value)
        if name.removesuffix(_SUFFIX).endswith("/kernel"):
            if array.ndim != 2:
                raise ValueError(
                    f"dimenet_state_dict: {name} has shape {array.shape}, needs two axes"
                )
            array = array.T
        state[found] = torch.from_numpy(array.copy())
    if not state:
        raise ValueError(
            "dimenet_state_dict: none of the variables is a parameter of DimeNet++, such as "
            "'rbf_layer/frequencies'"
        )
    return state


def _parameter(name: str) -> str | None:
    """Name of the parameter for a variable of the network; None for other variables."""
    if name in _WHOLE:
        return _WHOLE[name]
    *path, kind = name.split("/")
    if len(path) < 2 or path[0] not in _PLACES or kind not in _KINDS:
        return None
    names = _PLACES | _LAYERS
    known = [names.get(part, part if re.fullmatch(r"\d+", part) else None) for part in path]
    return None if None in known else ".".join([*filter(None, known), _KINDS[kind]])
