"""
A window over a drifting stream
===============================

The boundary between two classes turns by a full circle while 3,000 rows go by. A model of the first rows
is soon wrong, a model of all rows so far mixes old and new boundaries, and a
:class:`~squaresvm.Window` of the latest 200 rows follows. Each block of rows is first predicted, then
learned: so all three are judged on rows that they have not seen.
"""

import matplotlib.pyplot as plt
import numpy as np

from squaresvm import LSSVC, Window

rng = np.random.default_rng(0)
count, block = 3000, 20
angle = np.linspace(0.0, 2 * np.pi, count)
X = rng.normal(size=(count, 2))
y = np.where(X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle) > 0, 1, -1)

first = slice(0, 200)
models = {
    "first 200 rows only": LSSVC(gamma=0.5).fit(X[first], y[first]),
    "all rows so far": LSSVC(gamma=0.5).fit(X[first], y[first]),
    "window of the latest 200": Window(LSSVC(gamma=0.5), size=200).fit(X[first], y[first]),
}
right = {name: [] for name in models}
for start in range(200, count, block):
    new = slice(start, start + block)
    for name, model in models.items():
        right[name].append(model.score(X[new], y[new]))
        if name != "first 200 rows only":
            model.learn(X[new], y[new])

window = models["window of the latest 200"]
print(f"rows {window.ids_[0]} to {window.ids_[-1]} are in the window; {window.certificate_}")

# %%
# Means over 10 blocks, 200 rows.

figure, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
seen = np.arange(200, count, block)
for (name, share), colour in zip(right.items(), ("#8a8f98", "#1f5fa8", "#d9762b"), strict=True):
    smooth = np.convolve(share, np.ones(10) / 10, mode="valid")
    ax.plot(seen[9:], smooth, color=colour, linewidth=2)
    ax.annotate(name, (seen[-1], smooth[-1]), (6, 0), textcoords="offset points", color=colour, va="center")
ax.set(xlabel="rows seen", ylabel="share of the next rows right", ylim=(0, 1.02), xlim=(200, count))
ax.spines[["top", "right"]].set_visible(False)
ax.grid(axis="y", alpha=0.3)
plt.show()
