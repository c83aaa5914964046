"""Pictures of pages say what their numbers say."""

from __future__ import annotations

import numpy as np
import pytest

from squaresvm.pages import charts
from support.html_tags import Tags


def test_calibration_counts_the_groups_that_agree():
    counts = np.full(4, 100.0)
    good = charts.calibration("", np.array([0.1, 0.4, 0.6, 0.9]), np.array([0.12, 0.38, 0.6, 0.88]), counts)
    assert "Yes: in 4 of 4 groups" in good
    bad = charts.calibration("", np.array([0.1, 0.4, 0.6, 0.9]), np.array([0.3, 0.38, 0.6, 0.7]), counts)
    assert "Not everywhere: in 2 of 4 groups" in bad
    assert bad.count("<circle") == 4
    assert "Too few rows to tell" in charts.calibration("", np.array([0.4]), np.array([0.5]), np.array([8.0]))
    Tags(bad)


def test_confusion_names_the_most_frequent_error():
    counts = np.array([[50, 3, 0], [1, 40, 9], [0, 0, 30]])
    section = charts.confusion(["a", "<b>", "c"], counts, "Test rows.")
    assert "13 of 133 rows are classified wrongly" in section
    assert "&#x27;&lt;b&gt;&#x27; predicted as &#x27;c&#x27;, 9 times" in section
    assert section.count("<td") == 9
    assert "<b>" not in section
    Tags(section)


def test_confusion_of_many_classes_lists_the_worst_pairs():
    counts = np.diag(np.full(30, 5))
    counts[4, 7], counts[20, 1] = 6, 2
    section = charts.confusion([f"class {i}" for i in range(30)], counts, "")
    assert section.count("<tr>") == 3
    assert section.index("class 4<") < section.index("class 20<")


def test_confusion_without_errors():
    assert "0 of 8 rows are classified wrongly." in charts.confusion(["a", "b"], np.diag([3, 5]), "")


def test_shares_name_the_baseline():
    section = charts.class_shares(["yes", "no"], [30, 970])
    assert "no&#x27; with 97.0% of the rows" in section
    assert "30 (3.0%)" in section
    Tags(section)


@pytest.mark.parametrize(
    "values", [np.zeros(3), np.array([1e-12]), np.array([-3e8, 5.0]), np.arange(-4.0, 9.0)]
)
def test_histograms_hold_every_row(values):
    section = charts.margins(values)
    assert f"{int(np.sum(values < 0))} of {values.size} rows are on the wrong side" in section
    drawn = [int(part.split(" rows from")[0]) for part in section.split("<title>")[1:]]
    assert sum(drawn) == values.size
    assert "nan" not in section


def test_ticks_in_the_thousands_are_plain_numbers():
    shown = charts.predictions(np.array([10.0, 7900.0, 4000.0]), np.array([100.0, 6000.0, 4100.0]), "")
    assert ">4000</text>" in shown
    assert "e+03" not in shown


def test_predictions_stand_beside_the_mean():
    actual = np.array([1.0, 2.0, 3.0, 6.0])
    section = charts.predictions(actual, actual + np.array([0.5, -0.5, 0.5, -0.5]), "")
    assert "root mean squared error is 0.5;" in section
    assert f"would give {actual.std():.4g}" in section
    assert section.count("<circle") == 4
    Tags(section)
    assert "nan" not in charts.predictions(np.ones(3), np.ones(3), "")


def test_many_predictions_are_thinned_evenly():
    values = np.linspace(0.0, 1.0, 50_000)
    assert charts.predictions(values, values, "").count("<circle") == 2000


def test_before_and_after_draws_both_ends_of_each_row():
    section = charts.before_after([("p<1>", 0.4, -0.2), ("p2", 0.0, 0.0)], "Two rows.")
    assert section.count("<circle") == 4
    assert "p&lt;1&gt;" in section
    Tags(section)
