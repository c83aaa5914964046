"""Linear models at any size: against liblinear, from Parquet files, on a cluster, and the paper's runs.

    python benchmarks/bench_linear.py [ndc] [multicore] [sparse] [covtype] [wide] [parquet] [dask] [papers]

Ratios of one run, both sides in turn: median of 5 (lowest to highest). A peer that takes longer than
ten seconds is run once.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import psutil
from papers_data import folder, standardised
from sklearn.datasets import load_svmlight_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from squaresvm import LagrangianSVC
from squaresvm.datasets import make_ndc, ndc_blocks
from squaresvm.operators import LinearOperator
from squaresvm.problem import Bias, Loss, Problem
from squaresvm.solvers import Lagrangian
from squaresvm.solvers.newton import Newton

REPEATS, LONG = 5, 10.0
NU = 0.1
PARQUET_ROWS, DASK_ROWS, FILE_ROWS = 20_000_000, 10_000_000, 1_000_000


# Timing --------------------------------------------------------------------------------------------------


def timed(work):
    """Return the result and the seconds it took."""
    start = time.perf_counter()
    found = work()
    return found, time.perf_counter() - start


def in_turn(*works):
    """Return the seconds of each, of shape (works, runs), run in turn so that all meet the same machine.

    All are run once before, to be warm; one that is long is not run again.
    """
    first = [timed(work)[1] for work in works]
    rounds = []
    for _ in range(REPEATS):
        pairs = zip(works, first, strict=True)
        rounds.append([once if once > LONG else timed(work)[1] for work, once in pairs])
    return np.array(rounds).T


def spread(values, form=".2f"):
    """Return median and range in words."""
    return f"{np.median(values):{form}} ({np.min(values):{form}} to {np.max(values):{form}})"


def compare(what, ours, peer, took, other, notes=""):
    """Print one row: seconds, and how many times longer the peer takes."""
    once = ", peer run once" if np.median(other) > LONG else ""
    print(
        f"{what}: {ours} {spread(took, '.3f')} s, {peer} {spread(other, '.2f')} s{once}, "
        f"ratio {spread(other / took, '.1f')}{notes}",
        flush=True,
    )


def objective(X, y, w, b, C):
    """Return 1/2 |w|^2 + 1/2 b^2 + C/2 sum xi^2, in plain NumPy."""
    xi = np.maximum(0.0, 1.0 - y * (np.asarray(X @ w).ravel() + b))
    return 0.5 * (w @ w + b * b + C * (xi @ xi))


# In memory -----------------------------------------------------------------------------------------------


def peer_of(X, y, C, dual, sweeps=1000):
    """Return a fit of LinearSVC: with half of our C, its problem is ours."""
    given = {"loss": "squared_hinge", "dual": dual, "tol": 1e-4, "max_iter": sweeps, "random_state": 0}

    def fit():
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", ConvergenceWarning)
            model = LinearSVC(C=C / 2, **given).fit(X, y)
        model.failed = any(issubclass(one.category, ConvergenceWarning) for one in told)
        return model

    return fit


def ours_of(X, y, C):
    return lambda: LagrangianSVC(C=C, kernel="linear").fit(X, y)


def excess(X, y, C, model, best):
    """Return in words how far a model's objective is above another's, relatively."""
    value = objective(X, y, model.coef_[0], model.intercept_[0], C)
    return f"{value / best - 1:+.1e}" + (", did not converge" if getattr(model, "failed", False) else "")


def against_linear_svc(name, X, y, C, duals=(False, True), sweeps=1000):
    fit, kept = ours_of(X, y, C), {}
    works = [fit, *(kept_by(kept, dual, peer_of(X, y, C, dual, sweeps)) for dual in duals)]
    seconds = in_turn(*works)
    model = fit()
    best = objective(X, y, model.coef_[0], model.intercept_[0], C)
    for dual, other in zip(duals, seconds[1:], strict=True):
        notes = (
            f"; its objective {excess(X, y, C, kept[dual], best)}, our {model.certificate_}, "
            f"{model.n_iter_} steps"
        )
        compare(f"{name}, C = {C:g}", "fit", f"LinearSVC(dual={dual})", seconds[0], other, notes)


def kept_by(found, key, work):
    """Return the same work that leaves its result in `found`."""

    def run():
        found[key] = work()

    return run


def ndc():
    """2,000,000 x 10, nu = 0.1: the whole of fit, and the solver alone on a problem that is at hand."""
    X, y = make_ndc(2_000_000, random_state=0)
    against_linear_svc("NDC 2,000,000 x 10, fit", X, y, NU, duals=(False,))
    problem_of = newton_problem(X, y)
    fits = in_turn(lambda: Newton().solve(problem_of(), tol=1e-6, max_iter=None), peer_of(X, y, NU, False))
    residual = problem_of().residual(Newton().solve(problem_of(), tol=1e-6, max_iter=None))[0]
    compare("NDC, solver", "Newton", "LinearSVC", *fits, f"; residual {residual:.1e}")
    single = X.astype(np.float32)
    took = in_turn(ours_of(single, y, NU))
    print(f"NDC in float32: fit {spread(took, '.3f')} s", flush=True)


def newton_problem(X, y):
    """Return what makes a problem from rows that are at hand, without copying them."""
    targets, costs = y.astype(np.float64)[:, None], np.broadcast_to(NU, y.size)
    return lambda: Problem(LinearOperator(X), targets, costs, Loss.SQUARED_HINGE, Bias.penalised(1.0))


def multicore():
    """The same against liblinear-multicore on two threads, with and without building its problem."""
    try:
        from liblinear.liblinearutil import parameter, problem, train
    except ImportError:
        print("liblinear-multicore: not installed (pip install 'squaresvm[bench]', needs a C++ compiler)")
        return
    import scipy.sparse as sp

    X, y = make_ndc(2_000_000, random_state=0)
    rows, labels = sp.csr_matrix(X), y.astype(np.float64)
    for tolerance in ("1e-2", "1e-4"):
        options = parameter(f"-s 2 -m 2 -c {NU / 2} -B 1 -e {tolerance} -q")
        built = problem(labels, rows)
        works = [ours_of(X, y, NU), lambda: train(problem(labels, rows), options)]  # noqa: B023
        works.append(lambda: train(built, options))  # noqa: B023
        fit, with_building, alone = in_turn(*works)
        model, peer = works[0](), train(built, options)
        best = objective(X, y, model.coef_[0], model.intercept_[0], NU)
        w, b = peer.get_decfun()
        sign = 1.0 if peer.get_labels()[0] == 1 else -1.0
        notes = f"; its objective {objective(X, y, sign * np.array(w), sign * b, NU) / best - 1:+.1e}"
        name = f"liblinear-multicore -s 2 -m 2 -e {tolerance}"
        compare("NDC", "fit", f"{name}, problem built from CSR", fit, with_building, notes)
        compare("NDC", "fit", f"{name}, its problem at hand", fit, alone)


def sparse():
    """a9a, sparse."""
    X, y = load_svmlight_file(str(folder() / "a9a.svm"), n_features=123)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    for C in (1e-2, 1.0, 1e2):
        against_linear_svc("a9a 32,561 x 123 CSR", X, y, C)


def covtype():
    """covtype, standardised; a tenth of the dual's sweeps, which take minutes and do not suffice."""
    with gzip.open(folder() / "covtype.csv.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1)
    X, y = np.ascontiguousarray(standardised(table[:, :-1])), table[:, -1]
    for C in (1e-2, 1.0, 1e2):
        against_linear_svc("covtype 581,012 x 54", X, y, C, sweeps=100)


def wide():
    """Many features, by conjugate gradients: sparse 20,000 x 10,000 (0.5 %) and dense 20,000 x 4,000."""
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    X = sp.random(20_000, 10_000, 0.005, format="csr", random_state=rng, data_rvs=rng.standard_normal)
    y = noisy_labels(X, rng)
    for C in (1e-1, 1.0):
        against_linear_svc("sparse 20,000 x 10,000, 0.5 %", X, y, C)
    X = rng.standard_normal((20_000, 4_000))
    y = noisy_labels(X, rng)
    against_linear_svc("dense 20,000 x 4,000", X, y, 1e-3, sweeps=20)


def noisy_labels(X, rng):
    """Return the sides of a random plane, blurred by half the spread around it."""
    score = np.asarray(X @ rng.standard_normal(X.shape[1])).ravel()
    return np.where(score + 0.5 * score.std() * rng.standard_normal(score.size) > 0.0, 1, -1)


# From disk and on a cluster, in processes of their own ---------------------------------------------------


def in_a_process(job, *arguments):
    """Run a job of this file in a process of its own; return what it says, and its peak memory in MB."""
    command = [sys.executable, __file__, f"--{job}", *map(str, arguments)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak, watched = [0], psutil.Process(child.pid)

    def watch():
        while child.poll() is None:
            try:
                peak[0] = max(peak[0], watched.memory_info().rss)
            except psutil.Error:
                return
            time.sleep(0.01)

    watcher = threading.Thread(target=watch)
    watcher.start()
    said, _ = child.communicate()
    watcher.join()
    if child.returncode:
        raise SystemExit(f"{job} failed")
    return json.loads(said.splitlines()[-1]), peak[0] / 2**20


def parquet():
    """20,000,000 x 10 from Parquet: throughput of the fit's passes against reading alone, peak memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for compression in ("none", "snappy"):
        with tempfile.TemporaryDirectory() as where:
            blocks = ndc_blocks(PARQUET_ROWS, block_size=FILE_ROWS, random_state=0)
            for number, (X, y) in enumerate(blocks):
                columns = {f"x{j}": X[:, j] for j in range(X.shape[1])} | {"label": y.astype(np.int8)}
                path = Path(where, f"part-{number:03}.parquet")
                plain = compression == "none"
                pq.write_table(pa.table(columns), path, compression=compression, use_dictionary=not plain)
            size = sum(path.stat().st_size for path in Path(where).iterdir()) / 1e6
            in_a_process("read", where)  # Into the page cache.
            rounds = [
                (in_a_process("read", where)[0], *in_a_process("fit-parquet", where)) for _ in range(REPEATS)
            ]
        alone = np.array([read["seconds"] for read, _, _ in rounds])
        took = np.array([fit["seconds"] for _, fit, _ in rounds])
        passes = rounds[0][1]["passes"]
        print(
            f"Parquet {PARQUET_ROWS:,} x 10, {size:,.0f} MB, compression {compression}: fit "
            f"{spread(took)} s in {passes:.0f} passes, reading alone {spread(alone)} s a pass; the passes "
            f"reach {spread(passes * alone / took)} of its rate; peak memory "
            f"{max(peak for _, _, peak in rounds):,.0f} MB; {rounds[0][1]['certificate']}",
            flush=True,
        )


def read_alone(where):
    import pyarrow.parquet as pq

    def read():
        for path in sorted(Path(where).glob("*.parquet")):
            with pq.ParquetFile(path) as file:
                for group in range(file.num_row_groups):
                    file.read_row_group(group)

    print(json.dumps({"seconds": timed(read)[1]}))


def fit_parquet(where):
    from squaresvm.streaming import ParquetSource

    source = ParquetSource(where, label="label")
    model = LagrangianSVC(C=NU, kernel="linear")
    # Compiled loops are loaded from their cache within the time.
    seconds = timed(lambda: model.fit(source))[1]
    passes = model._state.solution.work["passes"]
    print(json.dumps({"seconds": seconds, "passes": passes, "certificate": str(model.certificate_)}))


def dask():
    """10,000,000 x 10 persisted on two worker processes against the same fit in memory."""
    with tempfile.TemporaryDirectory() as where:
        for number, (X, y) in enumerate(ndc_blocks(DASK_ROWS, block_size=FILE_ROWS, random_state=0)):
            np.save(Path(where, f"X{number:03}.npy"), X)
            np.save(Path(where, f"y{number:03}.npy"), y)
        memory, _ = in_a_process("fit-memory", where)
        cluster, peak = in_a_process("fit-dask", where)
    took, alone = np.array(cluster["seconds"]), np.array(memory["seconds"])
    apart = np.abs(np.array(cluster["coef"]) - np.array(memory["coef"])).max()
    print(
        f"Dask {DASK_ROWS:,} x 10 on two worker processes: fit {spread(took)} s in {cluster['passes']:.0f} "
        f"passes, in memory {spread(alone)} s; {np.median(took) / np.median(alone):.2f} times as long; "
        f"peak memory of the client {peak:,.0f} MB; coefficients differ by {apart:.0e}",
        flush=True,
    )


def repeated_fit(*data):
    model, seconds = LagrangianSVC(C=NU, kernel="linear"), []
    for _ in range(REPEATS + 1):
        seconds.append(timed(lambda: model.fit(*data))[1])
    found = {"seconds": seconds[1:], "coef": model.coef_[0].tolist()}
    return found | {"passes": (model._state.solution.work or {}).get("passes", 0)}


def fit_memory(where):
    def joined(kind):
        return np.concatenate([np.load(path) for path in sorted(Path(where).glob(f"{kind}*.npy"))])

    print(json.dumps(repeated_fit(joined("X"), joined("y"))))


def fit_dask(where):
    import dask as dask_itself
    import dask.array as da
    import distributed

    from squaresvm.streaming import DaskSource

    def lazy(kind, shape, dtype):
        parts = [dask_itself.delayed(np.load)(str(path)) for path in sorted(Path(where).glob(f"{kind}*.npy"))]
        return da.concatenate([da.from_delayed(part, shape, dtype=dtype) for part in parts])

    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    )
    with cluster, distributed.Client(cluster):
        X, y = lazy("X", (FILE_ROWS, 10), np.float64), lazy("y", (FILE_ROWS,), np.int64)
        X, y = dask_itself.persist(X, y)
        distributed.wait([X, y])
        found = repeated_fit(DaskSource(X, y))
    print(json.dumps(found))


# The paper -----------------------------------------------------------------------------------------------

#: Lagrangian SVM paper, Table 2: iterations, test accuracy in percent, support vectors, those above 0.001.
TABLE_2 = {
    "a1a": (38, 84.27, 1364, 1069),
    "a2a": (40, 84.66, 1924, 1540),
    "a3a": (43, 84.55, 2662, 2040),
    "a4a": (46, 84.55, 3933, 3026),
    "a5a": (47, 84.68, 5220, 3985),
    "a6a": (50, 84.84, 9008, 6879),
    "a7a": (52, 85.01, 12935, 9803),
    "a8a": (54, 85.35, 18048, 13721),
    "a9a": (55, 85.05, 25769, 19448),
}


def adult(name):
    path = next(path for path in sorted(folder().glob(f"{name}.svm*")))
    return load_svmlight_file(str(path), n_features=123)


def papers():
    """The Lagrangian SVM paper's linear runs, by its own fixed point and by Newton's method."""
    # Where the paper stops, the residual is above tol, and each line says so.
    warnings.simplefilter("ignore", ConvergenceWarning)
    print("Table 2, nu = 0.03; paper: iterations, accuracy, support vectors, those with u > 0.001")
    for name, printed in TABLE_2.items():
        (X, y), (X_test, y_test) = adult(name), adult(f"{name}.t")
        # The paper ends where an iteration moves u by less than a tolerance that it does not give.
        stepwise = LagrangianSVC(C=0.03, kernel="linear", solver=Lagrangian(stop="step"), tol=1e-5).fit(X, y)
        model, seconds = timed(lambda: LagrangianSVC(C=0.03, kernel="linear").fit(X, y))  # noqa: B023
        u = np.abs(model.dual_coef_[0])
        print(
            f"{name}, {X.shape[0]} rows; paper {printed}; fixed point {stepwise.n_iter_} iterations, "
            f"{100 * stepwise.score(X_test, y_test):.2f} %, {stepwise.support_.size} support vectors; "
            f"optimum {100 * model.score(X_test, y_test):.2f} %, {u.size}, {(u > 1e-3).sum()}, "
            f"Newton {model.n_iter_} steps, {seconds:.3f} s",
            flush=True,
        )
    X, y = make_ndc(2_100_000, random_state=0)
    (X, X_test), (y, y_test) = np.split(X, [2_000_000]), np.split(y, [2_000_000])
    print("Table 3, NDC 2,000,000 x 10; paper at nu = 0.1: 81 iterations, 69.80 / 69.44 %, 22.4 min;")
    print("at nu = 1/m on random points: 6 iterations, 81.52 min on a notebook, to 9.4e-5")
    for label, nu, tol in (("nu = 0.1", NU, 1e-5), ("nu = 1/m", 1.0 / y.size, 1e-4)):
        solvers = {"fixed point": Lagrangian(stop="step"), "Newton": "auto"}
        for solver, chosen in solvers.items():
            made = LagrangianSVC(C=nu, kernel="linear", solver=chosen, tol=tol)
            model, seconds = timed(lambda: made.fit(X, y))  # noqa: B023
            print(
                f"{label}, {solver}: {model.n_iter_} iterations, {100 * model.score(X, y):.2f} / "
                f"{100 * model.score(X_test, y_test):.2f} %, {seconds:.2f} s, {model.certificate_}",
                flush=True,
            )


TABLES = ["ndc", "multicore", "sparse", "covtype", "wide", "parquet", "dask", "papers"]
JOBS = {
    "--read": read_alone,
    "--fit-parquet": fit_parquet,
    "--fit-memory": fit_memory,
    "--fit-dask": fit_dask,
}

if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in JOBS:
        JOBS[sys.argv[1]](*sys.argv[2:])
    else:
        for name in sys.argv[1:] or [
            "ndc",
            "multicore",
            "sparse",
            "covtype",
            "wide",
            "parquet",
            "dask",
            "papers",
        ]:
            globals()[name]()
