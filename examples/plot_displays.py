"""
All plots
=========

The displays of `squaresvm.plots`.
"""

# %%
# Decision regions, margin and support vectors of a model with two features.
import numpy as np
from sklearn.datasets import load_iris

from squaresvm import LSSVC, LSSVCCV, RLSSVC, RelaxedLSSVC
from squaresvm.plots import (
    CPathDisplay,
    DecisionRegionDisplay,
    LooCalibrationDisplay,
    SupportSpectrumDisplay,
    TraceDisplay,
)
from squaresvm.solvers import TwoSmo

iris = load_iris()
X, y = iris.data[:, 2:], iris.target_names[iris.target]
model = RLSSVC(C=10.0).fit(X, y)
display = DecisionRegionDisplay.from_estimator(model)

# %%
# The multipliers by size. With the squared hinge most rows have none: they are not support vectors.
display = SupportSpectrumDisplay.from_estimator(model)

# %%
# Calibration: predicted probability against observed share, each row predicted by the model without it.
rng = np.random.default_rng(0)
points = rng.normal(size=(400, 2))
noisy = points[:, 0] + points[:, 1] ** 2 + rng.normal(size=400) > 1
display = LooCalibrationDisplay.from_estimator(LSSVC(C=1.0).fit(points, noisy))

# %%
# Objective and residual over the iterations of a solver.
traced = RelaxedLSSVC(C=10.0, solver=TwoSmo(trace=True)).fit(points, noisy)
display = TraceDisplay.from_estimator(traced)

# %%
# Leave-one-out accuracy over C, from a search, a line for each gamma.
display = CPathDisplay.from_estimator(LSSVCCV(gammas=[0.05, 0.5, 5.0]).fit(points, noisy))
