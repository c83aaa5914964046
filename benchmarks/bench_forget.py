"""Learning and forgetting against a refit with the same estimator, kernel included: one run.

python benchmarks/bench_forget.py [kernel] [hinge] [chosen] [linear] [decremental]
"""

from __future__ import annotations

import sys
import time
from functools import partial

import numpy as np
from bench_exact import synthetic
from papers_data import folder

from squaresvm import LSSVC, RLSSVC, LagrangianSVC
from squaresvm.datasets import make_ndc

M, REPEATS = 4000, 7


def timed(work):
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def told(ratios):
    """Return the median of ratios, and their spread."""
    return f"{np.median(ratios):.0f} x a refit ({min(ratios):.0f} to {max(ratios):.0f})"


def kernel():
    X, y = synthetic(M)
    LSSVC().fit(X, y)
    gone = np.random.default_rng(0).permutation(M).tolist()
    requests = {
        "forget one row, first request": (1, lambda model: model.forget(gone[:1])),
        "forget 50 rows, first request": (1, lambda model: model.forget(gone[:50])),
        "learn one row, first request": (1, lambda model: model.learn(0.9 * X[:1], y[:1])),
        "1,000 single requests in the order of arrival": (1000, partial(one_by_one, range(1000))),
        "1,000 single requests in random order": (1000, partial(one_by_one, gone[:1000])),
    }
    print(f"LSSVC RBF, m = {M}, d = 20; each request beside the fit just before it")
    for name, (count, request) in requests.items():
        measured = []
        for _ in range(REPEATS):
            refit, model = timed(lambda: LSSVC().fit(X, y))
            measured.append((refit, timed(partial(request, model))[0]))
        refit, took = np.median(measured, axis=0)
        print(f"  {name}: {told([count * a / b for a, b in measured])}, {took:.4f} s, refit {refit:.3f} s")
    worst = []
    for _ in range(REPEATS):
        refit, model = timed(lambda: LSSVC().fit(X, y))
        worst.append(max(timed(partial(model.forget, [i]))[0] for i in gone[:1000]) / refit)
    print(f"  the slowest of 1,000: {np.median(worst):.3f} fits ({min(worst):.3f} to {max(worst):.3f})")
    took = []
    for _ in range(REPEATS):
        refit, model = timed(lambda: LSSVC().fit(X, y))
        took.append(timed(model.loo_decision_function)[0] / refit)
    print(f"  all {M} leave-one-out values: {np.median(took):.2f} fits ({min(took):.2f} to {max(took):.2f})")
    model, rest = LSSVC().fit(X, y), np.sort(gone[1000:])
    worst = max(receipt.residual for receipt in one_by_one(gone[:1000], model))
    fresh = LSSVC(gamma=model.gamma_).fit(X[rest], y[rest])
    difference = np.abs(fresh.decision_function(X[:500]) - model.decision_function(X[:500])).max()
    print(f"  after 1,000 of them: residual {worst:.0e}, {difference:.0e} from a fresh fit of the rest")


def one_by_one(ids, model):
    return [model.forget([i]) for i in ids]


def hinge():
    X, y = synthetic(M)
    RLSSVC().fit(X, y)
    refit = np.median([timed(lambda: RLSSVC().fit(X, y))[0] for _ in range(3)])
    model = RLSSVC().fit(X, y)
    support = set(model.support_.tolist())
    others = [i for i in range(M) if i not in support][:20]
    inside = [i for i in range(M) if i in support][:20]
    for name, rows in (("no support vectors", others), ("support vectors", inside)):
        took = [timed(lambda row=row: model.forget([row]))[0] for row in rows]
        print(
            f"RLSSVC, m = {M}: forget one of the {name}: {1e3 * np.median(took):.1f} ms, "
            f"{refit / np.median(took):.0f} x a refit"
        )


def chosen():
    """Squared hinge: rows that are chosen to change as much as they can, beside rows at random."""
    X, y = synthetic(2000)
    for C in (1.0, 100.0):
        refits, counted = [], {}
        for _ in range(REPEATS):
            took, model = timed_by_processor(lambda: RLSSVC(C=C).fit(X, y))  # noqa: B023
            refits.append((took, model._state.solution.work["factor"]))
        random = np.random.default_rng(0)
        for name, pick in CHOICES.items():
            model, each = RLSSVC(C=C).fit(X, y), []
            for _ in range(25):
                size = np.zeros(model.ids_.size)
                size[model.support_] = np.abs(model.dual_coef_[0])
                gone = model.ids_[pick(size, X[model.ids_], random)]
                took, _ = timed_by_processor(partial(model.forget, gone))
                each.append((took, (model._state.solution.work or {"factor": 0.0})["factor"]))
            counted[name] = np.array(each)
        refit, work = np.median(refits, axis=0)
        print(f"RLSSVC RBF, m = 2,000, C = {C:g}; a refit takes {1e3 * refit:.0f} ms of the processor")
        for name, each in counted.items():
            time_of, work_of = each[:, 0] / refit, each[:, 1] / work
            print(
                f"  {name}: median {np.median(time_of):.3f}, worst {time_of.max():.2f} of a refit; "
                f"operations on factors: median {np.median(work_of):.3f}, worst {work_of.max():.2f}",
                flush=True,
            )


def timed_by_processor(work):
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def neighbours(size, X, count):
    """Return the rows closest to that of the largest multiplier, itself included."""
    return np.argsort(np.square(X - X[np.argmax(size)]).sum(axis=1))[:count]


#: Rows of a request, given the sizes of multipliers, the rows and a generator.
CHOICES = {
    "one support vector at random": lambda size, X, random: random.choice(np.flatnonzero(size), 1),
    "the largest multiplier": lambda size, X, random: np.argsort(-size)[:1],
    "the 20 largest": lambda size, X, random: np.argsort(-size)[:20],
    "20 neighbours of the largest": lambda size, X, random: neighbours(size, X, 20),
}


def linear():
    X, y = make_ndc(2_000_000, 10, random_state=0)
    LSSVC(kernel="linear", C=0.1).fit(X[:1000], y[:1000])
    refit = np.median([timed(lambda: LSSVC(kernel="linear", C=0.1).fit(X, y))[0] for _ in range(3)])
    model = LSSVC(kernel="linear", C=0.1).fit(X, y)
    rng = np.random.default_rng(0)
    took = []
    for _ in range(REPEATS):
        gone = rng.choice(model.ids_, 1000, replace=False)
        took.append(timed(partial(model.forget, gone))[0])
    print(
        f"LSSVC linear, 2,000,000 x 10: fit {refit:.2f} s, forget 1,000 rows {1e3 * np.median(took):.0f} ms, "
        f"{np.median(took) / refit:.1%} of a fit"
    )


#: Tables 1 and 2 of the decremental paper: rows, then seconds of (OLSVM, DOLSVM, OLSSVM, DOLSSVM) at k = 1
#: and of (BLSVM, DBLSVM, BLSSVM, DBLSSVM) at k = 20 and 50. German, k = 20, prints 3.1563 for 34.1563.
PUBLISHED = {
    "thyroid": (
        140,
        {
            1: (1.40625, 1.39065, 1.54688, 1.53128),
            20: (1.34375, 1.26565, 1.20313, 1.12503),
            50: (1.375, 1.3125, 0.7343, 0.6718),
        },
    ),
    "ringnorm": (
        400,
        {
            1: (11.3281, 11.2812, 11.9844, 11.9375),
            20: (11.1563, 11.0157, 10.7344, 10.5938),
            50: (11.1563, 11.0625, 9.25, 9.1562),
        },
    ),
    "german": (
        720,
        {
            1: (35.4688, 35.1407, 36.25, 35.9219),
            20: (34.3594, 34.0, 34.1563, 33.7969),
            50: (34.9844, 34.6719, 31.3438, 31.0313),
        },
    ),
    "splice": (
        1000,
        {
            1: (76.0781, 75.25, 111.063, 110.2349),
            20: (75.2188, 74.4063, 104.094, 103.2815),
            50: (75.0469, 74.3438, 98.6094, 97.9063),
        },
    ),
    "image": (
        1300,
        {
            1: (122.438, 120.6411, 125.547, 123.7501),
            20: (120.5, 118.7344, 120.156, 118.3904),
            50: (122.125, 120.5156, 116.078, 114.4686),
        },
    ),
}


def decremental():
    """Tables 1 and 2 of the decremental paper, beside ours: Lagrangian (LSVM) and least squares (LSSVM)."""
    for name, (m, published) in PUBLISHED.items():
        table = np.genfromtxt(folder() / f"ida_{name}.csv", delimiter=",", skip_header=1)[:m]
        X, y = table[:, :-1], table[:, -1]
        setting = {"gamma": 1.0 / 8.0, "C": 1.0 / m, "tol": 1e-5}  # The paper's: sigma = 2, C = 1/m.
        for index, model in ((0, LagrangianSVC(augment=True, **setting)), (2, LSSVC(**setting))):
            refit = np.median([timed(partial(model.fit, X, y))[0] for _ in range(REPEATS)])
            for k, seconds in published.items():
                took = []
                for _ in range(REPEATS):
                    model.fit(X, y)
                    took.append(timed(partial(model.forget, range(k)))[0])
                before, after = seconds[index : index + 2]
                print(
                    f"{name}, m = {m}, k = {k}, {type(model).__name__}: {1e3 * np.median(took):.2f} ms, "
                    f"{refit / np.median(took):.1f} x a refit; paper {after:g} s, {before / after:.3f} x",
                    flush=True,
                )


if __name__ == "__main__":
    for name in sys.argv[1:] or ["kernel", "hinge", "chosen", "linear", "decremental"]:
        globals()[name]()
