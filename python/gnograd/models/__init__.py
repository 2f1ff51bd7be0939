# SPDX-License-Identifier: MIT
"""PyTorch models on points and meshes: networks of gnograd's layers, by name.

Importing this package imports torch. `PointModel` has one of the networks in `MODELS` and the
normalisation of inputs and outputs; `gnograd train points` trains it, `gnograd.load` reads it.
"""

from gnograd.data.description import NAMES, Description, description_of
from gnograd.models.bsa import PointBSA
from gnograd.models.cloud import Cloud
from gnograd.models.factory import MODELS, SIZES, options_of
from gnograd.models.files import load, save
from gnograd.models.gino import PointGINO
from gnograd.models.gno import PointGNO
from gnograd.models.magno import PointMAGNO
from gnograd.models.mgn import PointMeshGraphNet
from gnograd.models.network import Network
from gnograd.models.point_model import PointModel
from gnograd.models.transolver import PointTransolver

__all__ = [
    "MODELS",
    "NAMES",
    "SIZES",
    "Cloud",
    "Description",
    "Network",
    "PointBSA",
    "PointGINO",
    "PointGNO",
    "PointMAGNO",
    "PointMeshGraphNet",
    "PointModel",
    "PointTransolver",
    "description_of",
    "load",
    "options_of",
    "save",
]
