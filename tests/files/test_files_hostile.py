"""Model files that are damaged, cut short or made to do harm are refused in one line, and nothing runs."""

from __future__ import annotations

import io
import json
import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import squaresvm
from squaresvm import LSSVC, LSSVR, ProximalSVC
from squaresvm.files import ModelFileError
from squaresvm.files.kinds import rows_held
from support import forged
from support.forged import refusal


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def raw(folder):
    return forged.model_bytes(folder, factor=True)


class Bomb:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return (exec, ("raise SystemExit('it ran')",))


class TestDamage:
    def test_every_length_that_is_too_short(self, folder, raw):
        for length in [*range(0, 200), *range(200, len(raw), 97), len(raw) - 1]:
            assert refusal(folder, raw[:length]).startswith(
                ("is cut short", "is not a squaresvm model file", "is damaged")
            )

    def test_bytes_behind_the_end(self, folder, raw):
        assert "damaged" in refusal(folder, raw + b"\0")

    def test_every_bit_of_the_start_and_some_of_the_rest(self, folder, raw):
        for place in [*range(70), *range(70, len(raw), 61)]:
            changed = bytearray(raw)
            changed[place] ^= 1 << place % 8
            refusal(folder, bytes(changed))

    def test_newer_version(self, folder, raw):
        header, body = forged.opened(raw)
        assert refusal(folder, forged.sealed(header, body, version=2)) == (
            "was written by a newer squaresvm (format 2; this one reads up to 1): update squaresvm"
        )
        # Whatever else a newer version may have changed.
        assert "newer squaresvm" in refusal(folder, forged.sealed(b"?", b"", version=77))

    @pytest.mark.parametrize(
        "content",
        [b"", b"\n", b"svm_type c_svc\nkernel_type rbf\n", bytes(range(256)) * 8, pickle.dumps(Bomb())],
        ids=["empty", "line", "libsvm", "rubbish", "pickle"],
    )
    def test_other_files(self, folder, content):
        assert refusal(folder, content) == "is not a squaresvm model file"

    def test_archives(self, folder):
        """Neither zip bombs nor names that leave the folder matter where no archive is opened."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("../../outside", b"0" * 10_000_000)
        assert refusal(folder, buffer.getvalue()) == "is not a squaresvm model file"
        assert not (folder.parent.parent / "outside").exists()


class TestHeader:
    def test_no_json(self, folder, raw):
        _, body = forged.opened(raw)
        for text in (b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 10_000):
            assert refusal(folder, forged.sealed(text, body)) == "is damaged: its header is not valid JSON"
        for text in (b"[]", b"3", b"null"):
            assert refusal(folder, forged.sealed(text, body)) == "is damaged: its header is not a JSON object"

    @pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
    def test_numbers_that_are_none(self, folder, raw, number):
        header, body = forged.opened(raw)
        text = json.dumps(header).encode().replace(b'"tol": 1e-06', b'"tol": ' + number)
        assert refusal(folder, forged.sealed(text, body)) == "is damaged: its header is not valid JSON"

    def test_names_twice(self, folder, raw):
        header, body = forged.opened(raw)
        text = json.dumps(header).encode()
        twice = text[:-1] + b', "estimator": "LSSVR"}'
        assert refusal(folder, forged.sealed(twice, body)) == "is damaged: its header is not valid JSON"

    @pytest.mark.parametrize(
        "name", ["../../etc/passwd", "/etc/passwd", "Rows", "a" * 99, "", "x\n", "r\u00f6"]
    )
    def test_names_of_arrays(self, folder, raw, name):
        header, body = forged.opened(raw)
        header["arrays"][name] = {"dtype": "<f8", "shape": [0], "order": "C"}
        assert "which no model has" in refusal(folder, forged.sealed(header, body))

    @pytest.mark.parametrize(
        "dtype", ["|O", "O", "<M8[ns]", ">f8", "<f2", "<c16", "|V8", "<U0", "<i3", 8, None]
    )
    def test_types_of_arrays(self, folder, raw, dtype):
        header, body = forged.opened(raw)
        header["arrays"]["rows"]["dtype"] = dtype
        assert "which no model has" in refusal(folder, forged.sealed(header, body))

    def test_a_pickle_in_place_of_an_array(self, folder, raw):
        header, _ = forged.opened(raw)
        body = pickle.dumps(np.array([Bomb()], dtype=object))
        header["arrays"] = {"rows": {"dtype": "|O", "shape": [1], "order": "C"}}
        assert "which no model has" in refusal(folder, forged.sealed(header, body + bytes(-len(body) % 64)))

    @pytest.mark.parametrize(
        "shape", [[2**40, 4], [2**62, 2**62], [-1, 4], [1.5, 2], [True, 4], [1, 2, 3], 7, None, ["4", 4]]
    )
    def test_shapes_of_arrays(self, folder, raw, shape):
        header, body = forged.opened(raw)
        header["arrays"]["rows"]["shape"] = shape
        tracemalloc.start()
        try:
            refusal(folder, forged.sealed(header, body))
            assert tracemalloc.get_traced_memory()[1] < 2**22
        finally:
            tracemalloc.stop()

    def test_rows_without_columns_can_be_promised_for_nothing(self, folder, raw):
        header, body = forged.opened(raw)
        arrays = forged.arrays_of(header, body)
        arrays["rows"] = np.empty((0, 0))
        text = forged.with_arrays(header, arrays)
        header, body = forged.opened(text)
        header["arrays"]["rows"]["shape"] = [2**40, 0]
        assert "does not describe a model" in refusal(folder, forged.sealed(header, body))

    @pytest.mark.parametrize(
        "name", ["estimator", "parameters", "settings", "ids", "history", "window", "n_iter", "factor"]
    )
    def test_what_is_missing(self, folder, raw, name):
        header, body = forged.opened(raw)
        del header[name]
        assert (
            refusal(folder, forged.sealed(header, body)) == f"does not describe a model: '{name}' is missing"
        )

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("estimator", "SVC"),
            ("estimator", "__import__"),
            ("estimator", "LSSVR"),
            ("estimator", "RLSSVC"),
            ("estimator", "ProximalSVC"),
            ("estimator", None),
            ("parameters", {}),
            ("parameters", None),
            ("parameters.kernel", "callable"),
            ("parameters.kernel", ["rbf"]),
            ("parameters.C", -1.0),
            ("parameters.C", [1.0]),
            ("parameters.solver", "os.system"),
            ("parameters.solver", {"name": "2smo", "options": {"callback": "print"}}),
            ("parameters.solver", {"name": "2smo", "options": {"memory": -1}}),
            ("parameters.class_weight", {"a": 1}),
            ("parameters.random_state", {"a": 1}),
            ("parameters.made_up", 1),
            ("settings", []),
            ("settings.loss", "squared_hinge"),
            ("settings.loss", "made up"),
            ("settings.bias_penalty", -1.0),
            ("settings.kernel", None),
            ("settings.kernel.name", "exec"),
            ("settings.kernel.gamma", 0.0),
            ("settings.kernel.degree", -2),
            ("settings.C", 0.0),
            ("settings.C", "1"),
            ("settings.C", 1e-320),
            ("settings.class_weight", None),
            ("settings.class_weight", [[[1], 2.0]]),
            ("settings.class_weight", [["no", -2.0]]),
            ("settings.proximal", True),
            ("settings.proximal", 0),
            ("settings.solver", "made up"),
            ("settings.max_iter", 0),
            ("n_features", 5),
            ("n_features", "4"),
            ("feature_names", ["a"]),
            ("feature_names", [1, 2, 3, 4]),
            ("sparse", True),
            ("ids", [[1], [2]]),
            ("arrivals", None),
            ("arrivals", 3),
            ("arrivals", "12"),
            ("n_iter", -1),
            ("outcome", "perfect"),
            ("solver", 3),
            ("factor", {"form": "nothing", "jitter": 0.0}),
            ("factor", {"form": "cholesky", "jitter": -1.0}),
            ("factor", {"form": "cholesky"}),
            ("factor", 3),
            ("window", {"size": -1.0}),
            ("window", {"size": "x"}),
            ("window", 3),
            ("preparation", {"features": []}),
            ("preparation", 3),
            ("history", [["train", "2026-01-01T00:00:00+00:00", 3, 3]]),
            ("history", [["run", "2026-01-01T00:00:00+00:00", 12, 12]]),
            ("history", [["train", "yesterday", 12, 12]]),
            ("history", {}),
        ],
    )
    def test_what_makes_no_sense(self, folder, raw, name, value):
        header, body = forged.opened(raw)
        *way, last = name.split(".")
        place = header
        for step in way:
            place = place[step]
        place[last] = value
        if name == "arrivals" and value is None:
            # Own ids instead of arrival numbers are a model as well.
            (folder / "a.model").write_bytes(forged.sealed(header, body))
            assert squaresvm.load(folder / "a.model").ids_.size == 12
            return
        assert "does not describe a model" in refusal(folder, forged.sealed(header, body))


class TestArrays:
    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("rows", lambda a: np.where(np.eye(*a.shape) == 1, np.nan, a)),
            ("rows", lambda a: a.astype(np.int64)),
            ("rows", lambda a: a[:-1]),
            ("rows", lambda a: a.ravel()),
            ("y", lambda a: a[:-1]),
            ("y", lambda a: a[:0]),
            ("y", lambda a: np.array(["same"] * a.size)),
            ("y", lambda a: a.reshape(-1, 1)),
            ("weights", lambda a: -a),
            ("weights", lambda a: 0.0 * a),
            ("weights", lambda a: a.astype(np.float32)),
            ("weights", lambda a: a * 1e-320),
            ("ids", lambda a: a[::-1].copy()),
            ("ids", lambda a: 0 * a),
            ("ids", lambda a: a - 1),
            ("ids", lambda a: a.astype(float)),
            ("beta", lambda a: a[:-1]),
            ("beta", lambda a: np.hstack([a, a])),
            ("beta", lambda a: a + np.inf),
            ("bias", lambda a: np.append(a, a)),
            ("above", lambda a: a[:1]),
            ("factor", lambda a: a[:-1]),
            ("factor", lambda a: -a),
        ],
    )
    def test_what_does_not_fit(self, folder, raw, name, change):
        header, body = forged.opened(raw)
        arrays = forged.arrays_of(header, body)
        with np.errstate(all="ignore"):
            arrays[name] = change(arrays[name])
        text = refusal(folder, forged.with_arrays(header, arrays))
        assert text.startswith(("does not describe a model", "holds NaN or infinity"))

    @pytest.mark.parametrize("name", ["rows", "y", "weights", "ids", "beta", "bias", "below", "factor"])
    def test_what_is_missing(self, folder, raw, name):
        header, body = forged.opened(raw)
        arrays = forged.arrays_of(header, body)
        del arrays[name]
        assert "does not describe a model" in refusal(folder, forged.with_arrays(header, arrays))

    @pytest.mark.parametrize(
        ("name", "change"),
        [
            ("indptr", lambda a: a[::-1].copy()),
            ("indptr", lambda a: a + 1),
            ("indptr", lambda a: a[:-1]),
            ("indptr", lambda a: a * 10**6),
            ("indices", lambda a: a + 100),
            ("indices", lambda a: a - 1),
            ("indices", lambda a: 0 * a),
            ("indices", lambda a: a[:-1]),
            ("indices", lambda a: a.astype(float)),
            ("data", lambda a: a[:-1]),
        ],
    )
    def test_sparse_rows(self, folder, name, change):
        header, body = forged.opened(forged.model_bytes(folder, sparse=True))
        arrays = forged.arrays_of(header, body)
        arrays[name] = change(arrays[name])
        assert "does not describe a model" in refusal(folder, forged.with_arrays(header, arrays))

    def test_sparse_rows_of_many_columns_cost_nothing(self, folder):
        header, body = forged.opened(forged.model_bytes(folder, sparse=True))
        for columns in (2**31, 2**40, 2**63):
            header["n_features"] = columns
            assert "does not describe a model" in refusal(folder, forged.sealed(header, body))

    def test_precomputed_kernel(self, folder):
        X = np.random.default_rng(0).normal(size=(8, 2))
        path = folder / "kernel.model"
        squaresvm.save(LSSVC(kernel="precomputed").fit(X @ X.T, np.arange(8) % 2), path)
        header, body = forged.opened(path.read_bytes())
        for change in (lambda a: a[:-1], lambda a: a[:-1, :-1].copy(), lambda a: np.triu(a)):
            arrays = forged.arrays_of(header, body)
            arrays["kernel_matrix"] = change(arrays["kernel_matrix"])
            assert "does not describe a model" in refusal(folder, forged.with_arrays(header, arrays))

    def test_text_and_flags_that_are_none(self, folder, raw):
        header, body = forged.opened(raw)
        arrays = forged.arrays_of(header, body)
        wide = arrays["y"].view(np.uint32).copy()
        wide[0] = 0xFFFFFFFF
        assert "no text" in refusal(folder, forged.with_arrays(header, {**arrays, "y": wide.view("<U3")}))
        flags = (np.arange(12) % 2 * 7).astype(np.uint8).view(bool)
        assert "true and false" in refusal(folder, forged.with_arrays(header, {**arrays, "y": flags}))


@pytest.fixture(scope="module")
def originals(folder):
    """Bytes of several kinds of models."""
    kinds = [
        forged.model_bytes(folder, sparse=True),
        forged.model_bytes(folder, factor=True, ids=[f"row {i}" for i in range(12)]),
        forged.model_bytes(folder, estimator=ProximalSVC()),
        forged.model_bytes(folder, estimator=LSSVC(kernel="linear")),
    ]
    squaresvm.save(squaresvm.Window(LSSVR(), 3).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0]), folder / "w")
    return [*kinds, (folder / "w").read_bytes(), *forged.other_kinds(folder).values()]


def load_or_refuse(path, raw):
    """Return whether a file is refused; a model that is not must work."""
    path.write_bytes(raw)
    try:
        model = squaresvm.load(path)
    except ModelFileError as error:
        return len(str(error).splitlines()) == 1
    assert isinstance(model, squaresvm.Nystrom) or rows_held(getattr(model, "estimator_", model)) >= 1
    return False


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text("a/.\u00e9\n", max_size=5)
)


class TestFuzz:
    """More of this is in benchmarks/fuzz_files.py."""

    @given(data=st.data())
    def test_bytes_changed(self, folder, originals, data):
        raw = bytearray(data.draw(st.sampled_from(originals)))
        for place in data.draw(st.lists(st.integers(0, len(raw) - 1), min_size=1, max_size=4, unique=True)):
            raw[place] ^= data.draw(st.integers(1, 255))
        assert load_or_refuse(folder / "f.model", bytes(raw))

    @given(data=st.data())
    def test_pieces_of_two(self, folder, originals, data):
        a, b = (data.draw(st.sampled_from(originals)) for _ in range(2))
        i, j = data.draw(st.integers(0, len(a))), data.draw(st.integers(0, len(b)))
        spliced = a[:i] + b[j:]
        assert load_or_refuse(folder / "f.model", spliced) or spliced in originals

    @given(
        which=st.integers(0, 99), where=st.integers(0, 9999), value=SCALARS | st.lists(SCALARS, max_size=3)
    )
    def test_headers_changed_and_sealed(self, folder, originals, which, where, value):
        header, body = forged.opened(originals[which % len(originals)])
        places = forged.places(header)
        inside, key = places[where % len(places)]
        inside[key] = value
        load_or_refuse(folder / "f.model", forged.sealed(header, body))
