# SPDX-License-Identifier: MIT
"""Loading of trained models; PyTorch is only imported when one is loaded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gnograd.models.point_model import PointModel

__all__ = ["load"]


def load(directory: str | os.PathLike[str], device: Any = "cpu") -> PointModel:
    """Load a model that ``gnograd train points`` has trained, as a PyTorch module.

    Parameters
    ----------
    directory : path-like
        The ``--out`` of the training, with ``model.json`` and ``model.safetensors``. Nothing in
        these files is executed.
    device : torch.device or str

    Returns
    -------
    gnograd.models.PointModel
        In evaluation mode.

    Raises
    ------
    FileNotFoundError
        There is no model.
    ValueError
        A file is damaged, or the two do not belong together.
    ImportError
        There is no PyTorch.

    See Also
    --------
    gnograd.models.save

    Examples
    --------
    >>> import gnograd as gg, gnograd.models as models, numpy as np, tempfile
    >>> from gnograd.data import Field, Layout, PointData, Sample
    >>> rng = np.random.default_rng(0)
    >>> x, f = rng.random((50, 2)), rng.random((50, 1)).astype(np.float32)
    >>> data = PointData([Sample(x, f, x, 2 * f, np.zeros(0, np.float32))],
    ...                  Layout(2, (Field("f", 1),), (Field("u", 1),)))
    >>> directory = tempfile.mkdtemp()
    >>> models.save(models.PointModel.for_data(data, "gno"), directory)
    >>> gg.load(directory).predict(data.samples[0]).shape
    (50, 1)
    """
    from gnograd.models.files import load as load_model

    return load_model(directory, device)
