"""Plots of fitted models, in scikit-learn's ``Display`` convention.

``from_estimator`` computes and draws; `plot` draws again, into other axes if wanted. Colours are those of
Okabe and Ito, which the colour-blind can tell apart, and whatever has a colour has a shape or a line style,
too. Needs matplotlib: ``pip install 'squaresvm[plot]'``.
"""

from __future__ import annotations

from squaresvm.plots.paths import CPathDisplay, TraceDisplay
from squaresvm.plots.regions import DecisionRegionDisplay
from squaresvm.plots.values import LooCalibrationDisplay, SupportSpectrumDisplay

__all__ = [
    "CPathDisplay",
    "DecisionRegionDisplay",
    "LooCalibrationDisplay",
    "SupportSpectrumDisplay",
    "TraceDisplay",
]
