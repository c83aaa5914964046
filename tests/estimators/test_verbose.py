"""What `verbose` says on standard error, and that it changes nothing."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.base import clone

from squaresvm import LSSVC, LSSVCCV, LSSVR, RLSSVC, OneVsOne, RelaxedLSSVC
from squaresvm.solvers import Sumt, TwoSmo
from squaresvm.streaming import ArraySource
from support.histories import data

ITERATION = r"squaresvm: iteration (\d+), residual \d\.\de[+-]\d\d, objective \S+, \d+\.\d\d s"


def told(capsys):
    said = capsys.readouterr()
    assert said.out == ""
    return said.err.splitlines()


@pytest.mark.parametrize(
    "model",
    [LSSVC(solver=Sumt()), RelaxedLSSVC(solver="2smo"), RLSSVC(solver="active-set"), LSSVR(solver="cg")],
)
def test_every_iteration(capsys, model):
    kind = "regression" if isinstance(model, LSSVR) else "binary"
    X, y = data(kind, 30, seed=0)
    quiet = clone(model).fit(X, y)
    assert told(capsys) == []
    model = clone(model).set_params(verbose=2).fit(X, y)
    first, *lines, last = told(capsys)
    assert first == f"squaresvm: {type(model).__name__} with solver {model.solver_!r}: asked for by name"
    numbers = [int(re.fullmatch(ITERATION, line)[1]) for line in lines]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= model.n_iter_ >= 1
    assert last == f"squaresvm: {model.certificate_}"
    assert np.array_equal(model.predict(X), quiet.predict(X))
    assert np.array_equal(model.dual_coef_, quiet.dual_coef_)


def test_few_lines_at_level_one(capsys):
    X, y = data("binary", 30, seed=0)
    model = RelaxedLSSVC(C=1e3, solver="2smo", verbose=1).fit(X, y)
    assert model.n_iter_ > 20
    assert len(told(capsys)) < 2 + model.n_iter_ / 2
    LSSVC(verbose=True).fit(X, y).refit()
    lines = told(capsys)
    assert len(lines) == 4
    assert lines[0] == lines[2]


def test_several_classes(capsys):
    X, y = data("multi", 30, seed=0)
    RelaxedLSSVC(solver=TwoSmo(), verbose=3).fit(X, y)
    columns = {line.split(",")[0] for line in told(capsys)[1:-1]}
    assert columns == {f"squaresvm: column {i} of targets" for i in range(3)}


def test_the_callers_callback_is_called_as_well(capsys):
    X, y = data("binary", 30, seed=0)
    seen = []
    solver = TwoSmo(callback=lambda progress: seen.append(progress) or len(seen) == 3)
    model = RelaxedLSSVC(solver=solver, verbose=2).fit(X, y)
    assert len(seen) == 3
    assert model.certificate_.status == "stopped"
    assert len(told(capsys)) == 5
    assert model.solver is solver


def test_streams_searches_and_pairs(capsys):
    X, y = data("multi", 30, seed=0)
    model = LSSVC(kernel="linear", verbose=1).fit(ArraySource(X, y))
    assert told(capsys) == [
        f"squaresvm: LSSVC with solver 'direct': {model.solver_reason_}",
        f"squaresvm: {model.certificate_}",
    ]
    LSSVCCV(Cs=[1.0], gammas=[0.1], verbose=1).fit(X, y)
    assert [line.split()[1] for line in told(capsys)] == ["LSSVCCV", "converged:"]
    OneVsOne(LSSVC(verbose=1)).fit(X, y)
    assert len(told(capsys)) == 6


def test_a_fit_is_the_same_on_every_run():
    X, y = data("binary", 60, seed=0)
    for solver in ("cg", "direct", "2smo"):
        fits = [RelaxedLSSVC(solver=solver, random_state=seed).fit(X, y).dual_coef_ for seed in (None, 0, 1)]
        assert np.array_equal(fits[0], fits[1])
        assert np.array_equal(fits[0], fits[2])
