"""Paths: how good models are over C, and the way of a solver to its answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from squaresvm.plots.canvas import check_model, colour, line_style, make_axes, marker, panel_below
from squaresvm.solvers.base import Progress
from squaresvm.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CPathDisplay", "Curve", "TraceDisplay"]


class Curve(NamedTuple):
    """Scores over C, with all other parameters fixed.

    Parameters
    ----------
    label : str
        The other parameters; empty where there are none.
    Cs : ndarray
        In rising order.
    scores : ndarray
    """

    label: str
    Cs: FloatArray
    scores: FloatArray


class CPathDisplay:
    """Scores over C: of a search, a line for each gamma; of a path, with the number of support vectors.

    Parameters
    ----------
    curves : list of Curve
    score_name : str
    n_support : ndarray, optional
        Support vectors at each C of the only curve.

    Attributes
    ----------
    ax_ : matplotlib Axes
    support_ax_ : matplotlib Axes or None
        Of the numbers of support vectors.
    figure_ : matplotlib Figure
    lines_ : list of matplotlib lines
    best_ : matplotlib line
        Around the best score: of equal ones that of the smallest C.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from squaresvm import LSSVC
    >>> from squaresvm.plots import CPathDisplay
    >>> search = GridSearchCV(LSSVC(), {"C": [0.1, 1.0, 10.0], "gamma": [0.05, 0.2]})
    >>> display = CPathDisplay.from_estimator(search.fit(*load_iris(return_X_y=True)))
    >>> [curve.label for curve in display.curves]
    ['gamma = 0.05', 'gamma = 0.2']
    >>> matplotlib.pyplot.close(display.figure_)
    """

    def __init__(
        self, *, curves: Sequence[Curve], score_name: str, n_support: IntArray | None = None
    ) -> None:
        self.curves = curves
        self.score_name = score_name
        self.n_support = n_support

    @classmethod
    def from_estimator(
        cls, estimator: Any, Cs: Iterable[float] | None = None, *, ax: Axes | None = None
    ) -> Self:
        """Draw what a search has found, or follow a model over C.

        Parameters
        ----------
        estimator : estimator
            A fitted search with C among its parameters, such as ``LSSVCCV`` or ``GridSearchCV``; or a fitted
            model with `C_path`, ``RLSSVC`` or ``LagrangianSVC``, which is judged by leave-one-out values with
            its set of support vectors held fixed.
        Cs : iterable of floats, optional
            For a model with `C_path`. By default 11 values from 0.01 to 1000.
        ax : matplotlib Axes, optional
            A new figure by default.

        Returns
        -------
        CPathDisplay
        """
        check_is_fitted(estimator)
        if hasattr(type(estimator), "cv_results_") or "cv_results_" in vars(estimator):
            if Cs is not None:
                raise ValueError("Cs can be given only for a model with C_path: a search has its own")
            curves = _curves(estimator.cv_results_)
            folds = getattr(estimator, "n_splits_", None)
            name = "leave-one-out score" if folds is None else f"mean score of {folds} folds"
            return cls(curves=curves, score_name=name).plot(ax)
        if not hasattr(estimator, "C_path"):
            raise TypeError(
                f"CPathDisplay takes a fitted search, or a model with C_path (RLSSVC, LagrangianSVC); got "
                f"{type(estimator).__name__}"
            )
        return cls.from_path(estimator.C_path(np.logspace(-2, 3, 11) if Cs is None else Cs), ax=ax)

    @classmethod
    def from_path(cls, path: Any, *, ax: Axes | None = None) -> Self:
        """Draw a path that is at hand.

        Parameters
        ----------
        path : CPath
            As `C_path` returns it.
        ax : matplotlib Axes, optional
            Shared by scores and numbers of support vectors. A new figure by default.

        Returns
        -------
        CPathDisplay
        """
        scores = np.array([model.loo_score(fixed_set=True) for model in path.models])
        curve = Curve("", np.asarray(path.Cs, dtype=np.float64), scores)
        name = "leave-one-out accuracy,\nsupport vectors fixed"
        return cls(curves=[curve], score_name=name, n_support=path.n_support).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw into the axes, or into a new figure.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        self
        """
        best = self._best()
        self.ax_ = ax = make_axes(ax)
        self.figure_ = ax.figure
        self.support_ax_ = None if self.n_support is None else panel_below(ax, 0.4)
        self.lines_ = [self._line(ax, i, curve) for i, curve in enumerate(self.curves)]
        self._ring(ax, *best)
        ax.set(xscale="log", ylabel=self.score_name)
        lowest = ax if self.support_ax_ is None else self.support_ax_
        lowest.set_xlabel("C")
        if self.support_ax_ is not None:
            assert self.n_support is not None
            self.support_ax_.plot(self.curves[0].Cs, self.n_support, color="black", marker="s", markersize=4)
            self.support_ax_.set(ylabel="support vectors", ylim=(0, 1.08 * max(int(self.n_support.max()), 1)))
        if len(self.curves) == 1:
            ax.legend(frameon=False)
        else:
            columns = 1 + (len(self.curves) > 12)
            ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, ncols=columns)
        return self

    def _line(self, ax: Axes, index: int, curve: Curve) -> Any:
        from matplotlib import colormaps

        # Neighbours in the parameter are neighbours in lightness, which survives print and colour blindness.
        shade = colormaps["viridis"](0.85 * index / max(len(self.curves) - 1, 1))
        (line,) = ax.plot(
            curve.Cs,
            curve.scores,
            color=shade,
            marker=marker(index),
            ms=4.0,
            lw=1.3,
            label=curve.label or "_",
        )
        return line

    def _best(self) -> tuple[float, float, str]:
        """Return the best score, its C, and the label of its curve."""
        cells = [
            (-score, C, i)
            for i, curve in enumerate(self.curves)
            for C, score in zip(curve.Cs.tolist(), curve.scores.tolist(), strict=True)
            if not np.isnan(score)
        ]
        if not cells:
            raise ValueError("all scores are NaN: there is nothing to draw")
        negative, C, index = min(cells)
        return -negative, C, self.curves[index].label

    def _ring(self, ax: Axes, score: float, C: float, label: str) -> None:
        """Draw a ring around the best score."""
        where = f"C = {C:.3g}" + (f",\n{label}" if label else "")
        (self.best_,) = ax.plot(
            [C],
            [score],
            marker="o",
            markersize=12,
            markerfacecolor="none",
            markeredgecolor="black",
            linestyle="none",
            label=f"best: {score:.3g}\nat {where}",
        )


def _curves(results: dict[str, Any]) -> list[Curve]:
    """Return the scores of a search, parted by all parameters but C."""
    params, scores = results["params"], np.asarray(results["mean_test_score"], dtype=np.float64)
    names = [name for name in params[0] if name == "C" or name.endswith("__C")]
    if len(names) != 1:
        raise ValueError(f"the search must be over C, once; its parameters are {list(params[0])}")
    found: dict[tuple[Any, ...], dict[float, float]] = {}
    for cell, score in zip(params, scores.tolist(), strict=True):
        rest = tuple((name, value) for name, value in cell.items() if name != names[0])
        found.setdefault(rest, {})[float(cell[names[0]])] = score
    return [
        Curve(_label(rest), np.array(sorted(cells)), np.array([cells[C] for C in sorted(cells)]))
        for rest, cells in sorted(found.items(), key=lambda item: _order(item[0]))
    ]


def _label(rest: tuple[Any, ...]) -> str:
    texts = (f"{value:.3g}" if isinstance(value, float) else str(value) for _, value in rest)
    return ", ".join(f"{name.split('__')[-1]} = {text}" for (name, _), text in zip(rest, texts, strict=True))


def _order(rest: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a key that sorts numbers as numbers, and all else by its text."""
    return tuple(
        (0, value, "") if isinstance(value, int | float) else (1, 0, str(value)) for _, value in rest
    )


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
