"""Readers of LIBSVM text, CSV and Parquet, and the preparation of columns."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from squaresvm.readers import SparseRows, Table, TableError, read
from squaresvm.readers.preparation import Preparation
from squaresvm.readers.text import csv_blocks

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

CSV = "age,town,label\n20,Ulm,a\n40,Bonn,b\n30,Ulm,a\n"


@pytest.fixture
def put(tmp_path):
    """A function that writes a file and returns its path."""

    def write(content, name="data"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def refused(path):
    with pytest.raises(TableError) as caught:
        read(path)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert text.startswith(str(path))
    return text.removeprefix(str(path)).removeprefix(", ").removeprefix(": ")


class TestLibsvm:
    @pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
    def test_as_scikit_learn_reads_it(self, put, pack, tmp_path):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(30, 7)) * (rng.random((30, 7)) < 0.4)
        X[3], X[4, 6] = 0.0, 1.5
        y = rng.integers(-1, 3, size=30)
        dump_svmlight_file(X, y, str(tmp_path / "plain"), zero_based=False)
        rows = read(put(pack((tmp_path / "plain").read_bytes())))
        theirs, labels = load_svmlight_file(str(tmp_path / "plain"), zero_based=False)
        assert isinstance(rows, SparseRows)
        assert np.array_equal(rows.X.toarray(), theirs.toarray())
        assert np.array_equal(rows.y, labels.astype(int))
        assert rows.y.dtype == np.int64

    def test_habits(self, put):
        rows = read(put("+1 1:.5  3:-2e0 # a comment 4:1\r\n\n-1\n+1 2:1\n"))
        assert rows.X.toarray().tolist() == [[0.5, 0, -2], [0, 0, 0], [0, 1, 0]]
        assert rows.y.tolist() == [1, -1, 1]
        assert read(put("1.5 1:1\n2 1:3\n")).y.tolist() == [1.5, 2.0]

    @pytest.mark.parametrize(
        "start",
        ["# a comment\n", "#\n\n  # 1,2,3\n", "\ufeff", "\ufeff# a, b\n", "# " + "x" * 200_000 + "\n"],
        ids=["comment", "comments", "mark", "mark and comment", "long comment"],
    )
    def test_what_may_stand_before_the_first_row(self, put, start):
        rows = read(put(start + "1 qid:7 1:2 3:4\n-1 qid:8 2:1\n"))
        assert rows.X.toarray().tolist() == [[2, 0, 4], [0, 1, 0]]
        assert rows.y.tolist() == [1, -1]

    def test_blocks_make_one_table(self, put, monkeypatch):
        monkeypatch.setattr("squaresvm.readers.text._TEXT_BYTES", 64)
        lines = [f"{1 - 2 * (i % 2)} {i % 5 + 1}:{i}.5 {i % 5 + 2}:-1" for i in range(200)]
        rows = read(put("\n".join(lines)))
        assert rows.X.shape == (200, 6)
        assert rows.X[137].toarray().tolist() == [[0, 0, 137.5, -1, 0, 0]]
        with pytest.raises(TableError, match="line 151: 'x' is not index:value"):
            read(put("\n".join([*lines[:150], "1 x", *lines[150:]])))

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("1 1:1\n1 x:1\n", "line 2: 'x:1' is not index:value"),
            ("1 1:1\n1 2\n", "line 2: '2' is not index:value"),
            ("1 1:1\n1 0:1\n", "line 2: the index of '0:1' is 0, but indices count from 1"),
            (
                "1 1:1\n1 99999999999999:1\n",
                "line 2: the index of '99999999999999:1' is beyond the largest, 67108864",
            ),
            ("1 1:1\n1 67108865:1\n", "line 2: the index of '67108865:1' is beyond the largest, 67108864"),
            ("1 1:1\n1 2:1 2:2\n", "line 2: the index of '2:2' is not larger than the one before it"),
            ("1 1:1\n1 3:1 2:2\n", "line 2: the index of '2:2' is not larger than the one before it"),
            ("1 1:1\n1 3:x\n", "line 2: the value of '3:x' is not a finite number"),
            ("1 1:1\n1 3:nan\n", "line 2: the value of '3:nan' is not a finite number"),
            ("1 1:1\n1 3:1e999\n", "line 2: '1e999' is too large"),
            ("1 1:1\ninf 3:1\n", "line 2: the label 'inf' is not a number"),
            ("1 1:1\nyes 3:1\n", "line 2: the label 'yes' is not a number"),
            ("# a\n\n1 1:1 x\n", "line 3: 'x' is not index:value"),
        ],
    )
    def test_what_is_wrong_and_where(self, put, text, words):
        assert refused(put(text)).startswith(words)


class TestCsv:
    @pytest.mark.parametrize("mark", [",", ";", "\t"])
    def test_delimiters_and_marks(self, put, mark):
        table = read(put("\ufeff" + CSV.replace(",", mark)))
        assert list(table.columns) == ["age", "town", "label"]
        assert table.columns["age"].numbers().tolist() == [20, 40, 30]
        assert table.columns["town"].numbers() is None

    def test_cells_with_everything(self, put):
        table = read(put('"a b",c\n"1,5 ""x""\nsecond line", NA\n\n2,?\n'))
        assert table.columns["a b"].texts() == ['1,5 "x"\nsecond line', "2"]
        assert table.columns["c"].missing.all()
        assert list(table.lines) == [2, 5]

    @pytest.mark.parametrize("cell", ["NAN", "-nan", "Nan", "+NaN", "nan", "NA", "?", ""])
    def test_what_stands_for_nothing(self, put, cell):
        column = read(put(f"a,b\n1,x\n{cell},y\n")).columns["a"]
        assert column.missing.tolist() == [False, True]

    def test_underscores_make_no_number(self, put):
        column = read(put("a,b\n1_0,x\n2,y\n")).columns["a"]
        assert column.numbers() is None
        assert column.integers() is None
        assert column.first_text() == 0

    def test_blocks_make_one_table(self, put):
        path = put("a,b\n" + "".join(f'{i},"x\n{i}"\n' for i in range(10)))
        with path.open("rb") as file:
            blocks = list(csv_blocks(path, file, block_rows=4))
        assert [len(block.lines) for block in blocks] == [4, 4, 2]
        assert blocks[1].lines == [10, 12, 14, 16]
        assert blocks[2].columns["a"] == ["8", "9"]
        assert list(read(path).lines) == list(range(2, 22, 2))

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "is empty"),
            ("\n \n", "is empty"),
            ("a,b\n", "holds a header and no rows"),
            ("a\n1\n", "line 1: names one column only"),
            ("1,2\n3,4\n", "line 1: looks like a row and not like names, because it holds the number '1'"),
            (
                "a,1.5\n3,4\n",
                "line 1: looks like a row and not like names, because it holds the number '1.5'",
            ),
            ("a,a\n3,4\n", "line 1: two columns have the name 'a': rename one of them"),
            ("a,b\n3,4\n5\n", "line 3: has 1 cell, and the first line names 2 columns; remove lines above"),
            ('a,b\n3,4\n"5,6\n', "line 3: is not CSV"),
            ("a,b\n3,4\n5,\0\n", "line 3: is not text: it holds a zero byte"),
            (b"a,b\n3,\xff\n", "line 2: is not text in UTF-8"),
            (b"\x00\x01\x02\x03" * 100, "line 1: is not text: it holds a zero byte"),
            (b"\x1f\x8bnonsense", "is damaged: gzip cannot unpack it"),
            (gzip.compress(CSV.encode(), mtime=0)[:-9], "is damaged: gzip cannot unpack it"),
            (b"PAR1 and no more", "is not a Parquet file that can be read"),
            (b"a,b\n" + b"1" * (10 * 2**20) + b",2\n", "line 2: is longer than 8 MB"),
            (b"x" * (10 * 2**20), "line 1: is longer than 8 MB"),
            (b"a,b\n" + b"1" * (2**20) + b",2\n", "line 2: is not CSV: a cell is too long"),
        ],
    )
    def test_what_is_wrong_and_where(self, put, text, words):
        assert refused(put(text)).startswith(words)

    def test_no_regular_file(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "nothing")
        with pytest.raises(IsADirectoryError):
            read(tmp_path)
        assert "regular" in refused("/dev/null")


class TestParquet:
    def table(self, tmp_path, name="t.parquet", pack=None, **columns):
        path = tmp_path / name
        parquet.write_table(pyarrow.table(columns), path)
        if pack is not None:
            path.write_bytes(pack(path.read_bytes()))
        return path

    @pytest.mark.parametrize("pack", [None, gzip.compress])
    def test_kinds_of_columns(self, tmp_path, pack):
        path = self.table(
            tmp_path,
            pack=pack,
            whole=pyarrow.array([1, None, 3]),
            real=pyarrow.array([0.5, 1.5, float("nan")], pyarrow.float32()),
            flag=pyarrow.array([True, False, None]),
            text=pyarrow.array(["x", None, " y "]),
            coded=pyarrow.array(["x", "y", "x"]).dictionary_encode(),
            nothing=pyarrow.nulls(3),
        )
        table = read(path)
        assert isinstance(table, Table)
        columns = table.columns
        assert np.array_equal(columns["whole"].numbers(), [1, np.nan, 3], equal_nan=True)
        assert np.array_equal(columns["real"].numbers(), [0.5, 1.5, np.nan], equal_nan=True)
        assert np.array_equal(columns["flag"].numbers(), [1, 0, np.nan], equal_nan=True)
        assert columns["text"].texts() == ["x", "", "y"]
        assert columns["coded"].texts() == ["x", "y", "x"]
        assert columns["nothing"].missing.all()
        assert str(table.error(1, "what")) == f"{path}, row 1: what"

    @pytest.mark.parametrize("kind", ["int64", "uint64", "decimal"])
    def test_whole_numbers_beyond_the_digits_of_a_float(self, tmp_path, kind):
        large = 2**53 + 1
        arrow = pyarrow.decimal128(30, 2) if kind == "decimal" else kind
        column = pyarrow.array([large, None, large + 1, 7], arrow)
        cells = read(self.table(tmp_path, id=column, x=[1.0, 2.0, 3.0, 4.0])).columns["id"]
        assert cells.texts() == [str(large), "", str(large + 1), "7"]
        assert cells.missing.tolist() == [False, True, False, False]
        assert np.array_equal(cells.numbers(), [2.0**53, np.nan, 2.0**53 + 2, 7], equal_nan=True)
        whole = pyarrow.array([large, -large], "int64")
        integers = read(self.table(tmp_path, id=whole, x=[1, 2])).columns["id"].integers()
        assert integers.tolist() == [large, -large]

    def test_text_that_is_none(self, tmp_path):
        strange = pyarrow.array([b"a", b"\xf0"]).cast(pyarrow.string(), safe=False)
        path = self.table(tmp_path, a=[1, 2], b=strange)
        with pytest.raises(TableError, match="column 'b' holds text that is not UTF-8"):
            read(path)

    def test_what_cannot_be_used(self, tmp_path):
        assert "column 'd' is of type list" in refused(self.table(tmp_path, a=[1], d=[[1, 2]]))
        assert "no rows" in refused(self.table(tmp_path, a=pyarrow.array([], "int8"), b=pyarrow.nulls(0)))
        assert "fewer than two columns" in refused(self.table(tmp_path, a=[1]))

    def test_cut_short(self, tmp_path):
        path = self.table(tmp_path, a=list(range(100)), b=list(range(100)))
        raw = path.read_bytes()
        for length in range(4, len(raw), 37):
            path.write_bytes(raw[:length])
            assert "is not a Parquet file that can be read" in refused(path)


class TestPreparation:
    def table(self, put, text=CSV):
        return read(put(text))

    def test_as_scikit_learn_prepares_it(self, put):
        rng = np.random.default_rng(0)
        numbers, towns = rng.normal(3, 2, size=(50, 2)), rng.choice(["Ulm", "Bonn", "Rom"], size=50)
        lines = [f"{a!r},{t},{b!r},y" for (a, b), t in zip(numbers.tolist(), towns, strict=True)]
        table = read(put("a,town,b,label\n" + "\n".join(lines)))
        rows = Preparation.of(table, label="label").rows(table)
        scaled = StandardScaler().fit_transform(numbers)
        coded = OneHotEncoder(sparse_output=False).fit_transform(towns[:, None])
        assert np.allclose(rows, np.column_stack([scaled[:, 0], coded, scaled[:, 1]]), atol=1e-13)

    def test_options(self, put):
        table = self.table(put)
        plain = Preparation.of(table, label="label", scale=False, drop=["town"])
        assert plain.rows(table).ravel().tolist() == [20, 40, 30]
        coded = Preparation.of(table, label="town", categories=["age"], drop=["label"])
        assert coded.feature_names == ["age=20", "age=30", "age=40"]

    def test_constant_column(self, put):
        table = self.table(put, "a,b,label\n0.1,1,x\n0.1,2,y\n0.1,4,x\n")
        assert Preparation.of(table, label="label").rows(table)[:, 0].tolist() == [0, 0, 0]

    def test_missing(self, put):
        table = self.table(put, "age,town,label\n20,Ulm,a\n,Bonn,b\n40,,a\n")
        with pytest.raises(TableError, match=r"line 3: column 'age' holds no value; --missing mean"):
            Preparation.of(table, label="label")
        prepared = Preparation.of(table, label="label", missing="mean")
        assert prepared.rows(table)[1].tolist() == [0, 1, 0]
        assert prepared.rows(table)[2, 1:].tolist() == [0, 0]
        unscaled = Preparation.of(table, label="label", missing="mean", scale=False)
        assert unscaled.rows(table)[1, 0] == 30

    @pytest.mark.parametrize(
        ("text", "options", "words"),
        [
            (CSV, {"label": "x"}, "there is no label column 'x'; there are age, town, label"),
            (CSV, {"label": "label", "id": "x"}, "there is no id column 'x'"),
            (CSV, {"label": "label", "weight": "x"}, "there is no weight column 'x'"),
            (CSV, {"label": "label", "drop": ["x"]}, "there is no column 'x'"),
            (CSV, {"label": "label", "drop": ["age", "town"]}, "no column beside the label"),
            ("a,l\n1,x\nb,y\n", {"label": "l"}, "line 3: column 'a' is mixed: 'b' is not a number"),
            ("a,l\nb,x\n1,y\n", {"label": "l"}, "line 2: column 'a' is mixed: 'b' is not a number"),
            ("a,l\n1,x\ninf,y\n", {"label": "l"}, "line 3: column 'a' holds 'inf', which is not finite"),
            ("a,l\n1e308,x\n-1e308,y\n", {"label": "l"}, "column 'a' holds numbers too large"),
            ("a,l\n,x\n,y\n", {"label": "l"}, "no column beside the label to learn from"),
        ],
    )
    def test_what_is_wrong_and_where(self, put, text, options, words):
        table = self.table(put, text)
        with pytest.raises(TableError) as caught:
            Preparation.of(table, **options)
        assert words in str(caught.value)

    def test_applied_to_other_tables(self, put):
        prepared = Preparation.of(self.table(put), label="label")
        other = self.table(put, "town,age,more\nRom,30,1\nUlm,40,2\n")
        assert prepared.rows(other)[0].tolist() == [0, 0, 0]
        assert prepared.unknown_levels(other) == [("town", "Rom")]
        with pytest.raises(TableError, match="line 2: column 'age' holds 'x', which is not a number"):
            prepared.rows(self.table(put, "age,town\nx,Ulm\n"))
        with pytest.raises(TableError, match="there is no column 'town'"):
            prepared.rows(self.table(put, "age,city\n1,Ulm\n"))

    def test_levels_come_and_go(self, put):
        table = self.table(put)
        prepared = Preparation.of(table, label="label")
        wider, sources = prepared.with_levels([("town", "Rom")])
        assert wider.feature_names == ["age", "town=Bonn", "town=Ulm", "town=Rom"]
        assert sources.tolist() == [0, 1, 2, -1]
        back, kept = wider.without_unused_levels(wider.rows(table))
        assert back == prepared
        assert kept.tolist() == [0, 1, 2]
        assert Preparation.from_json(wider.to_json()) == wider


@given(st.binary(max_size=200) | st.text(",;:\t\n\"' a1.-e#\u00e9", max_size=200).map(str.encode))
def test_readers_refuse_in_one_line_or_read(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "fuzz"
    path.write_bytes(content)
    try:
        table = read(path)
    except TableError as error:
        said = str(error)
        assert len(said.splitlines()) == 1
        return
    if isinstance(table, SparseRows):
        assert table.X.shape[0] == table.y.size > 0
    else:
        assert {column.cells.size for column in table.columns.values()} == {table.count}
