"""Whatever is changed in a model, in memory or in its file, the verifier notices."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import squaresvm
from squaresvm import LSSVC, LSSVR, RLSSVC, LagrangianSVC, OneVsOne, ProximalSVC, RelaxedLSSVC
from squaresvm.files import ModelFileError
from squaresvm.streaming import ArraySource
from support.forged import arrays_of, opened, sealed, with_arrays

MODELS = {
    "LSSVC rbf": LSSVC(C=3.0),
    "LSSVC linear": LSSVC(C=3.0, kernel="linear"),
    "Relaxed early": RelaxedLSSVC(C=3.0, solver="2smo", tol=1e-4),
    "LSSVR poly": LSSVR(C=0.5, kernel="poly", degree=2, coef0=1.0),
    "Relaxed laplacian": RelaxedLSSVC(C=2.0, A=0.3, kernel="laplacian"),
    "Proximal rbf": ProximalSVC(C=0.7),
    "Proximal linear": ProximalSVC(C=0.7, kernel="linear"),
    "RLSSVC rbf": RLSSVC(C=2.0),
    "RLSSVC linear": RLSSVC(C=2.0, kernel="linear"),
    "Lagrangian rbf": LagrangianSVC(C=5.0, A=0.5),
    "Lagrangian augmented": LagrangianSVC(C=5.0, augment=True),
}
ROWS = 35
EVERY = pytest.mark.parametrize("name", list(MODELS))


def data(name, classes=2):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(ROWS, 3))
    score = X[:, 0] + 0.5 * rng.normal(size=ROWS)
    if "SVR" in name:
        return X, 2.0 + np.sin(score)
    return X, np.digitize(score, [0.0] if classes == 2 else [-0.4, 0.5])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of all models, of three classes where the number is odd, by name."""
    folder, found = tmp_path_factory.mktemp("forged"), {}
    for place, (name, estimator) in enumerate(MODELS.items()):
        X, y = data(name, 2 + place % 2)
        model = estimator.fit(X, y)
        path = folder / f"{place}.model"
        squaresvm.save(model, path)
        assert squaresvm.verify(path).ok
        found[name] = path
    return found


def verdict_on(path, header, arrays):
    """Return the verdict on a forged file with a right checksum; None where it is refused at loading."""
    other = path.with_suffix(".forged")
    other.write_bytes(with_arrays(header, arrays))
    try:
        return squaresvm.verify(other)
    except ModelFileError:
        return None


def caught(path, header, arrays):
    verdict = verdict_on(path, header, arrays)
    assert verdict is None or not verdict.ok, str(verdict)
    return verdict


def parts(path):
    header, body = opened(path.read_bytes())
    return header, arrays_of(header, body)


@EVERY
@given(place=st.integers(0, 10**6), sign=st.sampled_from([-1, 1]))
def test_a_multiplier_changed_by_a_millionth(name, files, place, sign):
    header, arrays = parts(files[name])
    values = arrays["primal" if "primal" in arrays else "beta"]
    used = np.flatnonzero(values)
    values.flat[used[place % used.size]] *= 1.0 + sign * 1e-6
    verdict = caught(files[name], header, arrays)
    assert verdict is None or not verdict.agrees


@EVERY
@given(place=st.integers(0, 10**6), size=st.sampled_from([1e-7, 1e-3, 1.0]))
def test_a_row_altered(name, files, place, size):
    header, arrays = parts(files[name])
    # A row beyond the margin has no say: without it the optimum is the same.
    beta = arrays.get("beta")
    used = np.arange(ROWS) if beta is None else np.flatnonzero(np.any(beta != 0.0, axis=1))
    if "primal" in arrays and "RLSSVC" in name:
        used = _inside_the_margin(arrays)
    arrays["rows"][used[place % used.size], place % 3] += size
    caught(files[name], header, arrays)


def _inside_the_margin(arrays):
    decision = arrays["rows"] @ arrays["primal"] + arrays["bias"]
    labels = np.unique(arrays["y"])
    is_of = arrays["y"][:, None] == (labels[1:] if labels.size == 2 else labels)
    return np.flatnonzero(np.any(np.where(is_of, 1, -1) * decision < 0.99, axis=1))


@EVERY
@given(place=st.integers(0, ROWS - 1))
def test_a_label_flipped(name, files, place):
    header, arrays = parts(files[name])
    y = arrays["y"]
    others = np.unique(y[y != y[place]])
    y[place] = others[place % others.size]
    caught(files[name], header, arrays)


@EVERY
@pytest.mark.parametrize("size", [1e-6, -1e-3, 1.0])
def test_a_bias_changed(name, files, size):
    header, arrays = parts(files[name])
    arrays["bias"][0] += size
    caught(files[name], header, arrays)


@EVERY
@pytest.mark.parametrize("what", ["C", "gamma", "degree", "coef0", "A", "class_weight"])
def test_a_number_of_the_fit_changed(name, files, what):
    header, arrays = parts(files[name])
    settings, kernel = header["settings"], header["settings"]["kernel"]
    if what == "C":
        settings["C"] *= 1.0 + 1e-6
    elif what == "A":
        penalty = settings["bias_penalty"]  # None where there is no bias, 0 where it is free.
        settings["bias_penalty"] = penalty * (1.0 + 1e-6) if penalty else 1.0
    elif what == "class_weight":
        if settings["class_weight"] is None or "SVR" in name:
            pytest.skip("a regression has no classes")
        settings["class_weight"] = [[int(arrays["y"][0]), 1.0 + 1e-6]]
    elif (what == "gamma" and kernel["name"] == "linear") or (
        what in ("degree", "coef0") and kernel["name"] != "poly"
    ):
        pytest.skip("the kernel has no such number")
    else:
        kernel[what] += {"gamma": 1e-6, "degree": 1, "coef0": 1e-6}[what]
    caught(files[name], header, arrays)


@EVERY
@pytest.mark.parametrize("what", ["residual", "gap", "objective"])
@pytest.mark.parametrize("factor", [0.0, 1e3])
def test_a_certificate_edited(name, files, what, factor):
    header, arrays = parts(files[name])
    said = header["certificate"][what]
    header["certificate"][what] = factor * max(abs(said), 1e-6)
    if factor == 0.0 and what != "objective" and said < 1e-9:
        assert verdict_on(files[name], header, arrays).ok  # Zero is what float64 might have found.
        return
    verdict = caught(files[name], header, arrays)
    assert any(f"the {what} is" in fault for fault in verdict.faults)


def test_a_status_that_the_residual_contradicts(files):
    header, arrays = parts(files["Relaxed early"])
    header["settings"]["tol"] = header["certificate"]["residual"] / 2
    verdict = caught(files["Relaxed early"], header, arrays)
    assert any("'converged' is claimed" in fault for fault in verdict.faults)


def test_coefficients_of_a_proximal_svm_that_are_not_those_of_its_multipliers(files):
    header, arrays = parts(files["Proximal rbf"])
    arrays["expansion"][7, 0] *= 1.0 + 1e-8  # What loading lets pass.
    verdict = caught(files["Proximal rbf"], header, arrays)
    assert "the coefficient of row 7 in f" in verdict.faults[0]


def test_a_multiplier_of_one_pair(tmp_path):
    X, y = data("pairs", 3)
    path = tmp_path / "pairs.model"
    squaresvm.save(OneVsOne(LSSVC()).fit(X, y), path)
    header, arrays = parts(path)
    arrays["beta"][-1] *= 1.0 + 1e-6
    verdict = caught(path, header, arrays)
    assert [part.ok for part in verdict.parts] == [True, True, False]
    assert all("classes 1 and 2" in fault for fault in verdict.parts[2].faults)
    *of_pair, of_chain = verdict.faults
    assert of_pair == list(verdict.parts[2].faults)
    assert "receipt 0 is of another model" in of_chain


def test_a_kernel_matrix_changed(tmp_path):
    X, y = data("precomputed")
    path = tmp_path / "kernel.model"
    squaresvm.save(LSSVC(kernel="precomputed").fit(np.exp(-np.abs(X[:, None] - X).sum(axis=2)), y), path)
    header, arrays = parts(path)
    for i, j in ((2, 5), (5, 2)):
        arrays["kernel_matrix"][i, j] += 1e-7
    caught(path, header, arrays)


@pytest.mark.parametrize("cls", [LSSVC, RLSSVC, LagrangianSVC])
@pytest.mark.parametrize("what", ["primal", "bias", "row", "label", "kept", "missing", "certificate"])
def test_streams(cls, what, tmp_path):
    X, y = data("stream")
    path = tmp_path / "stream.model"
    squaresvm.save(cls(kernel="linear", C=2.0).fit(ArraySource(X, y)), path)
    assert squaresvm.verify(path, (X, y)).ok
    header, arrays = parts(path)
    X, y = X.copy(), y.copy()
    if what in ("primal", "bias"):
        arrays[what].flat[0] += 1e-5
    elif what == "row":
        X[np.argmin(np.abs(X @ arrays["primal"] + arrays["bias"]).ravel())] += 1e-3
    elif what == "label":
        y[3] = 1 - y[3]
    elif what == "kept":
        X, y = np.vstack([X, X[:1]]), np.append(y, y[0])
    elif what == "missing":
        X, y = X[1:], y[1:]
    else:
        header["stream"]["certificate"]["objective"] *= 1.0 + 1e-9
    path.write_bytes(with_arrays(header, arrays))
    verdict = squaresvm.verify(path, (X, y))
    assert not verdict.ok
    if what in ("kept", "missing"):
        assert f"35 rows are claimed, and the data has {len(y)}" in verdict.faults[0]


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_models_in_memory(kernel):
    """A certificate that was taken before a change is not that of what is there after it."""
    X, y = data("memory")
    model = RLSSVC(kernel=kernel).fit(X, y)
    state = model._state
    assert model.certificate_.status == "converged"
    assert len(model.receipts_) == 1  # Sealed before anything is changed.
    for part in ("beta", "primal", "bias"):
        values = getattr(state.solution, part)
        if values is None:
            continue
        changed = values.copy()
        changed.flat[np.flatnonzero(values)[0]] *= 1.0 + 1e-6
        model._state = replace(state, solution=replace(state.solution, **{part: changed}))
        assert not squaresvm.verify(model).ok
    weights = state.rows.weights.copy()
    weights[state.support[0]] = 1.0 + 1e-6
    model._state = replace(state, rows=replace(state.rows, weights=weights))
    assert not squaresvm.verify(model).ok
    model._state = state
    assert squaresvm.verify(model).ok


def test_numbers_that_are_none():
    X, y = data("memory")
    model = LSSVC().fit(X, y)
    state = model._state
    beta = state.solution.beta.copy()
    beta[3, 0] = np.nan
    model._state = replace(state, solution=replace(state.solution, beta=beta))
    verdict = squaresvm.verify(model)
    assert verdict.faults == ("LSSVC, rbf kernel: the multipliers are not all finite numbers",)
    assert json.loads(json.dumps(verdict.to_json(), allow_nan=False))["residual"] is None


def test_the_file_is_left_as_it_is(files):
    path = files["LSSVC rbf"]
    before = path.read_bytes()
    squaresvm.verify(path)
    assert path.read_bytes() == before


def test_a_certificate_that_is_none_is_refused(files):
    path = files["LSSVC rbf"]
    header, body = opened(path.read_bytes())
    for wrong in ({}, 3, {**header["certificate"], "residual": -1.0}, {**header["certificate"], "column": 9}):
        other = path.with_suffix(".wrong")
        other.write_bytes(sealed({**header, "certificate": wrong}, body))
        with pytest.raises(ModelFileError, match="does not describe a model"):
            squaresvm.verify(other)
