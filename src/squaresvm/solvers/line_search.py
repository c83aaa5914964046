"""The exact minimum of the objective along a line: piecewise quadratic for the squared hinge."""

from __future__ import annotations

import numpy as np

from squaresvm.typing import FloatArray

__all__ = ["minimise_on_line"]


def minimise_on_line(
    derivative: float, curvature: float, margin: FloatArray, change: FloatArray, costs: FloatArray
) -> float:
    """Return the t >= 0 that minimises a quadratic plus squared hinge terms.

        phi(t) = slope t + curvature/2 t^2 + 1/2 sum_i C_i max(0, margin_i - t change_i)^2

    Between two values of t at which a term appears or vanishes, phi' is linear, and it only grows; so the
    minimum is where the sorted pieces first reach zero. Not the slope of the quadratic is asked for but
    phi'(0): for a Newton step that is minus its decrement, and as a difference of the slope and of hinge
    terms, 1e8 times larger at C = 1e8, it would have no digit left.

    Parameters
    ----------
    derivative : float
        phi'(0), hinge terms included.
    curvature : float
        Of the quadratic part.
    margin : ndarray of shape (m,)
        1 - y_i f_i where the line starts.
    change : ndarray of shape (m,)
        y_i times the change of f_i along the line.
    costs : ndarray of shape (m,)

    Returns
    -------
    float
        0.0 where the objective does not fall along the line.

    Examples
    --------
    >>> import numpy as np
    >>> minimise_on_line(-3.0, 1.0, np.array([1.0]), np.array([1.0]), np.array([3.0]))
    0.75
    """
    active = (margin > 0) | ((margin == 0) & (change < 0))
    intercept = derivative
    growth = curvature + float(np.sum((costs * change**2)[active]))
    if intercept >= 0:
        return 0.0
    switches = (active & (change > 0)) | (~active & (change < 0))
    times = margin[switches] / change[switches]
    order = np.argsort(times, kind="stable")
    times = times[order]
    sign = np.where(active[switches][order], -1.0, 1.0)
    moved = (costs[switches] * change[switches])[order]
    intercepts = np.concatenate([[intercept], intercept - np.cumsum(sign * moved * margin[switches][order])])
    growths = np.concatenate([[growth], growth + np.cumsum(sign * moved * change[switches][order])])
    reached = np.flatnonzero(intercepts[:-1] + growths[:-1] * times >= 0)
    piece = int(reached[0]) if reached.size else times.size
    if growths[piece] <= 0:
        return float(times[-1]) if times.size else 0.0
    return float(-intercepts[piece] / growths[piece])
