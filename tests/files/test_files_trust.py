"""Files that were altered with care, and files that two hold: no wrong answer, and no row comes back."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp

import squaresvm
from squaresvm import LSSVC, LSSVR, LagrangianSVC, OneVsOne, ProximalSVC
from squaresvm.files import Record
from squaresvm.streaming import ArraySource
from support import forged
from support.histories import data

M = 30


def saved(model, folder, **options):
    squaresvm.save(model, folder / "original", **options)
    raw = (folder / "original").read_bytes()
    (folder / "original").unlink()
    return raw


def altered(raw, name, change):
    """Return a file with one array changed, and the right checksum."""
    header, body = forged.opened(raw)
    arrays = forged.arrays_of(header, body)
    arrays[name] = change(arrays[name])
    return forged.with_arrays(header, arrays)


def loaded(raw, folder):
    (folder / "a.model").write_bytes(raw)
    return squaresvm.load(folder / "a.model")


class TestAltered:
    """What requests build on is checked before they do."""

    @pytest.mark.parametrize("seed", range(12))
    @pytest.mark.parametrize("name", ["factor", "beta", "bias", "rows", "weights"])
    def test_the_first_requests_are_right_all_the_same(self, name, seed, tmp_path):
        X, y = data("binary", M, seed=1)
        raw = saved(LSSVC(C=10.0, gamma=0.3).fit(X, y), tmp_path, factor=True)
        rng = np.random.default_rng(seed)

        def change(array):
            flat = array.reshape(-1).copy()
            places = rng.integers(flat.size, size=3)
            flat[places] *= 1.0 + 10.0 ** rng.uniform(-7, 0, size=3)
            return flat.reshape(array.shape)

        model = loaded(altered(raw, name, change), tmp_path)
        for gone in ([3], [7], [11, 2]):
            receipt = model.forget(gone)
            state = model._state
            fresh = LSSVC(C=10.0, gamma=0.3).fit(state.rows.X, state.rows.y, state.rows.weights)
            true = fresh._state.problem.residual(state.solution).max()
            assert true <= 1e-6
            assert receipt.sampled or true <= 10.0 * receipt.residual + 1e-12
            np.testing.assert_allclose(
                model.decision_function(X), fresh.decision_function(X), rtol=0.0, atol=1e-4
            )

    def test_a_factor_that_is_right_is_kept(self, tmp_path):
        X, y = data("binary", M, seed=1)
        model = loaded(saved(LSSVC().fit(X, y), tmp_path, factor=True), tmp_path)
        assert model._state.solution.factor is not None
        receipt = model.forget([3])
        assert not receipt.refactored
        assert not receipt.sampled  # The first receipt is of all rows.

    def test_coefficients_that_are_not_those_of_the_multipliers_are_refused(self, tmp_path):
        X, y = data("binary", M, seed=1)
        raw = saved(ProximalSVC().fit(X, y), tmp_path)
        why = forged.refusal(tmp_path, altered(raw, "expansion", lambda array: 1.001 * array))
        assert "coefficients are not those of its multipliers" in why

    @pytest.mark.parametrize("name", ["primal", "scatter", "response"])
    def test_sums_that_the_model_does_not_solve_are_refused(self, name, tmp_path):
        X, _ = data("binary", M, seed=1)
        raw = saved(LSSVR(kernel="linear").fit(ArraySource(X, X[:, 0] + 1.0)), tmp_path)
        why = forged.refusal(tmp_path, altered(raw, name, lambda array: 1.01 * array))
        assert "does not fit the sums" in why

    @pytest.mark.parametrize("name", ["above", "below"])
    @pytest.mark.parametrize("factor", [-1.0, 0.0, 2.0])
    def test_slopes_that_give_no_probabilities_are_refused(self, name, factor, tmp_path):
        X, y = data("binary", M, seed=1)
        model = LSSVC().fit(X, y)
        model.predict_proba(X)
        why = forged.refusal(
            tmp_path, altered(saved(model, tmp_path), name, lambda array: np.array([1.0, factor]) * array)
        )
        assert "slope" in why

    def test_slopes_of_votes_that_are_negative_are_refused(self, tmp_path):
        X, y = data("multi", M, seed=1)
        model = OneVsOne(LSSVC()).fit(X, y)
        model.predict_proba(X)
        raw = altered(saved(model, tmp_path), "votes_above", lambda array: -array)
        assert "slope" in forged.refusal(tmp_path, raw)


LIMITED = """
import resource, sys
import numpy as np, scipy.sparse as sp
import squaresvm
squaresvm.LSSVC(kernel="linear").fit(sp.eye(4, format="csr"), [0, 1, 0, 1]).predict(sp.eye(4, format="csr"))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, -1))
try:
    model = squaresvm.load(sys.argv[1])
    X = sp.csr_matrix(([1.0], ([0], [1])), shape=(1, model.n_features_in_))
    print(model.decision_function(X).shape)
except squaresvm.files.ModelFileError as error:
    print("refused", error)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory")
class TestMemory:
    def limited(self, path):
        environment = {"PYTHONPATH": ":".join(sys.path), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", LIMITED, str(path)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def test_many_classes_in_a_small_file(self, tmp_path):
        """All pairs of 16,000 classes would take gigabytes: their number is compared first."""
        X, y = data("multi", M, seed=1)
        header, body = forged.opened(saved(OneVsOne(LSSVC()).fit(X, y), tmp_path))
        arrays, many = forged.arrays_of(header, body), 16_000
        arrays |= {"y": np.arange(many, dtype=np.int16), "weights": np.ones(many)}
        arrays |= {"rows": np.ones((many, 1)), "ids": np.arange(many, dtype=np.int16)}
        header |= {"labels_are_objects": False, "arrivals": many, "n_features": 1}
        (tmp_path / "a.model").write_bytes(forged.with_arrays(header, arrays))
        assert "pairs of classes" in self.limited(tmp_path / "a.model")

    def test_many_columns_in_a_small_file(self, tmp_path):
        """w of 2^31 columns would take 16 GB: sparse rows predict without it."""
        X = sp.random(20, 500, density=0.02, random_state=0, format="csr")
        model = LSSVC(kernel="linear").fit(X, np.arange(20) % 2)
        header, body = forged.opened(saved(model, tmp_path))
        header["n_features"] = 2**31 - 2
        (tmp_path / "a.model").write_bytes(forged.sealed(header, body))
        assert self.limited(tmp_path / "a.model") == "(1,)\n"

    def test_predictions_without_w_are_the_same(self, monkeypatch):
        X = sp.random(20, 500, density=0.02, random_state=0, format="csr")
        model = LagrangianSVC(kernel="linear").fit(X, np.arange(20) % 2)
        expected = model.decision_function(X)
        monkeypatch.setattr("squaresvm.models.state._LARGE_W", 100)
        assert model._state._is_wider_than_its_entries
        np.testing.assert_allclose(model.decision_function(X), expected, rtol=0.0, atol=1e-12)


class TestTwoHolders:
    def model(self, path):
        X, y = data("binary", M, seed=1)
        squaresvm.save(LSSVC().fit(X, y), path)
        return path

    def test_a_row_that_another_has_forgotten_does_not_come_back(self, tmp_path):
        path = self.model(tmp_path / "a.model")
        first, second = squaresvm.load(path), squaresvm.load(path)
        first.forget([3])
        squaresvm.save(first, path)
        second.forget([7])
        content = path.read_bytes()
        with pytest.raises(
            ValueError, match=r"a\.model: another process has changed this .*squaresvm\.locked"
        ):
            squaresvm.save(second, path)
        assert path.read_bytes() == content
        squaresvm.save(second, tmp_path / "b.model")
        squaresvm.save(first.learn([[0.0] * 4], [first.classes_[0]]), path)  # Its own saves are its own.
        third = squaresvm.load(path)
        squaresvm.save(third, path)  # The same contents: nothing has changed for others.
        squaresvm.save(first, path)
        third.forget([8])
        squaresvm.save(third, path, overwrite=True)
        with pytest.raises(ValueError, match="another process"):
            squaresvm.save(first, path)
        squaresvm.save(first, path, overwrite=True)
        assert 3 not in squaresvm.load(path).ids_

    def test_whoever_saved_a_model_is_a_holder_too(self, tmp_path):
        X, y = data("binary", M, seed=1)
        model, path = LSSVC().fit(X, y), tmp_path / "a.model"
        squaresvm.save(model, path)
        other = squaresvm.load(path)
        other.forget([3])
        squaresvm.save(other, path)
        with pytest.raises(ValueError, match="another process"):
            squaresvm.save(model, path)
        path.unlink()
        squaresvm.save(model, path)

    def test_under_the_lock_no_request_is_lost(self, tmp_path):
        path = self.model(tmp_path / "a.model")

        def forget(rows):
            for row in rows:
                with squaresvm.locked(path):
                    model = squaresvm.load(path)
                    model.forget([row])
                    squaresvm.save(model, path)

        threads = [threading.Thread(target=forget, args=(range(k, 12, 3),)) for k in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        np.testing.assert_array_equal(squaresvm.load(path).ids_, np.arange(12, M))

    def test_where_a_model_comes_from_does_not_travel(self, tmp_path):
        model = squaresvm.load(self.model(tmp_path / "a.model"))
        assert Record.of(model).origin is not None
        assert str(tmp_path).encode() not in pickle.dumps(model)
        assert Record.of(pickle.loads(pickle.dumps(model))).origin is None
