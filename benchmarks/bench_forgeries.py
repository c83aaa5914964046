"""Forgeries that must all be found, and honest histories that must raise no alarm.

    python benchmarks/bench_forgeries.py forged --first 0 --count 680     # 17 forgeries of each
    python benchmarks/bench_forgeries.py honest --first 0 --count 10000

A case is a random estimator, by itself, as a search, for pairs of classes, in a window or in a pipeline, with
a random kernel, bias, C, weights and classes, after random requests, anchors and round trips through a file.
Of the honest histories every tenth is of a linear model that was fitted from a stream. Thresholds: who has
kept the receipts finds every forgery, the file alone all that are not in `NEEDS_RECEIPTS`, and no honest
history raises an alarm. Exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support import forgeries


def main() -> int:
    """Run cases of some seeds, and count."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("forged", "honest"))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=1e9, help="end after so many")
    options = parser.parse_args()
    start, done, wrong, kinds, last = time.perf_counter(), 0, [], Counter(), options.first
    unseen = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for last in range(options.first, options.first + options.count):
            if time.perf_counter() - start > options.seconds:
                last -= 1
                break
            if last % 100 == 0:
                print(f"{time.perf_counter() - start:.0f} s: {done} before seed {last}, {wrong}", flush=True)
            try:
                is_streamed = options.what == "honest" and last % 10 == 9
                case = (forgeries.streamed if is_streamed else forgeries.honest)(last, Path(folder))
                kinds[type(case.model).__name__ + (" of a stream" if is_streamed else "")] += 1
            except ValueError as error:  # The last row of a class would leave.
                kinds[f"refused: {str(error)[:40]}"] += 1
                continue
            except Exception as error:
                done += 1
                wrong.append(f"seed {last}: failed by {type(error).__name__}: {error}")
                continue
            if options.what == "honest":
                faults = case.verdict().faults + case.verdict(is_alone=True).faults
                done += 1
                wrong += [f"seed {last}: {case.describe()}: {fault}" for fault in faults[:1]]
                continue
            for kind in forgeries.KINDS:
                done += 1
                kinds[kind] += 1
                if not case.forged(kind, np.random.default_rng(last)):
                    wrong.append(f"seed {last}: {kind}: {case.describe()}")
                if not case.forged(kind, np.random.default_rng(last), is_alone=True):
                    unseen[kind] += 1
                    if kind not in forgeries.NEEDS_RECEIPTS:
                        wrong.append(f"seed {last}: {kind}, by the file alone: {case.describe()}")
    word = "not found" if options.what == "forged" else "false alarms"
    seconds = time.perf_counter() - start
    print(f"seeds {options.first} to {last}: {done} {options.what}, {len(wrong)} {word}, {seconds:.0f} s")
    print(f"commit {_commit()}, {dict(kinds)}")
    if options.what == "forged":
        print(f"not found by the file alone: {dict(unseen)}")
    for line in wrong[:20]:
        print(f"  {line}"[:400])
    return 1 if wrong else 0


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
