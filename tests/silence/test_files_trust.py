"""Files that are believed too easily, and writers that leave things behind."""

from __future__ import annotations

import errno
import os
import resource
import signal
import threading
import tracemalloc
import warnings
from contextlib import suppress

import numpy as np
import pytest
import scipy.sparse as sp

import squaresvm
from squaresvm import LSSVC, LSSVR, RLSSVC
from squaresvm.streaming import ArraySource, BlockSource
from support import referee
from support.hands import PATIENCE, in_child, start
from support.shared import forged

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
TOL = 1e-6
M = 400
BLOCK = 100


class StoppedError(Exception):
    """What an interrupted pass ends with."""


def stream_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(M, 5))
    return X, X @ rng.normal(size=5) + 0.3 * rng.normal(size=M)


def two_classes():
    X = np.random.default_rng(1).normal(size=(30, 3))
    return X, (X[:, 0] > 0).astype(int)


class Stops:
    """Blocks whose pass number `at` fails before its end."""

    def __init__(self, X, y, at):
        self.X, self.y, self.at, self.passes = X, y, at, 0

    def __call__(self):
        self.passes += 1
        for begin in range(0, M, BLOCK):
            if self.passes == self.at and begin == 2 * BLOCK:
                raise StoppedError
            yield self.X[begin : begin + BLOCK], self.y[begin : begin + BLOCK]


def leave_checkpoint(path, X, y):
    """Interrupt a fit at the first pass that finds a checkpoint written."""
    for at in range(2, 12):
        source = BlockSource(Stops(X, y, at), n_features=X.shape[1])
        try:
            LSSVR(kernel="linear").fit(source, checkpoint=path)
        except StoppedError:
            if path.exists():
                return
    pytest.fail("no interrupted fit left a checkpoint")


class TestCheckpoints:
    def test_of_other_rows_are_refused_or_do_no_harm(self, tmp_path):
        X, y = stream_data()
        leave_checkpoint(tmp_path / "fit.ckpt", X, y)
        other = X.copy()
        other[0] += 0.5
        model = LSSVR(kernel="linear")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # A warning comes too late: the fit was another's.
            try:
                model.fit(ArraySource(other, y), checkpoint=tmp_path / "fit.ckpt")
            except ValueError as error:
                if "checkpoint" in str(error):
                    return
                raise
            model.forget_rows(other[:100], y[:100])
        fresh = LSSVR(kernel="linear").fit(other[100:], y[100:])
        np.testing.assert_allclose(model.predict(other), fresh.predict(other), rtol=0, atol=1e-6)

    @pytest.mark.parametrize("has_nameless_files", [True, False])
    def test_a_killed_write_leaves_nothing_for_ever(self, has_nameless_files, tmp_path, monkeypatch):
        X, y = stream_data()
        if not has_nameless_files:
            monkeypatch.delattr(os, "O_TMPFILE", raising=False)

        def killed():
            os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
            LSSVR(kernel="linear").fit(ArraySource(X, y), checkpoint=tmp_path / "fit.ckpt")

        assert in_child(killed) == "fails"
        LSSVR(kernel="linear").fit(ArraySource(X, y), checkpoint=tmp_path / "fit.ckpt")
        assert list(tmp_path.iterdir()) == []

    def test_are_on_disk_with_their_folder(self, tmp_path, monkeypatch):
        X, y = stream_data()
        synced, real = [], os.fsync

        def fsync(handle):
            synced.append(os.fstat(handle).st_ino)
            real(handle)

        monkeypatch.setattr(os, "fsync", fsync)
        LSSVR(kernel="linear").fit(ArraySource(X, y), checkpoint=tmp_path / "fit.ckpt")
        assert synced, "no checkpoint was written"
        assert tmp_path.stat().st_ino in synced

    def test_that_are_damaged_are_refused_in_words(self, tmp_path):
        X, y = stream_data()
        path = tmp_path / "fit.ckpt"
        leave_checkpoint(path, X, y)
        whole, rng, strange = path.read_bytes(), np.random.default_rng(0), []
        for _ in range(900):
            raw = bytearray(whole)
            for place in rng.integers(len(raw), size=int(rng.integers(1, 4))):
                raw[place] = int(rng.integers(256))
            path.write_bytes(bytes(raw))
            try:
                LSSVR(kernel="linear").fit(ArraySource(X, y), checkpoint=path)
            except ValueError:
                continue
            except Exception as error:
                strange.append(f"{type(error).__name__}: {error}")
        assert strange == []


class TestForgedFiles:
    """The checksum is right, the content is not."""

    def test_no_first_receipt_believes_an_altered_file(self, tmp_path):
        silent, m = [], 40
        header, body = forged.opened(forged.model_bytes(tmp_path, factor=True, m=m))
        for seed in range(120):
            rng = np.random.default_rng(seed)
            arrays = forged.arrays_of(header, body)
            name = ("factor", "beta", "rows")[seed % 3]
            flat = arrays[name].reshape(-1)
            flat[rng.integers(flat.size)] *= 1.0 + rng.uniform(0.1, 0.5)
            (tmp_path / "a.model").write_bytes(forged.with_arrays(header, arrays))
            try:
                model = squaresvm.load(tmp_path / "a.model")
                receipt = model.forget([3])
            except ValueError:
                continue
            keep = np.delete(np.arange(m), 3)
            truth = referee.truth(model, arrays["rows"][keep], arrays["y"][keep]).residual
            if receipt.residual <= TOL and truth > 10 * TOL:
                silent.append((name, seed, receipt.residual, truth))
        assert silent == []

    def test_negative_slopes_are_refused(self, tmp_path):
        header, body = forged.opened(forged.model_bytes(tmp_path))
        arrays = forged.arrays_of(header, body)
        arrays["above"][0] *= -3.0
        (tmp_path / "a.model").write_bytes(forged.with_arrays(header, arrays))
        with pytest.raises(ValueError, match=r"a\.model"):
            squaresvm.load(tmp_path / "a.model")

    def test_memory_is_bounded_by_the_size_of_the_file(self, tmp_path):
        """One long name among short ones, as an array of equal widths, is the product of both."""
        header, body = forged.opened(forged.model_bytes(tmp_path, sparse=True))
        header["n_features"] = 4000
        header["feature_names"] = ["x" * 20_000, *(f"c{j}" for j in range(3999))]
        (tmp_path / "a.model").write_bytes(forged.sealed(header, body))
        size = (tmp_path / "a.model").stat().st_size
        tracemalloc.start()
        try:
            with suppress(ValueError):
                squaresvm.load(tmp_path / "a.model")
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak <= 50 * size + 2**20

    @pytest.mark.parametrize(
        "columns",
        [60, 2**31 - 2],
    )
    def test_columns_that_nobody_uses_take_no_memory(self, columns, tmp_path):
        X = sp.random(12, 60, density=0.2, format="csr", random_state=0)
        squaresvm.save(LSSVC(kernel="linear").fit(X, np.arange(12) % 2), tmp_path / "a.model")
        header, body = forged.opened((tmp_path / "a.model").read_bytes())
        header["n_features"] = columns
        (tmp_path / "a.model").write_bytes(forged.sealed(header, body))

        def used():
            resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))
            try:
                loaded = squaresvm.load(tmp_path / "a.model")
            except ValueError:
                return
            assert loaded.predict(sp.csr_matrix((1, columns))).shape == (1,)

        assert in_child(used) == "done"


def saved(path, m=40):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, 3))
    squaresvm.save(LSSVC().fit(X, X[:, 0] > 0), path)


class TestWriters:
    def test_two_holders_of_one_file_take_turns(self, tmp_path):
        """Load, forget, save under a lock that the package offers: no row comes back."""
        path = tmp_path / "a.model"
        saved(path)

        def forget(row):
            with squaresvm.locked(path):
                model = squaresvm.load(path)
                model.forget([row])
                squaresvm.save(model, path)

        threads = [start(lambda row=row: forget(row)) for row in range(8)]
        for thread, errors in threads:
            thread.join(4 * PATIENCE)
            assert errors == []
        assert squaresvm.load(path).ids_.tolist() == list(range(8, 40))

    def test_files_of_other_threads_keep_their_rights(self, tmp_path, monkeypatch):
        before = os.umask(0o077)
        os.umask(0o077)
        rights, real = [], os.umask

        def watched(mask):
            found = real(mask)
            other = tmp_path / f"of another thread {threading.get_ident()} {len(rights)}"
            other.touch()
            rights.append(other.stat().st_mode & 0o777)
            return found

        monkeypatch.setattr(os, "umask", watched)
        try:
            saved(tmp_path / "a.model")
        finally:
            real(before)
        assert all(mode == 0o600 for mode in rights), [oct(mode) for mode in rights]
        assert (tmp_path / "a.model").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT])
def test_a_disk_that_fails_is_told_with_the_name_of_the_file(number, tmp_path, monkeypatch):
    X, y = two_classes()
    path = tmp_path / "a.model"
    squaresvm.save(LSSVC().fit(X, y), path)
    before = path.read_bytes()

    def failing(handle):
        raise OSError(number, os.strerror(number))

    model = squaresvm.load(path)
    model.forget([3])
    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match=os.strerror(number)) as caught:
        squaresvm.save(model, path)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.model"]


@pytest.mark.parametrize("cls", [LSSVC, RLSSVC])
def test_a_file_does_not_name_a_class_whose_rows_are_gone(cls, tmp_path):
    X, _ = two_classes()
    y = np.array(["healthy", "secretly ill", "ill"])[np.arange(len(X)) % 3]
    path = tmp_path / "a.model"
    model = cls(class_weight={"healthy": 1.0, "secretly ill": 5.0, "ill": 2.0}).fit(X, y)
    squaresvm.save(model, path)
    assert b"secretly ill" in path.read_bytes()
    model.forget(np.flatnonzero(y == "secretly ill").tolist())
    squaresvm.save(model, path)
    assert b"secretly" not in path.read_bytes()
    assert squaresvm.load(path).class_weight == {"healthy": 1.0, "ill": 2.0}
