"""Ratios to named peers, kept for each commit, so that a slower commit is seen.

python benchmarks/ratios.py measure [COMMIT ...]      # the working tree, or each of the commits
python benchmarks/ratios.py compare OLD NEW           # fails if a ratio of NEW fell by more than a quarter
python benchmarks/ratios.py show

A ratio is the peer's time by ours, the median of pairs run in turn in one process, so that both meet the same
machine. Each measurement is one line of JSON in benchmarks/ratios.jsonl, with the commit and the environment.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "benchmarks" / "ratios.jsonl"
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")
#: Pairs for each ratio.
REPEATS = 9
#: A fall of the median by more than this share counts as slower.
SHARE = 0.25


def cases():
    """Yield what is measured: a name, our work and the peer's, of a second or less each."""
    from bench_exact import synthetic
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.metrics.pairwise import rbf_kernel
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC, LinearSVC

    from squaresvm import LSSVC, LSSVCCV, RLSSVC, LagrangianSVC
    from squaresvm.datasets import make_ndc

    X, y = synthetic(2000)
    ridge = KernelRidge(kernel="rbf", gamma=0.05)
    yield "LSSVC RBF, 2,000 x 20, against KernelRidge", LSSVC(gamma=0.05), ridge, (X, y)

    def precomputed(X, y):
        K = rbf_kernel(X, gamma=0.05)
        K.flat[:: len(K) + 1] += 1.0
        return SVC(kernel="precomputed", C=1e12, tol=1e-6).fit(K, y)

    yield "RLSSVC RBF, 2,000 x 20, against SVC on K + I/C", RLSSVC(gamma=0.05), precomputed, (X, y)

    few = X[:600], y[:600]
    grid = {"C": [0.1, 1.0, 10.0], "gamma": [0.01, 0.05, 0.2]}
    yield (
        "LSSVCCV, 600 x 20, 9 points, against GridSearchCV(SVC, cv=10)",
        LSSVCCV(Cs=grid["C"], gammas=grid["gamma"]),
        GridSearchCV(SVC(), grid, cv=10),
        few,
    )

    many = make_ndc(200_000, 10, random_state=0)
    peer = LinearSVC(dual=False, C=0.1, tol=1e-6)
    ours = LagrangianSVC(kernel="linear", C=0.1)
    yield "LagrangianSVC linear, 200,000 x 10, against LinearSVC", ours, peer, many

    model = LSSVC(gamma=0.05).fit(X, y)
    rows = iter(range(len(y)))

    def forget(X, y):
        for _ in range(20):
            model.forget([next(rows)])
        model.flush()

    yield "forget 20 rows of 2,000 one by one, against one refit by KernelRidge", forget, ridge, (X, y)

    def left_out(X, y):
        return LSSVC(gamma=0.05).fit(X, y).loo_score()

    yield (
        "LSSVC and its leave-one-out score, 2,000 x 20, against one fit of KernelRidge",
        left_out,
        ridge,
        (X, y),
    )


def in_this_process(wanted):
    """Measure the package that is on the path; print one JSON object."""
    from bench_exact import alternating

    import squaresvm

    ratios = {}
    for name, ours, theirs, data in cases():
        if wanted and not any(word in name for word in wanted):
            continue
        works = [work if callable(work) else work.fit for work in (ours, theirs)]
        took, other, spread = alternating(*(lambda work=work: work(*data) for work in works), repeats=REPEATS)  # noqa: B023
        low, median, high = (round(float(q), 3) for q in (spread[2], spread[len(spread) // 2], spread[-3]))
        ratios[name] = {"ratio": median, "low": low, "high": high, "ours": took, "peer": other}
        print(f"{name}: {median:.2f} ({low:.2f} to {high:.2f})", file=sys.stderr, flush=True)
    print(json.dumps({"source": squaresvm.__file__, "ratios": ratios}))


def environment():
    """Return what ratios depend on beside the code."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "kernel": os.environ.get("OPENBLAS_CORETYPE", "own"),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def git(*arguments):
    done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@contextlib.contextmanager
def source_of(commit):
    """Yield the folder that holds a commit's package; without a commit, that of the working tree."""
    if commit is None:
        yield ROOT / "src"
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "-C", ROOT, "archive", commit, "src"], stdout=subprocess.PIPE, check=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        yield Path(folder, "src")


def measure(commits, wanted, kept):
    for commit in commits or [None]:
        name = git("rev-parse", f"{commit or 'HEAD'}^{{commit}}")
        changed = commit is None and bool(git("status", "--porcelain", "--", "src"))
        print(f"== {name[:12]}{' with changes' if changed else ''}", flush=True)
        with source_of(commit) as source:
            done = subprocess.run(
                [sys.executable, __file__, "here", *wanted],
                env={**os.environ, "PYTHONPATH": str(source)},
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            answer = json.loads(done.stdout)
            if not Path(answer["source"]).is_relative_to(source):
                raise SystemExit(f"measured {answer['source']} in place of {source}")
        line = {
            "commit": name,
            "changed": changed,
            "when": git("show", "-s", "--format=%cI", name),
            "environment": environment(),
            "ratios": answer["ratios"],
        }
        with kept.open("a") as file:
            file.write(json.dumps(line) + "\n")


def measurements(kept):
    return [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []


def latest(commit, kept):
    """Return the last measurement of a commit as it is."""
    name = git("rev-parse", f"{commit}^{{commit}}")
    found = [line for line in measurements(kept) if line["commit"] == name and not line["changed"]]
    if not found:
        raise SystemExit(f"{commit} was not measured; do: python benchmarks/ratios.py measure {commit}")
    return found[-1]


def compare(old, new, share, kept):
    """Return 1 if a ratio fell by more than a share, 2 if the two were not measured alike."""
    before, after = latest(old, kept), latest(new, kept)
    unlike = {
        key: (value, after["environment"].get(key))
        for key, value in before["environment"].items()
        if value != after["environment"].get(key)
    }
    if unlike:
        print(f"measured in different environments, which says nothing of the commits: {unlike}")
        return 2
    slower = gone = 0
    for name, was in before["ratios"].items():
        now = after["ratios"].get(name)
        if now is None:
            print(f"{name}: no longer measured")
            gone += 1
            continue
        change = now["ratio"] / was["ratio"] - 1.0
        slow = change < -share
        slower += slow
        print(f"{name}: {was['ratio']:.2f} -> {now['ratio']:.2f} ({change:+.0%}){'  SLOWER' if slow else ''}")
    print(f"{slower} of {len(before['ratios'])} fell by more than {share:.0%}")
    return 1 if slower or gone else 0


def show(kept):
    for line in measurements(kept):
        print(f"{line['when'][:10]} {line['commit'][:12]}{' (changed)' if line['changed'] else ''}")
        for name, was in line["ratios"].items():
            print(f"    {was['ratio']:8.2f} ({was['low']:.2f} to {was['high']:.2f})  {name}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kept", type=Path, default=KEPT, help="another file of measurements")
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("commits", nargs="*", metavar="COMMIT")
    measuring.add_argument(
        "--only", action="append", default=[], metavar="WORD", help="cases with it in their name"
    )
    comparing = commands.add_parser("compare")
    comparing.add_argument("old")
    comparing.add_argument("new")
    comparing.add_argument(
        "--share", type=float, default=SHARE, help="a fall that counts (default %(default)s)"
    )
    commands.add_parser("show")
    commands.add_parser("here").add_argument("only", nargs="*")
    given = parser.parse_args()
    if given.command == "here":
        return in_this_process(given.only)
    if given.command == "measure":
        return measure(given.commits, given.only, given.kept)
    if given.command == "compare":
        return compare(given.old, given.new, given.share, given.kept)
    return show(given.kept)


if __name__ == "__main__":
    sys.exit(main())
