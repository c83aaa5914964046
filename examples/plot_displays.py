"""
A picture for each question
===========================

The displays of `squaresvm.plots`, each with the question that it answers.
"""

# %%
# What does the model say where? Regions, margin and support rows of a model with two columns.
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
# How many rows carry the decision, and how evenly? The squared hinge leaves most rows without a multiplier.
display = SupportSpectrumDisplay.from_estimator(model)

# %%
# Do the probabilities hold? Each row is judged by the model without it.
rng = np.random.default_rng(0)
points = rng.normal(size=(400, 2))
noisy = points[:, 0] + points[:, 1] ** 2 + rng.normal(size=400) > 1
display = LooCalibrationDisplay.from_estimator(LSSVC(C=1.0).fit(points, noisy))

# %%
# How did the solver get there?
traced = RelaxedLSSVC(C=10.0, solver=TwoSmo(trace=True)).fit(points, noisy)
display = TraceDisplay.from_estimator(traced)

# %%
# Which C is best, and how much does it matter? From a search by exact leave-one-out, a line for each gamma.
display = CPathDisplay.from_estimator(LSSVCCV(gammas=[0.05, 0.5, 5.0]).fit(points, noisy))
