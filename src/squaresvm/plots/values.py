"""How far leave-one-out probabilities can be believed, and the sizes of a model's coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.calibration import CalibrationDisplay

from squaresvm.models.ownership import REQUESTS
from squaresvm.plots.canvas import check_classifier, check_model, colour, line_style, make_axes, panel_below
from squaresvm.runtime.arguments import check_flag, check_integer
from squaresvm.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["LooCalibrationDisplay", "SupportSpectrumDisplay"]

#: Bars of the histogram.
_BARS = 20


class LooCalibrationDisplay(CalibrationDisplay):
    """Reliability curve and histogram of probabilities that a model gives to rows it has not seen.

    Each row gets its probability from the model without it, which takes no refit. The curve shows the
    observed share of the class over its predicted probability: on the diagonal both are equal. It is
    scikit-learn's display, with sample weights.

    Parameters
    ----------
    prob_pred : ndarray of shape (bins,)
        Mean probability in each bin that is not empty.
    prob_true : ndarray of shape (bins,)
        Share of rows, by weight, that are of the class.
    y_prob : ndarray of shape (m,)
        Probability of each row of positive weight.
    weights : ndarray of shape (m,)
        Of these rows.
    brier : float
        Mean square of the difference between probability and outcome.
    event : str
        What the probability is of.
    name : str
        Of the curve.

    Attributes
    ----------
    ax_, histogram_ax_ : matplotlib Axes
        Of curve and histogram.
    figure_ : matplotlib Figure
    line_ : matplotlib line
    bars_ : matplotlib container

    Notes
    -----
    The two slopes a class of the calibration were chosen on the same leave-one-out values, so the curve is a
    little optimistic where there are few rows.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_breast_cancer
    >>> from squaresvm import LSSVC
    >>> from squaresvm.plots import LooCalibrationDisplay
    >>> model = LSSVC(kernel="linear").fit(*load_breast_cancer(return_X_y=True))
    >>> display = LooCalibrationDisplay.from_estimator(model, n_bins=5)
    >>> display.event
    'class 1'
    >>> display.brier < 0.05
    True
    >>> matplotlib.pyplot.close(display.figure_)
    """

    def __init__(
        self,
        *,
        prob_pred: FloatArray,
        prob_true: FloatArray,
        y_prob: FloatArray,
        weights: FloatArray,
        brier: float,
        event: str,
        name: str,
    ) -> None:
        super().__init__(prob_true, prob_pred, y_prob, estimator_name=name)
        self.weights = weights
        self.brier = brier
        self.event = event
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        n_bins: int = 10,
        strategy: str = "quantile",
        pos_label: Any = None,
        fixed_set: bool = True,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the reliability of a fitted classifier.

        Parameters
        ----------
        estimator : classifier of the package
        n_bins : int, default=10
        strategy : {'uniform', 'quantile'}, default='quantile'
            Bins of the same width, or of the same number of rows.
        pos_label : label, optional
            Class whose probability is judged. By default the second of two; of more, whichever is predicted.
        fixed_set : bool, default=True
            For the squared hinge, hold the support vectors fixed in place of solving again for each; see
            ``loo_decision_function``.
        ax : matplotlib Axes, optional
            Its room is shared by curve and histogram. A new figure by default.

        Returns
        -------
        LooCalibrationDisplay
        """
        check_classifier(estimator, "LooCalibrationDisplay")
        bins = check_integer("n_bins", n_bins, 1)
        if strategy not in ("uniform", "quantile"):
            raise ValueError(f"strategy must be 'uniform' or 'quantile'; got {strategy!r}")
        check_flag("fixed_set", fixed_set)
        position = _position(estimator.classes_, pos_label)
        with REQUESTS:
            _, calibration = estimator._calibrated()
            state, left_out = estimator._loo_inside(fixed_set)
        p = calibration.probabilities(left_out)
        codes = np.searchsorted(state.classes, state.rows.y[state.held])
        judged = p.argmax(axis=1) if position is None else np.full(codes.size, position)
        prob, happened = p[np.arange(codes.size), judged], codes == judged
        weights = state.weights[state.held]
        event = "the predicted class" if position is None else f"class {state.classes.tolist()[position]}"
        prob_pred, prob_true = _curve(prob, happened, weights, bins, strategy)
        display = cls(
            prob_pred=prob_pred,
            prob_true=prob_true,
            y_prob=prob,
            weights=weights,
            brier=float(np.average((prob - happened) ** 2, weights=weights)),
            event=event,
            name=type(estimator).__name__,
        )
        return display.plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw into the axes, or into a new figure.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        self
        """
        ax = make_axes(ax)
        self.histogram_ax_ = below = panel_below(ax, 0.25)
        label = f"{self.name}, Brier score {self.brier:.3f}"
        super().plot(ax=ax, name=label, color=colour(0), marker="o")
        ax.set(ylim=(-0.03, 1.03), xlabel="", ylabel="observed share")
        ax.legend(frameon=False)
        self.bars_ = below.hist(
            self.y_prob, bins=_BARS, range=(0.0, 1.0), weights=self.weights, color=colour(0), rwidth=0.9
        )[2]
        rows = "rows" if np.all(self.weights == 1.0) else "weight of rows"
        below.set(xlim=(-0.03, 1.03), xlabel=f"leave-one-out probability of {self.event}", ylabel=rows)
        return self


def _position(classes: np.ndarray[Any, Any], pos_label: Any) -> int | None:
    """Return where the judged class stands; None where it is whichever is predicted."""
    if pos_label is None:
        return 1 if classes.size == 2 else None
    labels = classes.tolist()
    if pos_label not in labels:
        raise ValueError(f"pos_label must be one of the classes {labels}; got {pos_label!r}")
    return labels.index(pos_label)


def _curve(
    prob: FloatArray, happened: np.ndarray[Any, Any], weights: FloatArray, bins: int, strategy: str
) -> tuple[FloatArray, FloatArray]:
    """Return mean probability and share of what happened, of each bin that is not empty."""
    steps = np.linspace(0.0, 1.0, bins + 1)
    edges = steps if strategy == "uniform" else np.quantile(prob, steps)
    place = np.searchsorted(edges[1:-1], prob)
    total = np.bincount(place, weights=weights, minlength=bins)
    filled = total > 0.0
    mean = np.bincount(place, weights=weights * prob, minlength=bins)[filled] / total[filled]
    share = np.bincount(place, weights=weights * happened, minlength=bins)[filled] / total[filled]
    return mean, share


class SupportSpectrumDisplay:
    """The support values ``|beta|`` from the largest to the smallest, a line a class.

    A line that ends early is a sparse model; a steep one depends on few rows, and could be pruned.

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
