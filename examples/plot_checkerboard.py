"""
Checkerboard: squared loss and squared hinge
============================================

The board of the Lagrangian SVM paper: 1,000 points, 4 x 4 squares. The squared loss
(:class:`~squaresvm.LSSVC`) pulls every point towards its label, so every point has a multiplier. The
squared hinge (:class:`~squaresvm.RLSSVC`) has no loss at points that are right by more than 1; the support
vectors, ringed here, lie along the edges of the squares.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from squaresvm import LSSVC, RLSSVC
from squaresvm.datasets import make_checkerboard

X, y = make_checkerboard(1000, side=4.0, random_state=0)
X_test, y_test = make_checkerboard(10_000, side=4.0, random_state=1)

models = [Model(C=1000.0, gamma=4.0).fit(X, y) for Model in (LSSVC, RLSSVC)]
for model in models:
    print(f"{type(model).__name__}: {model.certificate_}")

# %%
# The sign of the decision function is the colour, its size the depth: full from 1.5 on.

grid = np.linspace(0.0, 4.0, 241)
points = np.column_stack([axis.ravel() for axis in np.meshgrid(grid, grid)])
paper = ListedColormap(["#1f5fa8", "#d9762b"])

figure, axes = plt.subplots(1, 2, figsize=(9, 5.3), sharey=True, layout="constrained")
for ax, model in zip(axes, models, strict=True):
    values = model.decision_function(points).reshape(grid.size, grid.size)
    ax.contourf(grid, grid, values.clip(-1.5, 1.5), levels=np.linspace(-3, 3, 25), cmap="RdBu_r")
    ax.contour(grid, grid, values, levels=[0.0], colors="black", linewidths=1.2)
    ax.scatter(*X.T, c=y, cmap=paper, s=5, linewidths=0)
    if model.support_.size < len(y):
        ax.scatter(*model.support_vectors_.T, s=34, facecolors="none", edgecolors="black", linewidths=0.7)
    ax.set_title(
        f"{type(model).__name__}: {model.support_.size:,} support vectors\n"
        f"{model.score(X_test, y_test):.1%} of 10,000 new points right",
        fontsize=11,
    )
    ax.set(aspect="equal", xlim=(0, 4), ylim=(0, 4), xticks=range(5), yticks=range(5))
plt.show()
