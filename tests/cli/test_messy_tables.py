"""Messy tables through train, evaluate, predict, learn, forget and inspect."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from support.commands import run, told


@dataclass
class Messy:
    """A table: a line for a hidden number z in (-1, 1) and a row number, options, and what must come of it.

    `line` ends in the label, which is `one` where z > 0 and `other` elsewhere, or a value close to z.
    """

    header: str
    line: object
    plan: dict[str, str]
    options: list[str] = field(default_factory=list)
    encoding: str = "utf-8"
    regression: bool = False


def day(z, i):
    return date(2020, 6, 1) + timedelta(days=int(300 * z))


def german(value):
    return f"{value:,.2f}".translate({ord(","): ".", ord("."): ","})


TABLES = {
    "a German export": Messy(
        "Kunde;Umsatz;Eintritt;Größe;Kündigung",
        lambda z, i: (
            f"K-{i};{german(1500 + 1400 * z)} €;{day(z, i):%d.%m.%Y};{'groß' if i % 3 else 'klein'};"
            f"{'ja' if z > 0 else 'nein'}"
        ),
        {"Umsatz": "number", "Eintritt": "date", "Größe": "category"},
        ["--id", "Kunde"],
        encoding="cp1252",
    ),
    "dollars and percent": Messy(
        "account,balance,growth,churn",
        lambda z, i: f'a{i},"${5000 + 4000 * z:,.2f}",{50 + 40 * z:.1f}%,{int(z > 0)}',
        {"balance": "number", "growth": "number"},
        ["--id", "account"],
    ),
    "no names": Messy(
        "",
        lambda z, i: f"r{i},{z:.3f},{i % 4}.5,{'up' if z > 0 else 'down'}",
        {"column_2": "number", "column_3": "number"},
        ["--no-header", "--id", "column_1"],
    ),
    "an index without a name and a column of nothing": Messy(
        ",reading,remark,state",
        lambda z, i: f"{i + 1000},{20 + 9 * z:.2f},,{'hot' if z > 0 else 'cold'}",
        {"reading": "number", "remark": "left out"},
        ["--id", "column_1"],
    ),
    "names and comments": Messy(
        "name,comment,age,income,married",
        lambda z, i: (
            f"P{i} Miller,said {i * 7919 % 1000} things,{40 + 20 * z:.0f},{i % 9 * 100},"
            f"{'yes' if z > 0 else 'no'}"
        ),
        {"comment": "left out", "age": "number", "income": "number"},
        ["--id", "name", "--drop", "comment"],
    ),
    "gaps of all kinds": Messy(
        "id,a,b,c,label",
        lambda z, i: (
            f"{i},{'n/a' if i % 11 == 0 else round(z, 3)},{'NULL' if i % 13 == 0 else 'pq'[i % 2]},"
            f"{'#N/A' if i % 17 == 0 else i % 5},{'x' if z > 0 else 'y'}"
        ),
        {"a": "number", "b": "category", "c": "number"},
        ["--id", "id", "--missing", "mean"],
    ),
    "codes": Messy(
        "id\tzip\tlevel\tgrade",
        lambda z, i: f"{i}\t0{1 + (z > 0)}{i % 2}67\t{z + 2:.2f}\t0{1 + (z > 0)}",
        {"zip": "category", "level": "number"},
        ["--id", "id"],
    ),
    "American dates and tons": Messy(
        "ship;sailed;load;late",
        lambda z, i: f"s{i};{day(z, i):%m/%d/%Y};{700 + 600 * z:.1f} t;{'late' if z > 0 else 'ok'}",
        {"sailed": "date", "load": "number"},
        ["--id", "ship", "--number", "load", "--date", "sailed=%m/%d/%Y"],
    ),
    "prices to be learned": Messy(
        "flat,rooms,built,district,price",
        lambda z, i: f"f{i},{3 + round(2 * z)},{day(z, i):%d %b %Y},{'NSEW'[i % 4]},{200 + 150 * z:.1f}",
        {"rooms": "number", "built": "date", "district": "category"},
        ["--id", "flat", "--estimator", "lssvr"],
        regression=True,
    ),
    "an old encoding and thousands": Messy(
        "Nr;Ort;Einwohner;Küste",
        lambda z, i: (
            f"{i};{'Köln' if i % 2 else 'Münster'};{german(2e6 + 1.9e6 * z)[:-3]};{'ja' if z > 0 else 'nein'}"
        ),
        {"Ort": "category", "Einwohner": "number"},
        ["--id", "Nr"],
        encoding="latin-1",
    ),
    "a byte order mark and remarks of two lines": Messy(
        "Kunde;Umsatz;Bemerkung;Ergebnis",
        lambda z, i: (
            f'"K{i:04d}";"{german(1000 + 900 * z)}";"sagt ""ja"";\nund {i % 3}";{"gut" if z > 0 else "arg"}'
        ),
        {"Umsatz": "number", "Bemerkung": "category"},
        ["--id", "Kunde"],
        encoding="utf-8-sig",
    ),
    "yes and no in four spellings, and zip codes": Messy(
        "id,smoker,member,paid,zip,x,label",
        lambda z, i: (
            f"{i:05d},{i % 2 > 0},{'TRUE' if i % 3 else 'false'},{'YN'[i % 2]},0{101 + i % 9},{z:.3f},{z > 0}"
        ),
        {"smoker": "category", "member": "category", "paid": "category", "zip": "category", "x": "number"},
        ["--id", "id"],
    ),
    "a label of two numbers with gaps": Messy(
        "visit,x,label",
        lambda z, i: f"v{i},{z:.3f},{float(z > 0)}",
        {"x": "number"},
        ["--id", "visit", "--skip-unlabelled"],
    ),
}


def put(path, table, first, count):
    rng = np.random.default_rng(first)
    lines = [] if not table.header else [table.header]
    lines += [table.line(rng.uniform(-1, 1), i) for i in range(first, first + count)]
    path.write_bytes(("\n".join(lines) + "\n").encode(table.encoding))
    return path


@pytest.mark.parametrize("name", TABLES)
def test_from_the_first_file_to_a_page(tmp_path, name):
    table, model = TABLES[name], tmp_path / "m"
    data, new = put(tmp_path / "a.csv", table, 0, 120), put(tmp_path / "b.csv", table, 500, 60)
    read = [] if table.encoding == "utf-8" else ["--encoding", table.encoding]
    facts = told("train", data, "-o", model, *table.options, *read, "-c", "10")
    kinds = {plan["name"]: plan["kind"] for plan in facts["plan"]}
    assert {column: kinds[column] for column in table.plan} == table.plan
    assert facts["certificate"]["status"] == "converged"

    judged = told("evaluate", model, new, *read)
    figures = {figure["name"]: figure for figure in judged["figures"]}
    main = figures["R2" if table.regression else "accuracy"]
    assert main["value"] > 0.8
    assert main["value"] - main["baseline"] > 2 * main["error"]
    # What leave-one-out promised on the first file holds on the second.
    promised = facts["leave_one_out"][0]
    assert abs(promised["value"] - main["value"]) < 4 * (promised["error"] + main["error"]) + 0.03

    wanted = ["--ids", "--interval", "0.9"] if table.regression else ["--ids", "--proba"]
    lines = run("predict", model, new, *wanted, *read).stdout.splitlines()
    assert len(lines) == 61
    assert lines[0].startswith("id,value,low,high" if table.regression else "id,label,p(")
    ids = [line.split(",")[0] for line in lines[1:]]

    assert told("learn", model, new, *read)["held"] == 180
    receipt = told("forget", model, "--ids", ",".join(ids[:3]))
    assert (receipt["rows"], receipt["remaining"]) == (3, 177)
    said = told("inspect", model)
    assert said["rows"] == 177
    page = tmp_path / "page.html"
    run("evaluate", model, new, *read, "--html", page)
    shown = page.read_text()
    assert shown.lower().startswith("<!doctype html")
    pictures = ("Predicted", "residual") if table.regression else ("Class shares", "Confusion matrix")
    for words in (*pictures, f"The {main['name']} is better than {main['guess']}"):
        assert words in html.unescape(shown)


def test_parquet_with_categories_times_and_decimals(tmp_path):
    rng = np.random.default_rng(4)
    price = rng.normal(50.0, 10.0, 120).round(2)
    frame = pd.DataFrame(
        {
            "kind": pd.Categorical(rng.choice(["low", "mid", "high"], 120)),
            "when": pd.Timestamp("2021-03-01") + pd.to_timedelta(rng.integers(0, 10**7, 120), unit="s"),
            "price": [Decimal(f"{value:.2f}") for value in price],
            "ok": rng.choice([True, False], 120),
            "count": pd.array(rng.integers(0, 9, 120), dtype="Int64"),
            "label": np.where(price > 50, "dear", "cheap"),
        }
    )
    frame.loc[5, "count"] = pd.NA
    data, model = tmp_path / "a.parquet", tmp_path / "m"
    frame.to_parquet(data)
    assert "row 5: column 'count' holds no value" in run("train", data, "-o", model, code=2).stderr
    facts = told("train", data, "-o", model, "--missing", "mean", "-c", "10")
    kinds = {plan["name"]: plan["kind"] for plan in facts["plan"]}
    assert (kinds["kind"], kinds["when"], kinds["price"]) == ("category", "date", "number")
    figures = told("evaluate", model, data)["figures"]
    assert figures[0]["value"] > 0.9
    assert told("forget", model, "--ids", "5")["remaining"] == 119


def test_dates_in_two_formats_are_no_levels(tmp_path):
    lines = [f"{day(i / 40, i):{'%d/%m/%Y' if i % 3 else '%Y-%m-%d'}},{i % 5},{i % 2}" for i in range(40)]
    data = tmp_path / "a.csv"
    data.write_text("start,visits,label\n" + "\n".join(lines) + "\n")
    for options in ([], ["--date", "start"]):
        said = run("train", data, "-o", tmp_path / "m", *options, code=2).stderr
        assert "has dates in several formats, such as" in said
        assert "'2020-06-01'" in said
        assert "--drop start" in said
    run("train", data, "-o", tmp_path / "m", "--drop", "start")


def test_a_file_that_is_learned_twice_is_noticed(tmp_path):
    table, model = TABLES["names and comments"], tmp_path / "m"
    data, new = put(tmp_path / "a.csv", table, 0, 60), put(tmp_path / "b.csv", table, 60, 3)
    run("train", data, "-o", model, *table.options)
    assert "held already" not in run("learn", model, new).stderr
    assert "3 ids are held already: each now names" in run("learn", model, new).stderr


def test_what_is_said_of_a_file_is_noted_only_where_it_matters(tmp_path):
    data = tmp_path / "a.csv"
    data.write_text("price,rooms,value\n" + "".join(f'"€ {i},000",{i % 7},{3 * i}.5\n' for i in range(1, 40)))
    options = ["--estimator", "lssvr", "--thousands", ","]
    notes = run("train", data, "-o", tmp_path / "m", *options).stderr
    assert "column 'price' is taken for numbers" in notes
    assert "rooms" not in notes


def test_a_rare_class_is_judged_by_the_figure_that_sees_it(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    labels = np.where(X[:, 0] + 0.4 * rng.normal(size=300) > 1.9, "fraud", "fine")
    data = tmp_path / "a.csv"
    data.write_text(
        "x,z,label\n" + "".join(f"{a:.4f},{b:.4f},{c}\n" for (a, b), c in zip(X, labels, strict=True))
    )
    said = run("train", data, "-o", tmp_path / "m", "--class-weight", "balanced").stdout
    assert "The accuracy is not better than the majority class 'fine'" in said
    assert "The balanced accuracy, which counts each class alike, is." in said


def test_evaluate_says_what_stands_beside(tmp_path):
    table = TABLES["names and comments"]
    data = put(tmp_path / "a.csv", table, 0, 60)
    run("train", data, "-o", tmp_path / "m", *table.options)
    said = run("evaluate", tmp_path / "m", data).stdout
    names = ("accuracy 1.000", "balanced accuracy", "macro F1", "log loss", "Brier score", "AUC")
    for words in (*names, "Labels (lines)", "(the majority class 'yes': 0.533)"):
        assert words in said
    facts = told("evaluate", tmp_path / "m", data)
    assert sum(map(sum, facts["confusion"])) == 60
    right = sum(facts["confusion"][k][k] for k in range(2)) / 60
    assert facts["figures"][0]["value"] == pytest.approx(right)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--label", "x"], "there is no label column 'x'"),
        (["--coverage", "1.5"], "--coverage"),
        (["--encoding", "x-y"], "there is no encoding 'x-y'"),
    ],
)
def test_evaluate_with_bad_input(tmp_path, options, words):
    table = TABLES["names and comments"]
    data = put(tmp_path / "a.csv", table, 0, 60)
    run("train", data, "-o", tmp_path / "m", *table.options)
    done = run("evaluate", tmp_path / "m", data, *options, code=2)
    assert words in done.stderr
    (tmp_path / "void").write_bytes(b"")
    assert run("evaluate", tmp_path / "m", tmp_path / "void", code=2).stderr.endswith("is empty\n")
    assert (
        "which has no intervals" in run("predict", tmp_path / "m", data, "--interval", "0.9", code=2).stderr
    )
