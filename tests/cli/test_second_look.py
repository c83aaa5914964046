"""What the command line says of tables that are read in good faith and mean something else."""

from __future__ import annotations

import numpy as np
import pytest

from support.commands import run, told


def hospital(path, crp="88,5", first=0, count=80):
    """Write an export with decimal commas, and ids that come twice."""
    rng = np.random.default_rng(first)
    lines = ["Patient;Alter;CRP;Temperatur;Wiederaufnahme"]
    for i in range(first, first + count):
        z = rng.uniform(-1, 1)
        cells = (f"{60 + 55 * z:.1f}", f"{37.2 + 1.2 * z:.1f}")
        low, warm = (cell.replace(".", ",") for cell in cells)
        low = crp if i % 9 == 4 else low
        lines.append(f"P{i // 2:03d};{60 + 20 * z:.0f};{low};{warm};{'ja' if z > 0 else 'nein'}")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_measurement_below_its_limit_is_named(tmp_path):
    """Before, a column of numbers with '<0,6' among them was said to hold so many different words."""
    data = hospital(tmp_path / "a.csv", crp="<0,6")
    said = run("train", data, "--id", "Patient", "-o", tmp_path / "m", code=2).stderr
    assert "line 6: column 'CRP' is mixed: '<0,6' is not a number, but others are" in said


def test_ids_that_repeat_and_rows_that_were_trained_on(tmp_path):
    data, new, model = hospital(tmp_path / "a.csv"), hospital(tmp_path / "b.csv", first=200), tmp_path / "m"
    words = "Some ids name several rows: leaving one row out keeps the others of its id"
    assert words in run("train", data, "--id", "Patient", "-o", model).stdout
    assert words in run("inspect", model).stdout
    assert "80 of 80 rows have ids that the model holds" in run("evaluate", model, data).stderr
    assert run("evaluate", model, new).stderr == ""
    run("train", data, "--drop", "Patient", "-o", tmp_path / "n")
    assert words not in run("inspect", tmp_path / "n").stdout


def test_codes_for_missing_values_and_columns_that_never_change(tmp_path):
    data = tmp_path / "a.csv"
    rng = np.random.default_rng(0)
    lines = ["pressure,flow,currency,unit,power"]
    for i in range(60):
        z = rng.uniform(-1, 1)
        pressure = "-999" if i % 10 == 3 else f"{1e8 + 5e6 * z:.6e}"
        lines.append(f"{pressure},{12 + 9 * z:.3f},EUR,7,{'high' if z > 0 else 'low'}")
    data.write_text("\n".join(lines) + "\n")
    notes = {plan["name"]: plan["note"] for plan in told("train", data, "--dry-run")["plan"]}
    assert "holds -999 in 6 rows, far from all other values" in notes["pressure"]
    assert notes["flow"] == ""
    assert (
        notes["currency"]
        == notes["unit"]
        == "is the same in all rows, so that nothing can be learned from it"
    )
    said = run("train", data, "-o", tmp_path / "m").stderr
    assert "column 'pressure' holds -999 in 6 rows" in said
    assert "column 'currency' is the same in all rows" in said


@pytest.mark.parametrize("above", ["# Logger 7, firmware 2\n", "Export, of May\n"])
def test_lines_above_the_names(tmp_path, above):
    data = tmp_path / "a.csv"
    data.write_text(above + "x,flow,label\n" + "".join(f"{i},{i % 7},{i % 2}\n" for i in range(20)))
    said = run("train", data, "-o", tmp_path / "m", code=2).stderr
    assert "remove lines above the names" in said


def test_ends_that_print_alike_are_told_apart(tmp_path):
    data = tmp_path / "a.csv"
    data.write_text("n,label\n" + "".join(f"{9 * 10**15 + 1000 * i},{i % 2}\n" for i in range(20)))
    plan = told("train", data, "--dry-run")["plan"][0]
    low, _, high = plan["detail"].split()[:3]
    assert float(low) < float(high)


def test_what_permutation_importance_is_of(tmp_path):
    data = hospital(tmp_path / "a.csv")
    run("train", data, "--id", "Patient", "-o", tmp_path / "m")
    said = run("explain", tmp_path / "m", data, "--row", "3").stdout
    assert (
        "the loss of accuracy on this file when a column is shuffled, mean and standard deviation of 5"
        in said
    )
