"""The walks in CONTRIBUTING.md are what the code does, hop by hop, and its map names every package."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

import squaresvm
from squaresvm import LSSVC, RLSSVC, verify
from squaresvm.streaming import ArraySource
from support.tracing import traced

_PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
_MOST_HOPS = 10
_PACKAGE = Path(squaresvm.__file__).parent
#: Rows of the map at most: it is to be seen at once.
_ROWS = 24


def walks():
    """Return the hops of each walk: the names in each, in the order of the page."""
    text = _PAGE.read_text(encoding="utf-8").split("## How things flow")[1].split("## Map")[0]
    rows = re.findall(r"^\| `(.+?)` \| (.+) \|$", text, re.MULTILINE)
    return {name: [re.findall(r"`([^`]+)`", hop) for hop in hops.split(" -> ")] for name, hops in rows}


@pytest.fixture(scope="module")
def rows():
    return load_iris(return_X_y=True)


def _fit(rows, folder):
    return lambda: LSSVC(C=3.0).fit(*rows)


def _forget(rows, folder):
    model = LSSVC(C=3.0).fit(*rows)
    return lambda: model.forget([7])


def _learn(rows, folder):
    model = LSSVC(C=3.0).fit(*rows)
    return lambda: model.learn(rows[0][:2] + 0.1, rows[1][:2])


def _predict_proba(rows, folder):
    model = LSSVC(C=3.0).fit(*rows)
    return lambda: model.predict_proba(rows[0][:5])


def _fit_source(rows, folder):
    return lambda: RLSSVC(kernel="linear").fit(ArraySource(rows[0], rows[1] == 1))


def _verify(rows, folder):
    model = LSSVC(C=3.0).fit(*rows)
    return lambda: verify(model)


def _train(rows, folder):
    app = pytest.importorskip("squaresvm.cli.app").app
    table = folder / "iris.csv"
    np.savetxt(table, np.column_stack(rows), delimiter=",", header="a,b,c,d,label", comments="", fmt="%g")

    def run():
        with pytest.raises(SystemExit) as ended:
            app(["train", str(table), "-o", str(folder / "iris.model"), "--label", "label"])
        assert ended.value.code == 0

    return run


ACTIONS = {
    "fit(X, y)": _fit,
    "forget(ids)": _forget,
    "learn(X, y)": _learn,
    "predict_proba(X)": _predict_proba,
    "fit(source)": _fit_source,
    "verify(model)": _verify,
    "squaresvm train": _train,
}


@pytest.mark.parametrize("name", ACTIONS)
def test_each_hop_of_a_walk_is_entered_after_the_one_before(name, rows, tmp_path):
    hops = walks()[name]
    assert 3 <= len(hops) <= _MOST_HOPS
    act = ACTIONS[name](rows, tmp_path)
    with traced() as calls:
        act()
    entered = {each for names in calls for each in names}
    place = 0
    for hop in hops:
        assert hop, f"a hop of {name} names nothing"
        missing = [each for each in hop if each not in entered]
        assert not missing, f"{name} does not go through {missing}"
        later = [k for k in range(place, len(calls)) if hop[0] in calls[k]]
        assert later, f"{name} goes through {hop[0]} before the hop that the page has in front of it"
        place = later[0] + 1


def test_every_walk_of_the_page_is_walked_or_is_the_servers():
    assert set(walks()) - set(ACTIONS) == {"POST /models/{name}/forget"}


def mapped():
    """Return the rows of the map: the packages that each is about, and the names that it explains them by."""
    text = _PAGE.read_text(encoding="utf-8").split("## Map")[1].split("## Rules")[0]
    rows = re.findall(r"^\| (`.+?) \| (.+) \|$", text, re.MULTILINE)
    return [(re.findall(r"`([^`]+)`", first), re.findall(r"`(\w+)`", second)) for first, second in rows]


def test_the_map_names_every_package_and_fits_a_screen():
    listed = {name for names, _ in mapped() for name in names} - {"tests/"}
    packages = {f"{folder.name}/" for folder in _PACKAGE.iterdir() if (folder / "__init__.py").is_file()}
    modules = {path.stem for path in _PACKAGE.glob("*.py") if not path.stem.startswith("_")} - {"typing"}
    assert listed == packages | modules
    assert len(mapped()) <= _ROWS


def test_what_the_map_names_in_a_package_is_there():
    for names, explained in mapped()[:-1]:  # The last is of the tests.
        folders = [_PACKAGE / name for name in names if name.endswith("/")]
        there = {path.stem for folder in folders for path in folder.iterdir()} | set(names)
        assert set(explained) <= there, f"{names} have no {sorted(set(explained) - there)}"
