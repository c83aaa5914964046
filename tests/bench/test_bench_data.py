"""The data of the papers' tables, what is measured on them, and how a cell is judged."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from squaresvm import RLSSVC, LagrangianSVC, bench
from squaresvm.bench import load_table
from squaresvm.bench.data import DataError, MissingDataError, Scaling, load_data
from squaresvm.bench.methods import METHODS, LagrangianIterate, is_peer, make_method
from squaresvm.bench.protocols import measure
from squaresvm.bench.table import DataSet, Tolerance
from squaresvm.bench.verdicts import Agreement, agreement, judge
from squaresvm.solvers import TwoSmo

# Data ------------------------------------------------------------------------------------------------


CSV = "size,colour,label\n1,red,a\n3,,b\n,blue,a\n7,red,c\n"


def data_set(tmp_path, prepare, options="", csv=CSV):
    (tmp_path / "set.csv").write_text(csv)
    (tmp_path / "SCHEMA.json").write_text(
        json.dumps(
            {"set": {"features": [{"name": "size"}, {"name": "colour", "values": ["red", "green", "blue"]}]}}
        )
    )
    table = tmp_path / "t.toml"
    table.write_text(
        'title = "t"\npaper = "p 1999"\nwhere = "Table 1"\nprotocol = { kind = "files" }\n'
        f'[data.set]\nfiles = ["set.csv"]\nprepare = {json.dumps(prepare)}\n{options}\n'
        '[[rows]]\ndata = "set"\nmethod = "LSSVC"\n'
    )
    return load_table(table)


def test_levels_come_from_the_schema_and_classes_are_chosen(tmp_path):
    table = data_set(tmp_path, ["onehot", "impute"], 'options = { classes = ["a", "b"] }')
    X, y = load_data(table.data["set"], tmp_path).train
    np.testing.assert_array_equal(X, [[1, 1, 0, 0], [3, 0, 0, 0], [np.nan, 0, 0, 1]])
    assert y.tolist() == [1, -1, 1]
    with pytest.raises(DataError, match="3 classes"):
        load_data(data_set(tmp_path, ["onehot"]).data["set"], tmp_path)
    with pytest.raises(DataError, match="'colour' is nominal"):
        load_data(data_set(tmp_path, []).data["set"], tmp_path)


def test_doubled_rows_are_left_out_and_numbers_may_be_levels(tmp_path):
    csv = "size,colour,label\n1,red,a\n,red,b\n1,red,a\n,red,b\n1,red,b\n3,,b\n"
    chosen = 'options = { distinct = true, nominal = ["size"] }'
    X, y = load_data(data_set(tmp_path, ["onehot"], chosen, csv).data["set"], tmp_path).train
    # Sizes 1 and 3, then red, green and blue; what is missing is no level.
    np.testing.assert_array_equal(X, [[1, 0, 1, 0, 0], [0, 0, 1, 0, 0], [1, 0, 1, 0, 0], [0, 1, 0, 0, 0]])
    assert y.tolist() == [-1, 1, 1, 1]
    numbers = data_set(tmp_path, ["onehot", "impute"], "options = { distinct = true }", csv).data["set"]
    assert len(load_data(numbers, tmp_path).train.y) == 4


def test_rows_in_random_order_are_the_same_rows(tmp_path):
    rows = "".join(f"{k},{'ab'[k % 2]}\n" for k in range(20))
    (tmp_path / "set.csv").write_text("x,label\n" + rows)
    plain = load_data(DataSet("set", ("set.csv",)), tmp_path).train
    mixed = load_data(DataSet("set", ("set.csv",), options={"shuffle": True, "seed": 1}), tmp_path).train
    order = mixed.X[:, 0].astype(int)
    assert order.tolist() != list(range(20))
    assert sorted(order) == list(range(20))
    assert np.array_equal(mixed.y, plain.y[order])


def test_missing_values_need_a_step(tmp_path):
    table = data_set(tmp_path, ["onehot"], 'options = { classes = ["a", "b"] }')
    with pytest.raises(DataError, match="prepare with 'impute'"):
        measure(table.rows[0], table.data["set"], table.protocol, tmp_path)


def test_a_changed_file_is_refused(tmp_path):
    table = data_set(tmp_path, ["onehot"], 'options = { classes = ["a", "b"] }')
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  set.csv\n")
    with pytest.raises(DataError, match=r"set\.csv: its SHA-256"):
        load_data(table.data["set"], tmp_path)
    with pytest.raises(MissingDataError, match="no data folder"):
        load_data(table.data["set"], None)


def test_scales_are_those_of_the_training_rows():
    X = np.array([[0.0, 1.0, np.nan], [2.0, 1.0, 4.0], [1.0, 1.0, 2.0]])
    unit = Scaling(X, ["impute", "unit"])
    np.testing.assert_allclose(unit(X), [[0, 0, 0.5], [1, 0, 1], [0.5, 0, 0]])
    np.testing.assert_allclose(unit(np.array([[4.0, 9.0, np.nan]])), [[2, 0, 0.5]])
    np.testing.assert_allclose(Scaling(X, ["impute"])(X)[:, 1], 1.0)
    standardised = Scaling(X, ["impute", "standardise"])(X)
    np.testing.assert_allclose(standardised.std(axis=0), [1, 0, 1])


# What is measured ------------------------------------------------------------------------------------


def test_tolerance_is_the_largest_of_its_rules():
    rule = Tolerance(points=0.5, percent=5, deviations=1)
    assert rule.allowed(100.0, 7.0) == 7.0
    assert rule.allowed(100.0, None) == 5.0
    assert rule.allowed(1.0, 0.1) == 0.5
    assert not judge({"test": 1.0}, {"test": {"mean": 1.6}}, {"test": rule})["test"]["agrees"]


def test_a_limit_holds_for_the_largest_of_all_repeats():
    rules, paper = {"iterations": Tolerance(most=True)}, {"iterations": 10.0}
    agrees = [
        judge(paper, {"iterations": {"mean": 6.0, "max": largest}}, rules)["iterations"]["agrees"]
        for largest in (2.0, 10.0, 11.0)
    ]
    assert agrees == [True, True, False]
    assert not judge(paper, {}, rules)["iterations"]["agrees"]


def test_every_declared_cell_counts_and_unfinished_rows_against():
    rules = {"test": Tolerance(points=1), "support": Tolerance(percent=5), "train": Tolerance(points=1)}
    paper = {"test": 80.0, "support": 100.0}
    done = judge(paper, {"test": {"mean": 80.5}, "support": {"mean": 90.0}}, rules)
    unfinished = judge(paper, {}, rules)
    assert [cell["agrees"] for cell in done.values()] == [True, False]
    assert [cell["agrees"] for cell in unfinished.values()] == [False, False]
    same = {"constant": {"mean": 100.0}}
    rows = [
        {"peer": False, "matched": False, "summary": same, "verdicts": done},
        {"peer": False, "matched": False, "summary": {}, "verdicts": unfinished},
        {"peer": True, "matched": False, "summary": {}, "verdicts": done},
        {"peer": False, "matched": True, "summary": same, "verdicts": done},
    ]
    assert agreement({"rows": rows}) == Agreement(1, 4, 1, 1, 2, 1, 2)
    assert agreement({"rows": [{**rows[0], "verdicts": {}}]}) is None


def test_a_solver_with_options_and_a_pruned_model():
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    model = make_method("RelaxedLSSVC", {"solver": {"name": "2smo", "plain": "random", "seed": 3}})
    assert model.solver == TwoSmo(plain="random", seed=3)
    pruned = make_method("LSSVC, pruned", {"C": 2.0, "gamma": 0.5}).fit(X, y)
    assert len(pruned.support_) == 30
    assert np.mean(pruned.predict(X) == y) > 0.9
    iterate = LagrangianIterate(C=0.1, stop="violation", tol=1e-6).fit(X, y)
    assert iterate.violation_ <= 1e-6
    assert np.all(y[iterate.support_] * iterate.dual_coef_[0] > 0)  # Those below 0 are no support vectors.


@pytest.mark.parametrize("name", [name for name in METHODS if is_peer(name)])
def test_every_peer_can_be_made_or_says_what_is_missing(name):
    options = {"libsvm": {"options": "-t 0 -c 1"}, "liblinear": {"options": "-s 2 -c 1 -B 1"}}
    try:
        model = make_method(name, options.get(name, {}))
    except ImportError as error:
        assert METHODS[name][0] in str(error)  # noqa: PT017
        return
    if name == "neo-ls-svm":
        return  # Takes seconds, and warns.
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    assert np.mean(model.fit(X, y).predict(X) == y) > 0.9


def test_liblinear_has_our_optimum():
    """At half of C, as the tables say."""
    pytest.importorskip("liblinear")
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 3))
    y = np.where(X[:, 0] + rng.normal(size=80) > 0.3, 1.0, -1.0)
    ours = LagrangianSVC(kernel="linear", C=0.7).fit(X, y)
    theirs = make_method("liblinear", {"options": "-s 2 -B 1 -c 0.35 -e 1e-8"}).fit(X, y)
    assert np.mean(ours.predict(X) == theirs.predict(X)) == 1.0


def test_the_papers_iterate_leads_to_our_optimum():
    """Far on it is the solution; where the paper stops it has more multipliers above 0."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 4))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=300) > 0.2, 1.0, -1.0)
    optimum = LagrangianSVC(kernel="linear", C=0.3, tol=1e-10).fit(X, y)
    far = LagrangianIterate(C=0.3, tol=1e-12, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(far.decision_function(X), optimum.decision_function(X), atol=1e-8)
    early = LagrangianIterate(C=0.3, tol=0.1).fit(X, y)
    assert early.n_iter_ < far.n_iter_
    assert len(early.support_) > len(optimum.support_)
    assert np.mean(early.predict(X) == optimum.predict(X)) > 0.98


@pytest.mark.parametrize("degree", [2, 3])
def test_the_papers_iterate_of_a_kernel_leads_to_our_optimum(degree):
    """Table 4's (GG')^d: the augmented polynomial kernel without another 1."""
    X = np.random.default_rng(3).uniform(-1, 1, size=(60, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    kernel = {"kernel": "poly", "degree": degree, "gamma": 1.0, "coef0": 0.0, "augment": True}
    optimum = LagrangianSVC(C=0.5, tol=1e-10, **kernel).fit(X, y)
    far = LagrangianIterate(C=0.5, degree=degree, tol=1e-11, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(far.decision_function(X), optimum.decision_function(X), atol=1e-7)


def test_sumt_comes_to_the_free_bias(tmp_path):
    """Each iterate against the closed form of the penalised problem, and its distance from the limit."""
    A, factor, C, gamma = 50.0, 0.5, 2.0, 0.7
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 2))
    y = np.where(X[:, 0] + 0.4 * rng.normal(size=30) > 0.3, 1.0, -1.0)
    path = tmp_path / "sumt.toml"
    path.write_text(f"""
title = "SUMT"
paper = "Nobody (nothing)"
where = "Fig. 0"
protocol = {{ kind = "sumt" }}
[plot]
x = "step"
y = "distance"
log = false
[data.points]
X = {X.tolist()}
y = {y.tolist()}
[[rows]]
data = "points"
method = "LSSVC"
parameters = {{ A = {A}, C = {C}, gamma = {gamma}, tol = 1e-12 }}
options = {{ factor = {factor} }}
vary = {{ step = [0, 4, 40] }}
""")
    found = bench.run_tables([load_table(path)], data=None, output=tmp_path, isolated=False)
    H = np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(axis=2)) + np.eye(30) / C
    u, v = np.linalg.solve(H, np.ones(30)), np.linalg.solve(H, y)
    limit = v - v.sum() / u.sum() * u
    for line in found["tables"]["sumt"]["rows"]:
        beta = v - v.sum() / (A * factor ** line["at"]["step"] + u.sum()) * u
        assert line["values"]["balance"] == pytest.approx([abs(beta.sum())], abs=1e-9)
        assert line["values"]["distance"] == pytest.approx([np.linalg.norm(beta - limit)], abs=1e-9)
    assert "SUMT iterations" in bench.report.html_report(found)


def test_a_grid_is_searched_on_the_test_rows(tmp_path):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 2))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=40) > 0, 1.0, -1.0)
    path = tmp_path / "grid.toml"
    path.write_text(f"""
title = "Grid"
paper = "Nobody (nothing)"
where = "Table 0"
protocol = {{ kind = "grid", printed = true }}
[tolerance]
log_C = {{ points = 0 }}
[data.points]
X = {X.tolist()}
y = {y.tolist()}
[[rows]]
data = "points"
method = "RLSSVC"
options = {{ rows = 25 }}
tune = {{ C = [0.01, 1.0, 100.0], gamma = [0.01, 1.0] }}
paper = {{ log_C = 7.0 }}
""")
    found = bench.run_tables([load_table(path)], data=None, output=tmp_path, isolated=False)
    (line,) = found["tables"]["grid"]["rows"]
    rates = {
        (C, gamma): RLSSVC(C=C, gamma=gamma).fit(X[:25], y[:25]).score(X[25:], y[25:])
        for C in (0.01, 1.0, 100.0)
        for gamma in (0.01, 1.0)
    }
    best = max(rates.values())
    assert line["values"]["test"] == pytest.approx([100.0 * best])
    assert line["values"]["ties"] == [list(rates.values()).count(best)]
    first = next(cell for cell, rate in rates.items() if rate == best)
    assert line["values"]["log_C"] == pytest.approx([np.log10(first[0])])
    assert line["values"]["log_gamma"] == pytest.approx([np.log10(first[1])])
    assert not line["verdicts"]["log_C"]["agrees"]
    assert "printed" not in line["values"]  # The paper's cell is not in this grid; in the next one it is.
    path.write_text(path.read_text().replace("log_C = 7.0", "log_C = 2.0, log_gamma = -2.0"))
    again = bench.run_tables([load_table(path)], data=None, output=tmp_path / "again", isolated=False)
    (line,) = again["tables"]["grid"]["rows"]
    assert line["values"]["printed"] == pytest.approx([100.0 * rates[100.0, 0.01]])


def test_memory_is_that_of_the_fit_alone(tmp_path):
    """The kernel matrix is the most that an LS-SVM holds; the rows are there before."""
    data = DataSet("board", make={"generator": "checkerboard", "n_samples": 200, "random_state": 0})
    row = replace(load_table("lsvm-fig-2").rows[0], method="LSSVC", parameters={}, options={})
    found = measure(row, data, {"kind": "files", "repeats": 1, "memory": True}, None)
    (kilobytes,) = found.values["memory"]
    assert 200**2 * 8 / 1024 < kilobytes < 6 * 200**2 * 8 / 1024
    peer = measure(replace(row, method="sklearn.SVC"), data, {"kind": "files", "memory": True}, None)
    assert "memory" not in peer.values
