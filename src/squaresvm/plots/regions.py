"""Decision regions of a model of two features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp

from squaresvm.judging.calibration import lead
from squaresvm.models.model import Model
from squaresvm.plots.canvas import check_classifier, colour, make_axes, marker, tint
from squaresvm.runtime.arguments import check_integer
from squaresvm.typing import FloatArray, IntArray, Matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DecisionRegionDisplay"]

#: Area, in square points, of a row without a coefficient, of the least and of the largest one.
_AREA_WITHOUT, _MIN_AREA, _MAX_AREA = 12.0, 22.0, 120.0


class DecisionRegionDisplay:
    """Predicted class over two features, with the margins and the support vectors.

    Make it by `from_estimator`.

    Parameters
    ----------
    xx0, xx1 : ndarray of shape (steps, steps)
        The grid.
    decision : ndarray of shape (steps, steps, 1 or n_classes)
        Decision values on it.
    classes : ndarray of shape (n_classes,)
    rows : ndarray of shape (m, 2)
        The rows held.
    codes : ndarray of shape (m,)
        Position of their labels among the classes.
    coefficients : ndarray of shape (m,)
        Largest ``|beta|`` of each over the classes; zero where a row has none.
    names : tuple of two strings
        Of the features.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    regions_, boundaries_, margins_, rows_ : list
        What was drawn: filled areas and lines, and a collection of points a class.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from squaresvm import RLSSVC
    >>> from squaresvm.datasets import make_checkerboard
    >>> from squaresvm.plots import DecisionRegionDisplay
    >>> X, y = make_checkerboard(200, random_state=0)
    >>> display = DecisionRegionDisplay.from_estimator(RLSSVC(C=10.0).fit(X, y))
    >>> len(display.rows_)
    2
    >>> matplotlib.pyplot.close(display.figure_)
    """

    def __init__(
        self,
        *,
        xx0: FloatArray,
        xx1: FloatArray,
        decision: FloatArray,
        classes: np.ndarray[Any, Any],
        rows: FloatArray,
        codes: IntArray,
        coefficients: FloatArray,
        names: tuple[str, str],
    ) -> None:
        self.xx0 = xx0
        self.xx1 = xx1
        self.decision = decision
        self.classes = classes
        self.rows = rows
        self.codes = codes
        self.coefficients = coefficients
        self.names = names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        grid_resolution: int = 200,
        margins: bool = True,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the regions of a fitted classifier.

        Parameters
        ----------
        estimator : classifier of the package
            Fitted on two features.
        X : array-like of shape (rows, 2), optional
            The plot extends over these rows; by default over the rows held. A model fitted from a stream
            holds none, and needs them.
        grid_resolution : int, default=200
            Points along each feature.
        margins : bool, default=True
            Draw f = -1 and f = 1; of several classes, f = 1 of each.
        ax : matplotlib Axes, optional
            A new figure by default.

        Returns
        -------
        DecisionRegionDisplay
        """
        state = check_classifier(estimator, "DecisionRegionDisplay")
        steps = check_integer("grid_resolution", grid_resolution, 2)
        if state.settings.kernel is None:
            raise ValueError("a precomputed kernel has no features to draw: regions need two")
        if estimator.n_features_in_ != 2:
            raise ValueError(f"regions need two features; the model has {estimator.n_features_in_}")
        rows, codes, coefficients = _rows_of(state)
        extent = rows if X is None else _dense(X)
        if extent.ndim != 2 or extent.shape[1] != 2 or not np.isfinite(extent).all():
            raise ValueError(f"X must be finite and of shape (rows, 2); got shape {extent.shape}")
        if extent.shape[0] == 0:
            raise ValueError("there are no rows to take the extent from: give some as X")
        xx0, xx1 = _grid(extent, steps)
        decision = state.decision(np.column_stack([xx0.ravel(), xx1.ravel()]))
        names = getattr(estimator, "feature_names_in_", ("feature 0", "feature 1"))
        assert state.classes is not None
        display = cls(
            xx0=xx0,
            xx1=xx1,
            decision=decision.reshape(*xx0.shape, -1),
            classes=state.classes,
            rows=rows,
            codes=codes,
            coefficients=coefficients,
            names=(str(names[0]), str(names[1])),
        )
        return display.plot(ax, margins=margins)

    def plot(self, ax: Axes | None = None, *, margins: bool = True) -> Self:
        """Draw into the axes, or into a new figure.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        margins : bool, default=True

        Returns
        -------
        self
        """
        self.ax_ = ax = make_axes(ax)
        self.figure_ = ax.figure
        k = self.decision.shape[2]
        leads = lead(self.decision.reshape(-1, k)).reshape(*self.xx0.shape, -1)
        self.regions_ = [self._area(ax, leads[..., i], i) for i in range(self.classes.size)]
        used = range(1) if k == 1 else range(k)  # The leads of two classes are each other's negative.
        self.boundaries_ = [
            line for i in used if (line := self._line(ax, leads[..., i], 0.0, "black", "solid"))
        ]
        self.margins_ = self._margins(ax) if margins else []
        self.rows_ = [self._points(ax, i) for i in range(self.classes.size)]
        ax.set(
            xlim=(self.xx0.min(), self.xx0.max()),
            ylim=(self.xx1.min(), self.xx1.max()),
            xlabel=self.names[0],
            ylabel=self.names[1],
        )
        self._legend(ax)
        return self

    def _area(self, ax: Axes, leads: FloatArray, index: int) -> Any:
        if leads.max() <= 0.0:
            return None  # The class is nowhere the best one.
        levels = [0.0, float(leads.max()) * 1.01]
        return ax.contourf(self.xx0, self.xx1, leads, levels=levels, colors=[tint(index)], zorder=0)

    def _line(self, ax: Axes, values: FloatArray, level: float, shade: str, style: str) -> Any:
        if not values.min() < level < values.max():
            return None
        width = 1.6 if style == "solid" else 1.1
        return ax.contour(
            self.xx0,
            self.xx1,
            values,
            levels=[level],
            colors=shade,
            linestyles=style,
            linewidths=width,
            zorder=1,
        )

    def _margins(self, ax: Axes) -> list[Any]:
        k = self.decision.shape[2]
        wanted = (
            [(0, -1.0, colour(0)), (0, 1.0, colour(1))] if k == 1 else [(i, 1.0, colour(i)) for i in range(k)]
        )
        lines = (self._line(ax, self.decision[..., i], level, shade, "dashed") for i, level, shade in wanted)
        return [line for line in lines if line is not None]

    def _points(self, ax: Axes, index: int) -> Any:
        own = self.codes == index
        share = self.coefficients[own] / (self.coefficients.max(initial=0.0) or 1.0)
        sizes = np.where(share > 0.0, _MIN_AREA + (_MAX_AREA - _MIN_AREA) * share, _AREA_WITHOUT)
        return ax.scatter(
            self.rows[own, 0],
            self.rows[own, 1],
            s=sizes,
            marker=marker(index),
            color=colour(index),
            edgecolors="white",
            linewidths=np.where(share > 0.0, 0.5, 0.0).tolist(),
            zorder=2,
        )

    def _legend(self, ax: Axes) -> None:
        from matplotlib.lines import Line2D

        entries = [
            Line2D([], [], color=colour(i), marker=marker(i), linestyle="none", label=str(label))
            for i, label in enumerate(self.classes.tolist())
        ]
        if self.margins_:
            label = "f = ±1" if self.decision.shape[2] == 1 else "f = 1"
            entries.append(Line2D([], [], color="0.3", linestyle="dashed", linewidth=1.1, label=label))
        title = r"area: $|\beta|$" if self.rows.size else None
        ax.legend(handles=entries, title=title, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def _rows_of(model: Model) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return the rows held, the codes of their labels, and their largest ``|beta|``."""
    if not model.holds_rows:
        return np.empty((0, 2)), np.empty(0, dtype=np.intp), np.empty(0)
    state = model.holding("its rows")
    assert state.classes is not None
    coefficients = np.zeros(state.rows.count)
    coefficients[state.support] = np.abs(state.dual_coef).max(axis=0)
    known = np.isin(state.rows.y, state.classes)  # A label may have rows of weight zero alone.
    codes = np.searchsorted(state.classes, state.rows.y[known])
    return _dense(state.rows.X)[known], codes, coefficients[known]


def _dense(X: Matrix) -> FloatArray:
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


def _grid(rows: FloatArray, steps: int) -> tuple[FloatArray, FloatArray]:
    low, high = rows.min(axis=0), rows.max(axis=0)
    room = np.where(high > low, 0.06 * (high - low), 1.0)  # A constant column still has a width.
    first, second = (np.linspace(low[i] - room[i], high[i] + room[i], steps) for i in (0, 1))
    xx0, xx1 = np.meshgrid(first, second)
    return xx0, xx1
