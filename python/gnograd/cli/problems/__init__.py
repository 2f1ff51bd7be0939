# SPDX-License-Identifier: MIT
"""Problems that are drawn at random and solved, as data to train on."""

from gnograd.cli.problems.advection import ADVECTION
from gnograd.cli.problems.airfoil import AIRFOIL
from gnograd.cli.problems.burgers import BURGERS
from gnograd.cli.problems.darcy import DARCY
from gnograd.cli.problems.elasticity import ELASTICITY
from gnograd.cli.problems.heat import HEAT
from gnograd.cli.problems.poisson import POISSON
from gnograd.cli.problems.solved import Problem, Solved

__all__ = ["PROBLEMS", "Problem", "Solved"]

PROBLEMS: dict[str, Problem] = {
    "darcy": DARCY,
    "poisson-gauss": POISSON,
    "elasticity": ELASTICITY,
    "airfoil": AIRFOIL,
    "advection": ADVECTION,
    "burgers": BURGERS,
    "heat": HEAT,
}
"""Problems by name."""
