"""Numbers and dates as people write them, and what each column is taken for."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from squaresvm.readers import TableError, read
from squaresvm.readers.notation import PLAIN, AmbiguousError, Notation, guess_date, guess_number
from squaresvm.readers.plan import Wishes, plan_columns
from squaresvm.readers.preparation import Preparation


@pytest.fixture
def put(tmp_path):
    def write(text, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


amounts = st.lists(st.floats(1.0, 9e8).map(lambda value: round(value, 2)), min_size=3, max_size=20)


def written(value, decimal, thousands):
    text = f"{value:,.2f}"
    return text.translate({ord(","): thousands, ord("."): decimal})


class TestNumbers:
    @given(amounts, st.sampled_from([(".", ","), (",", "."), (",", " "), (".", "'"), (",", "")]))
    def test_what_was_written_is_read(self, values, marks):
        cells = [written(value, *marks) for value in values]
        notation = Notation(*marks)
        np.testing.assert_allclose(notation.numbers(cells), values, rtol=1e-15)
        try:
            guessed = guess_number(cells)
        except AmbiguousError:
            return
        np.testing.assert_allclose(guessed.numbers(cells), values, rtol=1e-15)

    @pytest.mark.parametrize(
        ("cells", "values"),
        [
            (["1,5", "2,25"], [1.5, 2.25]),
            (["€ 12", "3,50 €"], [12.0, 3.5]),
            (["$1,200.50", "-$80"], [1200.5, -80.0]),
            (["CHF 1'200.50", "80 CHF"], [1200.5, 80.0]),
            (["1\u00a0200,5 kr", "3 kr"], [1200.5, 3.0]),
            (["12 %", "3.5%"], [12.0, 3.5]),
            (["1.234.567", "12"], [1234567.0, 12.0]),
            (["\u22125,5", "1e3"], [-5.5, 1000.0]),
        ],
    )
    def test_habits(self, cells, values):
        assert guess_number(cells).numbers(cells).tolist() == values

    @pytest.mark.parametrize("cells", [["1,234"], ["1,234", "12,500"]])
    def test_what_can_be_read_in_two_ways_is_not_guessed(self, cells):
        with pytest.raises(AmbiguousError, match=r"can be read as 1\.234 or as 1234"):
            guess_number(cells)
        assert guess_number(cells, decimal=",").number("1,234") == 1.234
        assert guess_number(cells, decimal=".").number("1,234") == 1234.0

    @pytest.mark.parametrize(
        "cells", [["€1", "$2"], ["red", "5"], ["5 kg", "3 kg"], ["1,2,3", "4"], ["1_0,5"]]
    )
    def test_what_is_no_number(self, cells):
        assert guess_number(cells) is None

    def test_any_unit_where_it_was_asked_for(self):
        cells = ["5 kg", "3.5 kg"]
        assert guess_number(cells, any_unit=True).numbers(cells).tolist() == [5.0, 3.5]
        assert guess_number(["5 kg", "3 g"], any_unit=True) is None

    def test_json(self):
        for notation in (PLAIN, Notation(",", ".", "€"), Notation(date="%d.%m.%Y")):
            assert Notation.from_json(notation.to_json()) == notation
        for bad in ([], {"decimal": 1}, {"decimal": ";"}, {"thousands": "."}, {"more": "x"}):
            with pytest.raises(ValueError, match="column"):
                Notation.from_json(bad)


class TestDates:
    @given(
        st.lists(st.dates(date(1950, 1, 1), date(2060, 1, 1)), min_size=30, max_size=40),
        st.sampled_from(["%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d %b %Y", "%Y/%m/%d"]),
    )
    def test_what_was_written_is_read(self, days, form):
        cells = [day.strftime(form) for day in days]
        try:
            found = guess_date(cells)
        except AmbiguousError:
            assert form in ("%d/%m/%Y", "%m/%d/%Y")
            found = Notation(date=form)
        assert [timedelta(each) for each in found.numbers(cells)] == [day - date(1970, 1, 1) for day in days]

    def test_two_ways(self):
        with pytest.raises(AmbiguousError, match=r"2024-04-03 .* or as 2024-03-04"):
            guess_date(["03/04/2024", "05/06/2024"])
        assert guess_date(["03/04/2024", "25/06/2024"]).date == "%d/%m/%Y"

    def test_times_and_zones(self):
        assert Notation(date="iso").number("1970-01-02T12:00:00+12:00") == 1.0
        assert guess_date(["01.02.2024 10:30", "03.02.2024 06:00"]).number("02.01.1970 12:00") == 1.5
        assert guess_date(["20240131"]) is None
        assert guess_date(["Ulm", "Bonn"]) is None


class TestPlan:
    def kinds(self, path, **wishes):
        return {plan.name: plan.kind for plan in plan_columns(read(path), Wishes("label", **wishes))[1]}

    def test_what_columns_are_taken_for(self, put):
        rows = [
            f"{i},2024-01-{i % 28 + 1:02d},{i % 7 + 1},{i % 5}5 €,0{i % 3}1,{'ab'[i % 2]},," + "xy"[i % 2]
            for i in range(40)
        ]
        path = put("n,day,k,price,zip,kind,void,label\n" + "\n".join(rows))
        kinds = self.kinds(path)
        assert kinds == {
            "n": "number",
            "day": "date",
            "k": "number",
            "price": "number",
            "zip": "category",
            "kind": "category",
            "void": "left out",
            "label": "label",
        }
        assert self.kinds(path, categories=["k"], drop=["n"])["k"] == "category"
        plans = {plan.name: plan for plan in plan_columns(read(path), Wishes("label"))[1]}
        assert plans["n"].note.startswith("counts the rows")
        assert plans["price"].detail == "5 to 45 (unit €)"
        assert plans["day"].detail.startswith("2024-01-01 to 2024-01-28")
        prepared = Preparation.of(read(path), label="label")
        assert Preparation.from_json(prepared.to_json()) == prepared

    @pytest.mark.parametrize(
        ("cell", "words"),
        [
            (lambda i: f"Mr {i} Smith", "holds 30 different words in 30 rows.*--drop.*--id.*--category"),
            (lambda i: f"0{i:03d}", "holds 30 different codes with leading zeros"),
            (lambda i: f"{i % 9 + 1},{i % 9 + 100}", "can be read as 1.1 or as 1100; say which by --decimal"),
            (lambda i: f"0{i % 9 + 1}/04/2024", "can be read as .*; say which by --date 'odd=%d/%m/%Y'"),
            (lambda i: "oops" if i == 4 else str(i), "line 6: column 'odd' is mixed: 'oops'"),
        ],
    )
    def test_where_it_asks(self, put, cell, words):
        path = put("odd;label\n" + "\n".join(f"{cell(i)};{'xy'[i % 2]}" for i in range(30)))
        with pytest.raises(TableError, match=words):
            plan_columns(read(path), Wishes("label"))
        assert self.kinds(path, drop=[], categories=["odd"])["odd"] == "category"

    def test_new_rows_in_the_notation_of_the_training(self, put):
        table = read(put("price;label\n1,50 €;a\n2,50 €;b\n"))
        prepared = Preparation.of(table, label="label")
        again = prepared.rows(read(put("price;x\n2 €;1\n", "u.csv")))
        assert again.tolist() == [[0.0]]
        with pytest.raises(TableError, match=r"'3\.5 \$', which is not a number \(decimal ',', unit €\)"):
            prepared.rows(read(put("price;x\n3.5 $;1\n", "u.csv")))


class TestFiles:
    def test_no_names(self, put):
        path = put("5.1,3.5,setosa\n4.9,3.0,setosa\n")
        with pytest.raises(TableError, match=r"line 1: looks like a row .*'5\.1'.*--no-header"):
            read(path)
        assert list(read(path, header=False).columns) == ["column_1", "column_2", "column_3"]
        assert read(path, header=False).count == 2
        assert read(path, header=True).count == 1
        years = put("town,2019,2020\nUlm,1,2\n")
        assert list(read(years).columns) == ["town", "2019", "2020"]

    def test_an_index_without_a_name(self, put):
        assert list(read(put(",a,b\n0,1,2\n")).columns) == ["column_1", "a", "b"]

    @pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-16"])
    def test_encodings(self, put, encoding):
        path = put("größe,ort\n1,Köln\n".encode(encoding))
        assert read(path, encoding=encoding).columns["ort"].texts() == ["Köln"]
        with pytest.raises(TableError):
            read(path)

    def test_encodings_that_are_none(self, put):
        with pytest.raises(TableError, match="there is no encoding 'x-klingon'"):
            read(put("a,b\n1,2\n"), encoding="x-klingon")
        with pytest.raises(TableError, match="is not text in ascii"):
            read(put("a,b\n1,ö\n"), encoding="ascii")

    @pytest.mark.parametrize("cell", ["n/a", "NULL", "#N/A", "<NA>"])
    def test_what_stands_for_nothing(self, put, cell):
        assert read(put(f"a,b\n{cell},1\n")).columns["a"].missing.all()
