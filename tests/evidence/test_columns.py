"""How far mean and deviation of columns have moved since fit: receipts against naive figures of the rows."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import squaresvm
from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, OneVsOne, Window, check_chain
from squaresvm.evidence.columns import Columns
from support.forged import arrays_of, opened, with_arrays


def data(rng, m, n=3):
    X = rng.normal(size=(m, n)) * 10.0 ** rng.uniform(-1, 1, n) + 10.0 ** rng.uniform(-1, 1, n)
    return X, np.arange(m) % 2


def truth(then, now):
    """Return by how much mean and deviation of each column have moved, in deviations, in many digits."""
    wide_then, wide_now = (np.asarray(X, dtype=np.longdouble) for X in (then, now))
    unit = wide_then.std(axis=0)
    return np.column_stack(
        [(wide_now.mean(axis=0) - wide_then.mean(axis=0)) / unit, wide_now.std(axis=0) / unit - 1.0]
    ).astype(np.float64)


def step_of(*counts):
    return next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if step * min(counts) >= 4.0)


def assert_told(model, then, now):
    """Check the last receipt: half a step of a deviation for what is kept, and half for what is told."""
    found, expected = model.receipts_[-1].moved["columns"], truth(then, now)
    step = step_of(len(then), len(now))
    assert list(found) == [f"x{column}" for column in range(then.shape[1])]
    room = step * (1.01 + 0.5 * np.abs(expected).max())
    assert np.abs(np.array(list(found.values())) - expected).max() <= room
    told = np.array(list(found.values()))
    assert np.allclose(told / step, np.round(told / step), rtol=0.0, atol=1e-9)
    assert model.receipts_[-1].resolved["columns"] == then.shape[1]
    assert model.receipts_[-1].to_json()["moved"]["columns"] == found


def step(model, action, rng, X, y, held, path):
    if action == "learn" and max(held) + 1 < len(X):
        new = list(range(max(held) + 1, min(max(held) + 1 + int(rng.integers(1, 40)), len(X))))
        model.learn(X[new], y[new], ids=new)
        held += new
    elif action == "forget" and len(held) > 60:
        order = np.array(held)[np.argsort(X[held, 0])]
        gone = rng.choice(order[: len(held) // 2], int(rng.integers(1, 20)), replace=False).tolist()
        model.forget(gone)
        held[:] = [each for each in held if each not in gone]
    elif action == "file":
        squaresvm.save(model, path, overwrite=True)
        model = squaresvm.load(path)
    elif action == "pickle":
        model = pickle.loads(pickle.dumps(model))
    elif action == "copy":
        model = copy.copy(model)
    elif action == "anchor":
        model.anchor_receipts()
    elif action == "refit":
        model.refit()
    return model


@pytest.mark.parametrize("seed", range(12))
def test_movements_are_those_of_the_rows_after_any_history(seed, tmp_path):
    rng = np.random.default_rng(seed)
    X, y = data(rng, 400)
    X = X.astype(np.float32) if seed % 3 == 0 else X
    kind = [
        LSSVC(C=10.0),
        LSSVR(kernel="linear"),
        RLSSVC(gamma=1.0),
        LagrangianSVC(kernel="linear"),
        OneVsOne(LSSVC()),
        LSSVC(kernel="linear", C=0.1),
    ]
    held = list(range(200))
    model = kind[seed % 6].fit(X[held], y[held], ids=held)
    then = X[held]
    for action in rng.choice(["learn", "forget", "forget", "file", "pickle", "copy", "anchor", "refit"], 10):
        model = step(model, str(action), rng, X, y, held, tmp_path / "a.model")
        then = X[held] if action == "refit" else then
        if rng.random() < 0.5:
            assert_told(model, then, X[held])
    assert_told(model, then, X[held])
    assert check_chain(model.receipts_) == []
    assert squaresvm.verify(model).ok
    due = {name for name, pair in model.receipts_[-1].moved["columns"].items() if max(map(abs, pair)) > 0.1}
    assert due == {name for name in model.refit_due() if name.startswith("x")}


def test_nothing_has_moved_at_fit_and_at_refit():
    for m in (5, 17, 60, 3000):
        X, y = data(np.random.default_rng(m), m, 5)
        told = Columns.of(X).moved(X)
        assert set(map(tuple, told.values())) == {(0.0, 0.0)}
    model = LSSVC(gamma=1.0).fit(X, y)
    model.forget(np.argsort(X[:, 1])[:500].tolist())
    assert "x1" in model.refit_due()
    assert model.refit().refit_due() == ()


def test_a_constant_column_has_not_moved_and_has_no_number_once_it_varies():
    X, y = data(np.random.default_rng(1), 300)
    X[:, 1] = 0.1
    model = LSSVC(gamma=1.0).fit(X, y)
    model.forget(range(30))
    assert model.receipts_[-1].moved["columns"]["x1"] == [0.0, 0.0]
    assert "x1" not in model.refit_due()
    model.learn([[X[0, 0], 0.2, X[0, 2]]], [0])
    assert model.receipts_[-1].moved["columns"]["x1"] == [None, None]
    assert "x1" in model.refit_due(share=1e9)


@pytest.mark.parametrize("size", [1e-200, 1e-9, 1.0, 1e200])
@pytest.mark.parametrize("offset", [0.0, 1.0, 1e9])
def test_figures_keep_their_digits_for_any_size_and_offset(size, offset):
    rng = np.random.default_rng(2)
    X = (rng.normal(size=(500, 2)) + offset) * size
    X[3, 0] *= 1e6
    told = np.array(list(Columns.of(X).moved(X[100:]).values()))
    assert np.abs(told - truth(X / size, X[100:] / size)).max() <= 0.03


def test_figures_beyond_all_numbers_are_left_out():
    X = np.array([[1e308, 1.0], [-1e308, 2.0], [1e308, 3.0], [1.0, 5.0]])
    columns = Columns.of(X)
    assert list(columns.moved(X[1:])) == ["x1"]
    assert list(Columns.from_json(columns.to_json()).moved(X[1:])) == ["x1"]


def test_what_is_kept_hides_a_single_row():
    rng = np.random.default_rng(3)
    for m in (30, 200, 1000):
        X = rng.normal(size=(m, 200))
        other = X.copy()
        other[0] = rng.normal(size=200)
        first, second = Columns.of(X), Columns.of(other)
        assert np.mean((first.means == second.means) & (first.deviations == second.deviations)) > 0.5


def test_sparse_rows_stay_sparse_and_rare_columns_are_not_told():
    rng = np.random.default_rng(4)
    m, n = 400, 10**9
    dense = np.where(rng.random((m, 4)) < 0.4, rng.gamma(2.0, size=(m, 4)), 0.0)
    dense[:, 3] += 7.0  # In every row.
    places = np.array([5, 70, 10**6, n - 2])
    entries = sp.coo_array(dense)
    rare = (np.ones(3), ([0, 1, 2], [6, 6, 8]))
    X = sp.csr_matrix((entries.data, (entries.row, places[entries.col])), shape=(m, n))
    X = sp.csr_matrix(X + sp.csr_matrix(rare, shape=(m, n)))
    columns, unit = Columns.of(X), np.sqrt(np.mean(dense.var(axis=0)))
    assert columns.numbers.tolist() == places.tolist()
    keep = np.argsort(dense[:, 1])[:250]
    told = Columns.from_json(columns.to_json()).moved(X[keep])
    now = dense[keep]
    expected = np.column_stack([now.mean(axis=0) - dense.mean(axis=0), now.std(axis=0) - dense.std(axis=0)])
    assert list(told) == [f"x{place}" for place in places]
    assert np.abs(np.array(list(told.values())) - expected / unit).max() <= 0.05


def test_a_column_of_sparse_rows_that_comes_is_told():
    before, after = np.zeros((200, 3)), np.zeros((300, 3))
    before[::2, 0] = 1.0
    after[:200] = before
    after[200:, 2] = 1.0
    told = Columns.of(sp.csr_matrix(before)).moved(sp.csr_matrix(after), ["old", "none", "new"])
    assert list(told) == ["old", "new"]
    assert told["new"] == pytest.approx([(1 / 3) / 0.5, np.sqrt(2 / 9) / 0.5], abs=0.05)


def test_of_many_columns_those_that_moved_most_are_told():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(600, 50)), np.arange(600) % 2
    X[:100, 17] += 4.0
    model = LSSVC(kernel="linear").fit(X, y)
    model.forget(range(100))
    receipt = model.receipts_[-1]
    assert receipt.resolved["columns"] == 50
    assert len(receipt.moved["columns"]) == 8
    assert next(iter(receipt.moved["columns"])) == "x17"
    assert model.refit_due() == ("x17",)


def test_columns_have_the_names_of_the_data_frame():
    pandas = pytest.importorskip("pandas")
    X, y = data(np.random.default_rng(6), 90)
    model = LSSVC(gamma=1.0).fit(pandas.DataFrame(X, columns=["age", "income", "size"]), y)
    assert list(model.receipts_[0].moved["columns"]) == ["age", "income", "size"]


def test_a_pipeline_that_scales_by_other_figures_tells_of_columns_as_they_reach_the_model():
    X, y = data(np.random.default_rng(7), 500)
    pipeline = make_pipeline(MinMaxScaler(), LSSVC(gamma=1.0)).fit(X, y)
    squaresvm.forget(pipeline, range(250))
    Z = pipeline[:-1].transform(X)
    assert_told(pipeline[-1], Z, Z[250:])


def test_a_precomputed_kernel_has_no_columns():
    X, y = data(np.random.default_rng(8), 40)
    model = LSSVC(kernel="precomputed").fit(X @ X.T / 1e9 + np.eye(40), y)
    model.forget([3])
    assert "columns" not in model.receipts_[-1].moved


@pytest.mark.parametrize("half_life", [None, 50.0])
def test_a_window_tells_of_the_columns_that_it_began_with(half_life):
    X, y = data(np.random.default_rng(9), 300)
    window = Window(LSSVC(gamma=1.0), size=200, half_life=half_life).fit(X[:200], y[:200])
    window.learn(X[200:], y[200:])
    assert_told(window, X[:200], X[100:])


def changed(path, model, change):
    squaresvm.save(model, path, overwrite=True)
    header, body = opened(path.read_bytes())
    change(header["receipts"])
    path.write_bytes(with_arrays(header, dict(arrays_of(header, body))))


def test_figures_that_were_changed_in_a_file_are_found(tmp_path):
    X, y = data(np.random.default_rng(10), 100)
    model, path = LSSVC().fit(X, y), tmp_path / "a.model"
    model.forget([4])
    changed(path, model, lambda receipts: receipts.update(columns=Columns.of(X + 1e3).to_json()))
    assert "means and deviations" in squaresvm.verify(path).faults[0]
    changed(path, model, lambda receipts: receipts.update(columns=None))
    assert "means and deviations" in squaresvm.verify(path).faults[0]
    for wrong in ({"deviations": "AAAA"}, {"count": 0}, {"unit": -1.0}, {"numbers": "AAAAAAAAAAA="}):
        changed(path, model, lambda receipts, wrong=wrong: receipts["columns"].update(wrong))
        with pytest.raises(squaresvm.files.ModelFileError):
            squaresvm.load(path)


def test_a_file_of_an_earlier_version_says_nothing_of_columns_after_requests(tmp_path):
    X, y = data(np.random.default_rng(11), 100)
    model, path = LSSVC(gamma=1.0).fit(X, y), tmp_path / "a.model"
    model._log = model._log.written(model._log.receipts()[0].but(number=1, kind="forget"))
    changed(path, model, lambda receipts: receipts.pop("columns"))
    old = squaresvm.load(path)
    old.forget([50])
    assert "columns" not in old.receipts_[-1].moved
    old.refit()
    assert old.receipts_[-1].resolved["columns"] == 3
