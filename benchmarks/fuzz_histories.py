"""Random histories and random fits of all estimators, each judged in extended precision.

    python benchmarks/fuzz_histories.py --steps 100000 --seed S [--fits 10000] [--forks] [--show 40]
    python benchmarks/fuzz_histories.py --replay SEED

Each history has a seed of its own, from S million on, and ends at its first failure: a silent wrong answer,
an error where there should be none, or rows that came back. Fits go over scales 1e-8 to 1e8, C 1e-10 to 1e10,
A 1e-8 to 1e8 and weights over twelve decades. Every failure is printed with the command that replays it. The
exit code is 1 where there was one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support import random_histories

#: Seeds of fits are apart from those of histories.
FITS = 10**9


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--steps", type=int, default=100_000)
    options.add_argument("--fits", type=int, default=0)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--forks", action="store_true", help="fork now and then, which takes longer")
    options.add_argument("--replay", type=int, help="run one history again, by its seed")
    options.add_argument("--show", type=int, default=40, help="failures that are printed at most")
    given = options.parse_args()
    if given.replay is not None:
        outcome = replayed(given.replay, given.forks)
        print(f"{outcome.steps} steps, {outcome.statuses}", *outcome.failures, sep="\n")
        return 1 if outcome.failures else 0
    failures = swept("steps", given.steps, given.seed * 10**6, given)
    failures += swept("fits", given.fits, FITS + given.seed * 10**6, given)
    return 1 if failures else 0


def replayed(seed, forks):
    if seed >= FITS:
        return random_histories.run(seed, steps=1, wild=True)
    return random_histories.run(seed, forks=forks)


def swept(what, wanted, seed, given):
    """Run histories, or fits, until there are as many steps as wanted; return how many failed."""
    if not wanted:
        return 0
    begin, done, refused = time.perf_counter(), 0, 0
    statuses, faults = Counter(), Counter()
    while done < wanted:
        outcome = replayed(seed, given.forks)
        done, refused = done + outcome.steps, refused + outcome.refused
        statuses.update(outcome.statuses)
        for failure in outcome.failures:
            faults[failure.action, " ".join(failure.fault.split()[:2])] += 1
            if sum(faults.values()) <= given.show:
                print(failure)
                print(f"    python benchmarks/fuzz_histories.py --replay {seed}", flush=True)
        seed += 1
    rate = done / (time.perf_counter() - begin)
    told = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    print(f"{done} {what} at {rate:.0f} a second: {told}; {refused} refused; {sum(faults.values())} failures")
    for (action, fault), count in faults.most_common():
        print(f"    {count:6d} {action}: {fault}")
    return sum(faults.values())


if __name__ == "__main__":
    sys.exit(main())
