"""The sizes of a model's coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from squaresvm.plots.canvas import check_model, colour, line_style, make_axes
from squaresvm.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SupportSpectrumDisplay"]


class SupportSpectrumDisplay:
    """The support values ``|beta|`` from the largest to the smallest, a line a class.

    A line that ends early is a sparse model; a steep one rests on few rows, and could be pruned.

    Parameters
    ----------
    spectra : list of ndarrays
        ``|beta|`` of each class, of one where there are two, in falling order and without zeros.
    labels : list of strings or None
        Of the lines.
    n_rows : int
        Rows held.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of matplotlib lines

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_iris
    >>> from squaresvm import RLSSVC
    >>> from squaresvm.plots import SupportSpectrumDisplay
    >>> model = RLSSVC().fit(*load_iris(return_X_y=True))
    >>> display = SupportSpectrumDisplay.from_estimator(model)
    >>> [line.get_label() for line in display.lines_]
    ['0', '1', '2']
    >>> matplotlib.pyplot.close(display.figure_)
    """

    def __init__(self, *, spectra: Sequence[FloatArray], labels: Sequence[str] | None, n_rows: int) -> None:
        self.spectra = spectra
        self.labels = labels
        self.n_rows = n_rows

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Draw the spectrum of a fitted model.

        Parameters
        ----------
        estimator : estimator of the package
        ax : matplotlib Axes, optional
            A new figure by default.

        Returns
        -------
        SupportSpectrumDisplay
        """
        check_model(estimator, "SupportSpectrumDisplay")
        state = estimator._holding("the spectrum")
        sizes = np.abs(state.dual_coef)
        spectra = [np.sort(column[column > 0.0])[::-1] for column in sizes]
        labels = None
        if len(spectra) > 1:
            assert state.classes is not None
            labels = [str(label) for label in state.classes.tolist()]
        return cls(spectra=spectra, labels=labels, n_rows=state.rows.count).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw into the axes, or into a new figure.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        self
        """
        self.ax_ = ax = make_axes(ax)
        self.figure_ = ax.figure
        self.lines_ = [self._line(ax, i, spectrum) for i, spectrum in enumerate(self.spectra)]
        if any(spectrum.size for spectrum in self.spectra):
            ax.set_yscale("log")
        ax.set(
            xlim=(0, self.n_rows + 1),
            xlabel=f"rank among the {self.n_rows} rows held",
            ylabel=r"support value $|\beta|$",
        )
        if self.labels is not None:
            ax.legend(title="class", frameon=False)
        return self

    def _line(self, ax: Axes, index: int, spectrum: FloatArray) -> Any:
        label = None if self.labels is None else self.labels[index]
        longest = max(other.size for other in self.spectra)
        # Few points are shown one by one, and a single one makes no line.
        shown = longest < 60 or spectrum.size == 1
        (line,) = ax.plot(
            np.arange(1, spectrum.size + 1),
            spectrum,
            color=colour(index),
            linestyle=line_style(index),
            marker="." if shown else "",
            label=label,
        )
        return line
