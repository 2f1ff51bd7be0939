# SPDX-License-Identifier: MIT
"""Functions on points and meshes, read from files and written to them.

`read` brings files of all formats into one form, `PointData`: samples, each with points, inputs
there, and outputs. Nothing in a file is ever executed. Libraries for formats other than .npz and
safetensors are imported when a file asks for them: h5py, meshio, zarr, scipy, torch.
"""

from gnograd.data.contents import Contents, DataError
from gnograd.data.files import SUFFIXES, contents, expand, read
from gnograd.data.reading import samples_of
from gnograd.data.roles import Assignment, Roles, assign
from gnograd.data.samples import Field, Layout, PointData, Sample
from gnograd.data.writing import WRITERS, Prediction, write

__all__ = [
    "SUFFIXES",
    "WRITERS",
    "Assignment",
    "Contents",
    "DataError",
    "Field",
    "Layout",
    "PointData",
    "Prediction",
    "Roles",
    "Sample",
    "assign",
    "contents",
    "expand",
    "read",
    "samples_of",
    "write",
]
