"""
Leave-one-out against a test set, over C
========================================

One fit gives all leave-one-out values, exactly, so each point of the curve costs about two fits and not
one for each row. The curve is close to the error on held-out rows, and its minimum is a good choice of C.
The training error is not: it only falls as C grows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from squaresvm import LSSVC

X, y = load_breast_cancer(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
scaler = StandardScaler().fit(X)
X, X_test = scaler.transform(X), scaler.transform(X_test)

Cs = np.logspace(-3, 5, 33)
models = [LSSVC(C=C, gamma=0.01).fit(X, y) for C in Cs]
fitted = np.array([1 - model.score(X, y) for model in models])
left_out = np.array([1 - model.loo_score() for model in models])
tested = np.array([1 - model.score(X_test, y_test) for model in models])
best = int(np.argmin(left_out))
print(f"least leave-one-out error: {left_out[best]:.1%} at C = {Cs[best]:.3g}")
print(f"test error there: {tested[best]:.1%}")

# %%

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for errors, name, colour in (
    (tested, "rows held back", "#8a8f98"),
    (left_out, "leave-one-out, from the same fit", "#d9762b"),
    (fitted, "rows of the fit", "#1f5fa8"),
):
    ax.semilogx(Cs, 100 * errors, label=name, color=colour, linewidth=2)
ax.plot(Cs[best], 100 * left_out[best], "o", color="#d9762b", markersize=8)
ax.set(xlabel="C", ylabel="error, per cent", ylim=(0, None))
ax.legend(frameon=False)
ax.grid(axis="y", alpha=0.3)
ax.spines[["top", "right"]].set_visible(False)
plt.show()
