"""
Calibrated probabilities without a held-out set
===============================================

`predict_proba` maps decision values to probabilities by curves fitted to the leave-one-out values of the
same fit. Calibrated on the fitted values instead, a flexible model is far too confident. Both are shown
here, on rows that neither has seen.
"""

import matplotlib.pyplot as plt
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_expit
from sklearn.calibration import calibration_curve
from sklearn.datasets import make_classification
from sklearn.metrics import brier_score_loss

from squaresvm import LSSVC

X, y = make_classification(10_600, 12, n_informative=5, flip_y=0.15, class_sep=0.8, random_state=0)
X, X_test, y, y_test = X[:600], X[600:], y[:600], y[600:]
model = LSSVC(C=10.0).fit(X, y)

# %%
# The naive way, for comparison: the slope of a logistic curve that suits the fitted values best.

sign, fitted = 2 * y - 1, model.decision_function(X)
naive = minimize_scalar(lambda a: -log_expit(a * sign * fitted).sum(), bounds=(0, 100), method="bounded").x
probabilities = {
    "on leave-one-out values (predict_proba)": model.predict_proba(X_test)[:, 1],
    "on fitted values": expit(naive * model.decision_function(X_test)),
}

# %%
# Of the rows to which 0.8 was given, eight of ten should be positive.

figure, ax = plt.subplots(figsize=(6, 5), layout="constrained")
ax.plot([0, 1], [0, 1], color="#8a8f98", linestyle="--", linewidth=1)
for (name, p), colour in zip(probabilities.items(), ("#d9762b", "#1f5fa8"), strict=True):
    observed, told = calibration_curve(y_test, p, n_bins=12, strategy="quantile")
    brier = brier_score_loss(y_test, p)
    print(f"{name}: Brier score {brier:.3f}")
    ax.plot(told, observed, "o-", color=colour, linewidth=2, label=f"{name}: {brier:.3f}")
ax.set(xlabel="predicted probability", ylabel="observed share of positives", xlim=(0, 1), ylim=(0, 1))
ax.set(aspect="equal")
ax.legend(
    frameon=False, title="calibrated, with Brier score", alignment="left", loc="lower right", fontsize=9
)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Whatever the curves are, the most probable class is the one that `predict` gives.

same = model.classes_[model.predict_proba(X_test).argmax(axis=1)] == model.predict(X_test)
print(f"argmax of predict_proba is predict on {same.mean():.0%} of {same.size:,} rows")
print(f"accuracy: leave-one-out {model.loo_score():.1%}, new rows {model.score(X_test, y_test):.1%}")
