"""Time to the first result in a new process, beyond the imports: with a cold compile cache, then a warm one.

Numba is imported by the solvers that need it when they run; here it counts among the imports.

python benchmarks/bench_cold_start.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

CASES = {
    "direct": "LSSVC",
    "2smo": "RelaxedLSSVC",
    "sesquismo": "LagrangianSVC",
    "sumt": "LSSVC",
    "penalty-flow": "LSSVC",
    "substitution": "LSSVC",
    "lagrangian": "LagrangianSVC",
    "active-set": "RLSSVC",
    "switches": "RLSSVC",
}

CHILD = """
import sys, time
import numpy as np
import squaresvm
from squaresvm.solvers import ActiveSet
name, cls, m = sys.argv[1], sys.argv[2], int(sys.argv[3])
if name in ("2smo", "sesquismo", "sumt", "substitution", "switches") or (name == "active-set" and m > 2000):
    import numba
rng = np.random.default_rng(0)
X = rng.normal(size=(m, 5))
y = np.where(X[:, 0] + 0.3 * rng.normal(size=m) > 0, 1, -1)
solver = ActiveSet(reuse="switches") if name == "switches" else name
times = []
for _ in range(3):
    start = time.perf_counter()
    getattr(squaresvm, cls)(solver=solver, gamma=0.2, tol=1e-4).fit(X, y)
    times.append(time.perf_counter() - start)
print(times[0], min(times[1:]))
"""


def run(name, rows, cache):
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    command = [sys.executable, "-c", CHILD, name, CASES[name], str(rows)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    first, again = map(float, done.stdout.split())
    return first, again


def main():
    for rows in (300, 2500):
        for name in CASES:
            with tempfile.TemporaryDirectory() as cache:
                cold, _ = run(name, rows, cache)
                warm, work = run(name, rows, cache)
            print(
                f"{rows:5d} rows {name:13s} cold cache {cold:5.2f} s, warm cache {warm:5.2f} s, "
                f"the numerical work alone {work:5.2f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
