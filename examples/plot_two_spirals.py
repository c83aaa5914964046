"""
Two spirals and their support values
====================================

A least squares SVM has no zeros among its multipliers, but they differ in size: each is C times the error
at its row, so the largest ones show which rows are hard to fit. On two intertwined spirals these are the
inner ends, where the arms are close and have neighbours on both sides, and the outer ends, where the
neighbours stop.
"""

import matplotlib.pyplot as plt
import numpy as np

from squaresvm import LSSVC
from squaresvm.datasets import make_two_spirals

X, y = make_two_spirals(360)
model = LSSVC(C=10.0, gamma=1.0).fit(X, y)
print(model.certificate_)

support_values = np.abs(model.dual_coef_[0])
errors = model.C_ * np.abs(y - model.decision_function(X))
print(
    f"largest difference between |beta_i| and C times the error: {np.abs(support_values - errors).max():.1e}"
)

# %%
# The left picture has the decision boundary, and each row as large as its support value. The right one
# has the spectrum: all support values in order.

grid = np.linspace(-7.5, 7.5, 241)
points = np.column_stack([axis.ravel() for axis in np.meshgrid(grid, grid)])
values = model.decision_function(points).reshape(grid.size, grid.size)

figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 4.6), layout="constrained", gridspec_kw={"width_ratios": [1.15, 1]}
)
left.contourf(grid, grid, values, levels=[-9, 0, 9], colors=["#cfe0f3", "#fbe3cd"])
left.contour(grid, grid, values, levels=[0.0], colors="black", linewidths=0.8)
for label, colour in ((-1, "#1f5fa8"), (1, "#d9762b")):
    own = y == label
    left.scatter(*X[own].T, s=60 * support_values[own] / support_values.max(), color=colour, linewidths=0)
left.set(aspect="equal", xticks=[], yticks=[], title="rows, as large as their support values")

order = np.argsort(-support_values)
right.fill_between(np.arange(order.size), support_values[order], color="#5b6775", step="mid")
right.set(
    xlabel="rows, in order",
    ylabel=r"support value $|\beta_i|$",
    title="their spectrum",
    xlim=(-3, 360),
    ylim=(0, None),
)
right.spines[["top", "right"]].set_visible(False)
plt.show()
