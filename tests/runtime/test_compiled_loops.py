"""Loops where nothing can be kept on disk, where they are not compiled, and where there is no Numba."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import squaresvm

#: Fits by every module of loops: coordinate updates, switches of a factor, LIBSVM text, passes over rows.
USES = """
import io, sys, tempfile, warnings, os
if sys.argv[1] == "no numba":
    sys.modules["numba"] = None
import numpy as np
warnings.simplefilter("error")
from squaresvm.runtime.resources import SlowLoopsWarning, is_compiled
assert is_compiled() is (sys.argv[1] == "compiled")
caught = warnings.catch_warnings(record=True)
told = caught.__enter__()
warnings.simplefilter("always")
from squaresvm import LSSVC, RLSSVC, LagrangianSVC, RelaxedLSSVC
from squaresvm.streaming import ArraySource, LibsvmSource
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
y = np.where(X[:, 0] + 0.5 * rng.normal(size=60) > 0, 1, -1)
for cls, solver in ((RelaxedLSSVC, "2smo"), (LagrangianSVC, "sesquismo"), (RLSSVC, "active-set")):
    model = cls(solver=solver, gamma=0.5).fit(X, y)
    assert model.certificate_.residual <= 1e-6, solver
    expected = cls(gamma=0.5).fit(X, y)
    assert np.allclose(model.decision_function(X), expected.decision_function(X), rtol=0, atol=1e-4), solver
    model.forget([3])
many = rng.normal(size=(9000, 12))
labels = np.where(many[:, 0] > 0, 1, -1)
linear = RLSSVC(kernel="linear").fit(many, labels)
assert linear.certificate_.residual <= 1e-6
path = os.path.join(tempfile.mkdtemp(), "a.svm")
with open(path, "w") as file:
    for row, label in zip(X, y):
        file.write(f"{label} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row.tolist())) + "\\n")
read = LSSVC(kernel="linear").fit(LibsvmSource(path))
assert np.allclose(read.coef_, LSSVC(kernel="linear").fit(X, y).coef_, rtol=0, atol=1e-8)
kinds = [warning.category for warning in told]
assert kinds == ([SlowLoopsWarning] if sys.argv[1] == "no numba" else []), [str(w.message) for w in told]
print("fine")
"""


def run(kind, **changes):
    package = changes.pop("package", str(Path(squaresvm.__file__).parents[1]))
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {"PYTHONPATH": package, "OMP_NUM_THREADS": "1", **changes}
    command = [sys.executable, "-c", USES, kind]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


def test_without_numba(tmp_path):
    done = run("no numba")
    assert done.stdout == "fine\n", done.stderr


def test_with_loops_that_are_not_compiled(tmp_path):
    done = run("not compiled", NUMBA_DISABLE_JIT="1")
    assert done.stdout == "fine\n", done.stderr


@pytest.mark.skipif(os.name != "posix", reason="folders that cannot be written to")
def test_where_nothing_can_be_kept_on_disk(tmp_path):
    """A package that belongs to root, and a user without a home: Numba would say "cannot cache function"."""
    where = Path(squaresvm.__file__).parent
    shutil.copytree(where, tmp_path / "squaresvm", ignore=shutil.ignore_patterns("__pycache__"))
    for folder, _, _ in os.walk(tmp_path / "squaresvm"):
        # A file in the place of the folder that compiled loops are kept in: root may write anywhere else.
        (Path(folder) / "__pycache__").write_text("")
    done = run("compiled", package=str(tmp_path), HOME="/dev/null/home", XDG_CACHE_HOME="/dev/null/x")
    assert done.stdout == "fine\n", done.stderr
    assert "cannot cache" not in done.stderr
