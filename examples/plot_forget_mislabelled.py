"""
Find mislabelled rows by leave-one-out, and forget them
=======================================================

The leave-one-out value of a row is the decision value of the model fitted without it. A row whose label
contradicts this value clearly may be mislabelled. All values come from one fit; forgetting such rows needs
no refit, and a receipt states the residual of the model without them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from squaresvm import LSSVC

X, y = make_moons(160, noise=0.14, random_state=1)
wrong = np.array([12, 47, 101])
y[wrong] = 1 - y[wrong]  # Somebody made three mistakes.

model = LSSVC(C=1000.0, gamma=4.0).fit(X, y)
margin = np.where(y == 1, 1, -1) * model.loo_decision_function()
suspects = model.ids_[np.argsort(margin)[:3]]
print(f"mislabelled: {wrong.tolist()}, suspects: {sorted(suspects.tolist())}")
print(f"wrong labels that the fit itself has swallowed: {np.sum(model.predict(X[wrong]) == y[wrong])} of 3")

# %%
# Before and after. The fitted values would not have told: the model bends towards its mistakes. A suspect is
# a row to look at, not a verdict: a model that is too flexible also suspects rows at the edge of their class.

grid_x, grid_y = np.linspace(-1.7, 2.7, 221), np.linspace(-1.2, 1.7, 161)
points = np.column_stack([axis.ravel() for axis in np.meshgrid(grid_x, grid_y)])


def draw(ax, title, rows):
    values = model.decision_function(points).reshape(grid_y.size, grid_x.size)
    ax.contourf(grid_x, grid_y, values, levels=[-99, 0, 99], colors=["#cfe0f3", "#fbe3cd"])
    ax.contour(grid_x, grid_y, values, levels=[0.0], colors="black", linewidths=1)
    for label, colour in ((0, "#1f5fa8"), (1, "#d9762b")):
        ax.scatter(*X[rows][y[rows] == label].T, s=14, color=colour, linewidths=0)
    ax.set(aspect="equal", xticks=[], yticks=[])
    ax.set_title(title, fontsize=11)


figure, (before, after) = plt.subplots(1, 2, figsize=(9, 3.7), layout="constrained")
draw(before, f"fitted on 160 rows: leave-one-out {model.loo_score():.1%}\nsuspects ringed", np.arange(160))
before.scatter(*X[suspects].T, s=120, facecolors="none", edgecolors="black", linewidths=1.5)
receipt = model.forget(suspects)
draw(after, f"three rows forgotten: leave-one-out {model.loo_score():.1%}", model.ids_)
plt.show()

# %%
# The receipt, and the proof by the slow way: a model that never saw the three rows.

print(receipt)
fresh = LSSVC(C=1000.0, gamma=4.0).fit(np.delete(X, suspects, axis=0), np.delete(y, suspects))
difference = np.abs(fresh.decision_function(points) - model.decision_function(points)).max()
print(f"largest difference of the decision values to a fresh fit: {difference:.1e}")
