"""Solvers: each searches, none judges its own answer.

``solver=`` of an estimator takes a name, or one of these with options of its own. docs/algorithms.rst tells
in which file each algorithm of the papers stands, with which equations.

Examples
--------
>>> from squaresvm import LSSVC
>>> from squaresvm.solvers import Sumt
>>> from sklearn.datasets import load_iris
>>> X, y = load_iris(return_X_y=True)
>>> model = LSSVC(solver=Sumt(rho=0.5)).fit(X, y == 0)
>>> model.solver_
'sumt'
"""

from __future__ import annotations

from squaresvm.solvers.active_set import ActiveSet
from squaresvm.solvers.base import Progress, Solver
from squaresvm.solvers.conjugate_gradient import ConjugateGradient
from squaresvm.solvers.decremental import DBLSSVM, DBLSVM, DOLSSVM, DOLSVM, ExplicitInverse
from squaresvm.solvers.direct import Direct
from squaresvm.solvers.lagrangian import Lagrangian
from squaresvm.solvers.newton import Newton
from squaresvm.solvers.penalty_flow import PenaltyFlow
from squaresvm.solvers.sesqui_smo import SesquiSmo
from squaresvm.solvers.substitution import Substitution
from squaresvm.solvers.sumt import Sumt
from squaresvm.solvers.two_smo import TwoSmo

__all__ = [
    "DBLSSVM",
    "DBLSVM",
    "DOLSSVM",
    "DOLSVM",
    "ActiveSet",
    "ConjugateGradient",
    "Direct",
    "ExplicitInverse",
    "Lagrangian",
    "Newton",
    "PenaltyFlow",
    "Progress",
    "SesquiSmo",
    "Solver",
    "Substitution",
    "Sumt",
    "TwoSmo",
]
