"""LIBSVM text that is wrong says where; what it may hold is read."""

from __future__ import annotations

import gzip
import threading

import numpy as np
import pytest
import scipy.sparse as sp

from squaresvm.streaming import LibsvmSource


def read(source):
    list(source.map(lambda block: block.rows))


@pytest.fixture(autouse=True)
def no_threads_left():
    before = set(threading.enumerate())
    yield
    left = set(threading.enumerate()) - before
    assert not [thread for thread in left if thread.name.startswith("squaresvm")]


def svm(folder, text, **options):
    path = folder / "bad.svm"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return LibsvmSource(path, **options)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 0x3:1", "'0x3:1' is not index:value"),
        ("1 -2:1", "'-2:1' is not index:value"),
        ("1 2.5:1", "'2.5:1' is not index:value"),
        ("1 :1", "':1' is not index:value"),
        ("1 7", "'7' is not index:value"),
        ("1 qid7", "'qid7' is not index:value"),
        ("1 2:1 2:1", "index of '2:1' is not larger"),
        ("1 3:1 2:1", "index of '2:1' is not larger"),
        ("1 5:1", "index of '5:1' is beyond the largest, 4"),
        ("1 99999999999999999999:1", "beyond the largest"),
        ("1 0:1", "index of '0:1' is 0"),
        ("1 2:", "value of '2:' is not a finite number"),
        ("1 2:abc", "value of '2:abc' is not a finite number"),
        ("1 2:nan", "value of '2:nan' is not a finite number"),
        ("1 2:1e", "not a finite number"),
        ("1 2:1.2.3", "not a finite number"),
        ("1 2:1_0", "not a finite number"),
        ("1 2:1e999", "'1e999' is too large"),
        ("1e999 2:1", "'1e999' is too large"),
        ("2:1 3:1", "the label is missing before '2:1'"),
        ("yes 2:1", "the label 'yes' is not a number"),
        ("1,2 2:1", "the label '1,2' is not a number"),
        ("nan 2:1", "the label 'nan' is not a number"),
    ],
)
@pytest.mark.parametrize("block_rows", [2, None])
def test_a_bad_line_of_libsvm_text(line, message, block_rows, tmp_path):
    text = "1 1:1\n# comment\n-1 2:1\n\n1 3:1\n" + line + "\n1 1:1\n"
    source = svm(tmp_path, text, n_features=4, zero_based=False, block_rows=block_rows)
    with pytest.raises(ValueError, match=rf"bad\.svm, line 6: .*{message}"):
        read(source)


def test_what_libsvm_text_may_hold(tmp_path):
    text = "\t+1 qid:3 1:-0 3:1E+2\t4:.5 # 9:9\r\n\n   # nothing\n-1\n"
    text += "2. 2:00012.50e-1#x\n3 4:123456789012345678901234567890"
    for options in ({}, {"block_rows": 1}, {"zero_based": False}):
        source = svm(tmp_path, text, **options)
        blocks = list(source.map(lambda block: block))
        found = sp.vstack([block.X for block in blocks]).toarray()
        expected = [
            [-0.0, 0, 100, 0.5],
            [0, 0, 0, 0],
            [0, 1.25, 0, 0],
            [0, 0, 0, 123456789012345678901234567890.0],
        ]
        np.testing.assert_array_equal(found, expected)
        assert np.concatenate([block.y for block in blocks]).tolist() == [1.0, -1.0, 2.0, 3.0]
        assert (source.n_rows, source.n_features) == (4, 4)


def test_indices_from_zero(tmp_path):
    (block,) = svm(tmp_path, "1 1:1\n1 0:2 3:1\n").map(lambda block: block)
    assert block.X.toarray().tolist() == [[0, 1, 0, 0], [2, 0, 0, 1]]
    (block,) = svm(tmp_path, "1 1:1\n", zero_based=True, n_features=3).map(lambda block: block)
    assert block.X.toarray().tolist() == [[0, 1, 0]]


def test_numbers_are_rounded_as_python_rounds_them(tmp_path):
    rng = np.random.default_rng(3)
    texts = [repr(float(value)) for value in rng.normal(size=3000) * 10.0 ** rng.integers(-25, 25, 3000)]
    texts += [f"{rng.integers(10**18)}e{power}" for power in range(-22, 23) for _ in range(40)]
    # Half-way between two floats, where a guess goes wrong.
    texts += [f"{2**53 + odd}{zeros}" for odd in range(1, 40, 2) for zeros in ("", "0", "e3")]
    texts += [f"{odd * 2**k + 2 ** (k - 1)}" for odd in (2**52 + 1, 2**52 + 7) for k in range(1, 7)]
    path = tmp_path / "numbers.svm"
    path.write_text("".join(f"1 1:{text}\n" for text in texts))
    (block,) = LibsvmSource(path, n_features=1, zero_based=False).map(lambda block: block)
    assert block.X.data.tolist() == [float(text) for text in texts]


def test_libsvm_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file"):
        LibsvmSource(tmp_path / "none.svm")
    with pytest.raises(ValueError, match=r"bad\.svm: is empty"):
        read(svm(tmp_path, ""))
    with pytest.raises(ValueError, match=r"bad\.svm has no rows"):
        read(svm(tmp_path, "# nothing\n\n"))
    with pytest.raises(ValueError, match="no features: give n_features"):
        read(svm(tmp_path, "1\n-1\n"))
    packed = gzip.compress(b"1 1:1\n" * 10_000)
    with pytest.raises(ValueError, match=r"bad\.svm: is damaged: gzip cannot unpack it"):
        read(svm(tmp_path, packed[:-20]))
    with pytest.raises(ValueError, match="zero_based"):
        svm(tmp_path, "1 1:1\n", zero_based="no")


def test_a_libsvm_file_that_changes_between_passes(tmp_path):
    source = svm(tmp_path, "1 1:1\n1 2:1\n")
    read(source)
    (tmp_path / "bad.svm").write_text("1 1:1\n")
    with pytest.raises(ValueError, match="gave 1 rows in this pass and 2 before"):
        read(source)
