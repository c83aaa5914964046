"""Two source trees beside each other: the same short cases, run in turn, and the ratio of their seconds.

python benchmarks/compare_trees.py OLD/src NEW/src [--repeats 9] [--cases fit learn] [--cpu] [--json FILE]

Each tree has a process of its own, which imports and compiles once; then the two take turns, one run of one
case each, and the one that begins changes from pair to pair: whatever else the machine does falls on both. A
ratio above 1 says that NEW is slower. The last column says how far the answers of the trees are apart,
relative to the largest. On a machine that others use, --cpu counts the seconds of the processor, of all
threads, in place of the clock's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

#: Cases of which three quarters of the pairs are slower by this factor are marked, from so many pairs on.
_NOTABLE, _ENOUGH_PAIRS = 1.05, 5
#: Rows whose decision values are compared.
_PROBES = 50


# What a child runs --------------------------------------------------------------------------------


@cache
def blobs(m: int, n: int = 20) -> tuple[Any, Any]:
    """Return rows of two overlapping classes, neither of which a line can part."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, n))
    margin = X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(m)
    return X, np.where(margin > 0.2, 1, -1)


@cache
def documents(m: int = 20_000, n: int = 5_000) -> tuple[Any, Any]:
    """Return sparse rows, ten entries each, whose classes a line parts but for noise."""
    rng = np.random.default_rng(1)
    indices = np.sort(rng.integers(0, n, (m, 10)), axis=1)
    X = sp.csr_matrix((rng.random(10 * m), indices.ravel(), np.arange(0, 10 * m + 1, 10)), shape=(m, n))
    X.sum_duplicates()
    margin = X @ rng.standard_normal(n) + 0.3 * rng.standard_normal(m)
    return X, np.where(margin > 0.0, 1, -1)


def fit(name: str, X: Any, y: Any, **parameters: Any) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    import squaresvm

    model = getattr(squaresvm, name)(**parameters)
    return lambda: model.fit(X, y), lambda fitted: fitted.decision_function(X[:_PROBES])


def request(
    name: str, m: int, work: Callable[[Any, Any, Any], Any]
) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Return what is done with a fitted model; the fit itself is not timed."""
    import squaresvm

    X, y = blobs(m)
    model = getattr(squaresvm, name)(C=10.0).fit(X, y)

    def answer(result: Any) -> Any:
        values = model.decision_function(X[:_PROBES])
        return np.append(values, result) if isinstance(result, np.ndarray) else values

    return lambda: work(model, X, y), answer


def forget_one_by_one(model: Any, X: Any, y: Any, count: int = 200) -> None:
    for number in np.random.default_rng(2).permutation(len(y))[:count].tolist():
        model.forget([number])


def learn_one_by_one(model: Any, X: Any, y: Any) -> None:
    for number in range(50):
        model.learn(0.9 * X[number : number + 1], y[number : number + 1])


def learn_at_once(model: Any, X: Any, y: Any) -> None:
    model.learn(0.9 * X[:100], y[:100])


#: Name: what prepares a case, untimed; it returns what is timed, and what takes the answer from its result.
CASES: dict[str, Callable[[], tuple[Callable[[], Any], Callable[[Any], Any]]]] = {
    "fit LSSVC rbf 1,000": lambda: fit("LSSVC", *blobs(1000)),
    "fit LSSVC rbf 2,000": lambda: fit("LSSVC", *blobs(2000)),
    "fit RLSSVC rbf 1,000": lambda: fit("RLSSVC", *blobs(1000)),
    "fit RLSSVC rbf 2,000": lambda: fit("RLSSVC", *blobs(2000)),
    "fit LSSVC linear 200,000 x 10": lambda: fit("LSSVC", *blobs(200_000, 10), kernel="linear"),
    "fit RLSSVC linear 200,000 x 10": lambda: fit("RLSSVC", *blobs(200_000, 10), kernel="linear"),
    "fit LSSVC linear, sparse": lambda: fit("LSSVC", *documents(), kernel="linear"),
    "fit LagrangianSVC linear, sparse": lambda: fit("LagrangianSVC", *documents(), kernel="linear"),
    "fit LSSVCCV 400": lambda: fit("LSSVCCV", *blobs(400)),
    "forget 200 one by one, LSSVC 1,000": lambda: request("LSSVC", 1000, forget_one_by_one),
    "forget 1,000 one by one, LSSVC 4,000": lambda: request(
        "LSSVC", 4000, partial(forget_one_by_one, count=1000)
    ),
    "forget 200 one by one, RLSSVC 1,000": lambda: request("RLSSVC", 1000, forget_one_by_one),
    "learn 50 one by one, LSSVC 1,000": lambda: request("LSSVC", 1000, learn_one_by_one),
    "learn 100 at once, RLSSVC 1,000": lambda: request("RLSSVC", 1000, learn_at_once),
    "loo LSSVC 1,000": lambda: request("LSSVC", 1000, lambda model, X, y: model.loo_decision_function()),
    "loo RLSSVC 1,000": lambda: request(
        "RLSSVC", 1000, lambda model, X, y: model.loo_decision_function(fixed_set=True)
    ),
    "predict 5,000, LSSVC 1,000": lambda: request(
        "LSSVC", 1000, lambda model, X, y: model.decision_function(np.tile(X, (5, 1)))
    ),
}


def serve() -> None:
    """Run the cases whose names come in, a line each; answer with seconds and values."""
    import squaresvm

    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # Whatever a case prints must not be taken for an answer.
    print(json.dumps(str(Path(squaresvm.__file__).resolve())), file=answers, flush=True)
    for line in sys.stdin:
        work, answer = CASES[json.loads(line)]()
        start, cpu = time.perf_counter(), time.process_time()
        result = work()
        took = {"clock": time.perf_counter() - start, "cpu": time.process_time() - cpu}
        values = np.asarray(answer(result), dtype=float).ravel()
        print(json.dumps({**took, "values": values.tolist()}), file=answers, flush=True)


# What compares ------------------------------------------------------------------------------------


class Tree:
    """A child process that imports squaresvm from one source tree."""

    def __init__(self, source: Path, clock: str) -> None:
        self.source, self._clock = source, clock
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--serve"],
            env={**os.environ, "PYTHONPATH": str(source)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        found = Path(self._answer())
        if source not in found.parents:
            self.close()
            raise SystemExit(f"{source}: holds no squaresvm, {found} was imported in its place")

    def run(self, case: str) -> tuple[float, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        found = self._answer()
        return found[self._clock], np.array(found["values"])

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.source}: its process ended with code {self._process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def compared(case: str, old: Tree, new: Tree, repeats: int) -> dict[str, Any]:
    """Return seconds of both trees, pair by pair, and how far their answers are apart."""
    (_, theirs), (_, ours) = old.run(case), new.run(case)  # What is compiled is compiled now.
    seconds: dict[Tree, list[float]] = {old: [], new: []}
    for number in range(repeats):
        for tree in (old, new) if number % 2 == 0 else (new, old):
            seconds[tree].append(tree.run(case)[0])
    apart = float(np.abs(theirs - ours).max() / np.abs(theirs).max())
    return {"case": case, "old": seconds[old], "new": seconds[new], "apart": apart}


def line_of(found: dict[str, Any]) -> str:
    ratios = np.array(found["new"]) / np.array(found["old"])
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    mark = "slower" if low > _NOTABLE else "faster" if high < 1.0 / _NOTABLE else ""
    mark *= ratios.size >= _ENOUGH_PAIRS
    old, new = 1e3 * np.median(found["old"]), 1e3 * np.median(found["new"])
    return (
        f"{found['case']:36s} {old:9.1f} {new:9.1f}   {middle:5.2f} ({low:.2f} to {high:.2f}, "
        f"{ratios.min():.2f} to {ratios.max():.2f})   {found['apart']:.0e}  {mark}".rstrip()
    )


def chosen(words: list[str]) -> Iterator[str]:
    """Yield the cases whose names hold one of the words, all where there are none."""
    for name in CASES:
        if not words or any(word in name for word in words):
            yield name


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the same cases in two source trees, in turn.")
    parser.add_argument("old", type=Path, help="folder that holds the package squaresvm, such as OLD/src")
    parser.add_argument("new", type=Path)
    parser.add_argument("--repeats", type=int, default=9, help="pairs of runs of each case")
    parser.add_argument("--cases", nargs="*", default=[], help="words that names of cases hold; default: all")
    parser.add_argument("--cpu", action="store_true", help="count seconds of the processor, not of the clock")
    parser.add_argument("--json", type=Path, help="file for all seconds")
    given = parser.parse_args()
    if given.repeats < 1:
        parser.error("--repeats must be at least 1")
    if not list(chosen(given.cases)):
        parser.error(f"no case holds {' or '.join(given.cases)}; there are: {'; '.join(CASES)}")
    trees: list[Tree] = []
    try:
        trees += [Tree(path.resolve(), "cpu" if given.cpu else "clock") for path in (given.old, given.new)]
        print(f"{'case':36s} {'old, ms':>9s} {'new, ms':>9s}   ratio (quartiles, extremes)   answers apart")
        found = []
        for case in chosen(given.cases):
            found.append(compared(case, *trees, given.repeats))
            print(line_of(found[-1]), flush=True)
    finally:
        for tree in trees:
            tree.close()
    middle = np.median([np.median(np.array(one["new"]) / np.array(one["old"])) for one in found])
    print(f"{len(found)} cases, {given.repeats} pairs each: the median of their ratios is {middle:.3f}")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["--serve"] else main()
