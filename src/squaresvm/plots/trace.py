"""The way of a solver to its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from squaresvm.plots.canvas import check_model, colour, line_style, make_axes, panel_below
from squaresvm.solvers.base import Progress
from squaresvm.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["TraceDisplay"]

_AXES = {"iteration": "iteration", "seconds": "seconds since the solver started"}


class TraceDisplay:
    """Objective and residual of a solver, iteration by iteration.

    Parameters
    ----------
    trace : sequence of Progress
        As in ``trace_``.
    tol : float
        What the residual had to reach.
    labels : list of strings or None
        Of the columns of targets, where there are several.
    solver : str

    Attributes
    ----------
    ax_, residual_ax_ : matplotlib Axes
        Of objective and residual.
    figure_ : matplotlib Figure
    objective_lines_, residual_lines_ : list of matplotlib lines

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_breast_cancer
    >>> from squaresvm import RelaxedLSSVC
    >>> from squaresvm.plots import TraceDisplay
    >>> from squaresvm.solvers import TwoSmo
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RelaxedLSSVC(solver=TwoSmo(trace=True)).fit(X, y)
    >>> display = TraceDisplay.from_estimator(model)
    >>> len(display.trace) == model.n_iter_
    True
    >>> matplotlib.pyplot.close(display.figure_)
    """

    def __init__(
        self, *, trace: Sequence[Progress], tol: float, labels: Sequence[str] | None, solver: str
    ) -> None:
        self.trace = trace
        self.tol = tol
        self.labels = labels
        self.solver = solver

    @classmethod
    def from_estimator(cls, estimator: Any, *, x: str = "iteration", ax: Axes | None = None) -> Self:
        """Draw the trace of a model whose solver kept one.

        Parameters
        ----------
        estimator : estimator of the package
            Fitted by a solver with ``trace=True``.
        x : {'iteration', 'seconds'}, default='iteration'
        ax : matplotlib Axes, optional
            Its room is shared by objective and residual. A new figure by default.

        Returns
        -------
        TraceDisplay
        """
        state = check_model(estimator, "TraceDisplay")
        _check_x(x)
        if state.solution.trace is None:
            raise ValueError(
                "the model has no trace: fit with a solver that keeps one, such as "
                "solver=squaresvm.solvers.TwoSmo(trace=True)"
            )
        if not state.solution.trace:
            raise ValueError("the trace is empty: the solver had nothing to iterate on")
        labels = None
        if state.classes is not None and state.classes.size > 2:
            labels = [str(label) for label in state.classes.tolist()]
        display = cls(trace=state.solution.trace, tol=state.settings.tol, labels=labels, solver=state.solver)
        return display.plot(ax, x=x)

    def plot(self, ax: Axes | None = None, *, x: str = "iteration") -> Self:
        """Draw into the axes, or into a new figure.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        x : {'iteration', 'seconds'}, default='iteration'

        Returns
        -------
        self
        """
        _check_x(x)
        self.ax_ = ax = make_axes(ax)
        self.figure_ = ax.figure
        self.residual_ax_ = below = panel_below(ax, 0.5)
        columns = sorted({step.column for step in self.trace})
        self.objective_lines_ = [self._line(ax, column, x, "objective") for column in columns]
        self.residual_lines_ = [self._line(below, column, x, "residual") for column in columns]
        below.axhline(self.tol, color="0.4", linestyle="dotted")
        below.annotate("tol", (0.0, self.tol), (3, 3), ("axes fraction", "data"), "offset points")
        below.set_yscale("log")
        objectives = np.array([step.objective for step in self.trace])
        if objectives.min() > 0.0 and objectives.max() > 30.0 * objectives.min():
            ax.set_yscale("log")
        ax.set_ylabel("primal objective")
        below.set(xlabel=_AXES[x], ylabel="residual")
        if self.labels is not None:
            ax.legend(title="class", frameon=False)
        return self

    def _line(self, ax: Axes, column: int, x: str, y: str) -> Any:
        steps = [step for step in self.trace if step.column == column]
        across: FloatArray = np.array([getattr(step, x) for step in steps], dtype=np.float64)
        up: FloatArray = np.array([getattr(step, y) for step in steps])
        (line,) = ax.plot(
            across,
            up,
            color=colour(column),
            linestyle=line_style(column),
            marker="." if len(steps) < 40 else "",
            label=self.solver if self.labels is None else self.labels[column],
        )
        return line


def _check_x(x: str) -> None:
    if x not in _AXES:
        raise ValueError(f"x must be 'iteration' or 'seconds'; got {x!r}")
