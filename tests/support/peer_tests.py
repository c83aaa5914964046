"""Tests of another project, run with classes of ours in the place of its own.

Nothing of that project is changed and nothing is copied: each test function is built anew from its own code,
with other globals, and with its own parametrisation, in which classes and objects are replaced alike.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import pytest
import sklearn

#: The version whose tests the tables list.
DECLARED = "1.9.1"


@dataclass(frozen=True)
class Run:
    """A test that is run.

    Parameters
    ----------
    replaced : tuple of str
        Names that stand for classes of ours in it; by default all that the table replaces.
    without : dict
        Values of parameters that are left out, by the name of the argument, as text.
    because : str
        Why they are.
    ignore : tuple of str
        Warnings that scikit-learn's own suite lets pass, too.
    slow : bool
    """

    replaced: tuple[str, ...] | None = None
    without: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    because: str = ""
    ignore: tuple[str, ...] = ()
    slow: bool = False


@dataclass(frozen=True)
class LeftOut:
    """A test that is not run, and why."""

    because: str


Table = Mapping[str, Run | LeftOut]


def same_minor_version() -> bool:
    """Return whether the tests that are installed are those of the declared version, but for a patch."""
    return sklearn.__version__.split(".")[:2] == DECLARED.split(".")[:2]


def skip_unless_declared() -> None:
    """Skip the module that asks, unless its table speaks of the version that is installed."""
    if not same_minor_version():
        pytest.skip(
            f"the tables list the tests of scikit-learn {DECLARED}; {sklearn.__version__} is installed",
            allow_module_level=True,
        )


def test_names(module: str) -> set[str]:
    """Return the names of the tests in a module."""
    members = vars(import_module(module)).items()
    return {name for name, value in members if name.startswith("test_") and callable(value)}


test_names.__test__ = False  # type: ignore[attr-defined]


def with_ours(module: str, table: Table, ours: Mapping[str, type]) -> dict[str, Any]:
    """Return the fixtures of a module and those of its tests that the table runs, with our classes in them.

    Parameters
    ----------
    module : str
        Name of the module of tests.
    table : dict
        What becomes of each test.
    ours : dict
        Our class for each name of a class that the module imports, or finds in a module that it imports.
    """
    theirs = vars(import_module(module))
    found = {name: value for name, value in theirs.items() if _is_fixture(value)}
    for name, entry in table.items():
        if isinstance(entry, Run) and name in theirs:
            chosen = {key: ours[key] for key in (entry.replaced or ours)}
            found[name] = Substitution(theirs, chosen).test(theirs[name], entry)
    return found


def check_table(module: str, table: Table, ours: Mapping[str, type]) -> None:
    """Fail where a table leaves a test out without a word, or names what is not there."""
    if sklearn.__version__ != DECLARED:
        pytest.skip(f"the tables are those of scikit-learn {DECLARED}; {sklearn.__version__} is installed")
    names = test_names(module)
    assert not names - set(table), f"{module} has tests that the table does not list"
    assert not set(table) - names, f"the table lists tests that {module} does not have"
    for name, entry in table.items():
        if isinstance(entry, LeftOut):
            assert entry.because, name
            continue
        assert set(entry.replaced or ()) <= set(ours), name
        assert bool(entry.without) == bool(entry.because), f"{name}: what is left out needs a reason"
        missing = _named(entry) - _values(vars(import_module(module))[name])
        assert not missing, f"{name} has no parameters of these values: {missing}"


def _named(entry: Run) -> set[tuple[str, str]]:
    return {(argument, value) for argument, values in entry.without.items() for value in values}


def _values(function: Callable[..., Any]) -> set[tuple[str, str]]:
    """Return all values of parameters of a test, as tables name them."""
    found = set()
    for mark in getattr(function, "pytestmark", []):
        if mark.name == "parametrize":
            for names, values in _sets(mark):
                found |= {(name, describe(value)) for name, value in zip(names, values, strict=True)}
    return found


def _sets(mark: pytest.Mark) -> Iterator[tuple[list[str], tuple[Any, ...]]]:
    """Yield the names of arguments and their values, one set of parameters after the other."""
    given = mark.args[0]
    names = [name.strip() for name in (given.split(",") if isinstance(given, str) else given)]
    for values in mark.args[1]:
        yield names, tuple(values) if len(names) > 1 else (values,)


def _is_fixture(value: Any) -> bool:
    return type(value).__name__ == "FixtureFunctionDefinition" or hasattr(value, "_pytestfixturefunction")


class Substitution:
    """Puts classes of ours in the place of others, in functions and in values of parameters.

    Parameters
    ----------
    theirs : dict
        Globals of the module of tests.
    ours : dict
        Our class by the name of theirs.
    """

    def __init__(self, theirs: Mapping[str, Any], ours: Mapping[str, type]) -> None:
        self._ours = ours
        self._classes = {self._original(theirs, name): cls for name, cls in ours.items()}
        # What scikit-learn skips, or expects to fail, for limits of its own classes, is asked of ours.
        unlimited = {**vars(pytest), "skip": _go_on, "xfail": _go_on}
        self._globals = {**theirs, "pytest": types.SimpleNamespace(**unlimited)}
        for name, value in theirs.items():
            if name == "pytest":
                continue
            if isinstance(value, types.ModuleType) and any(hasattr(value, key) for key in ours):
                self._globals[name] = types.SimpleNamespace(**{**vars(value), **ours})
            elif isinstance(value, type) and value in self._classes:
                self._globals[name] = self._classes[value]
        # Functions of the module that tests call must see the same classes.
        for name, value in theirs.items():
            if isinstance(value, types.FunctionType) and value.__globals__ is theirs:
                self._globals[name] = self._function(value)

    @staticmethod
    def _original(theirs: Mapping[str, Any], name: str) -> type:
        if name in theirs:
            return theirs[name]
        modules = (value for value in theirs.values() if isinstance(value, types.ModuleType))
        return next(getattr(module, name) for module in modules if hasattr(module, name))

    def test(self, function: Callable[..., Any], entry: Run) -> Callable[..., Any]:
        """Return a test with its marks, in which our classes stand."""
        made = self._function(function)
        marks = [self._mark(mark, entry.without) for mark in getattr(function, "pytestmark", [])]
        made.pytestmark = marks + [pytest.mark.filterwarnings(f"ignore{rule}").mark for rule in entry.ignore]
        if entry.slow:
            made.pytestmark.append(pytest.mark.slow.mark)
        return made

    def _function(self, function: types.FunctionType) -> Any:
        inner = getattr(function, "__wrapped__", None)
        if inner is not None:
            # A context that scikit-learn put around the test: the same around ours.
            context = next(cell.cell_contents for cell in function.__closure__ or () if _is_context(cell))
            return context(self._function(inner))
        made = types.FunctionType(
            function.__code__,
            self._globals,
            function.__name__,
            tuple(self._value(value) for value in function.__defaults__ or ()) or None,
            function.__closure__,
        )
        made.__doc__ = function.__doc__
        return made

    def _mark(self, mark: pytest.Mark, without: Mapping[str, Iterable[str]]) -> pytest.Mark:
        if mark.name != "parametrize":
            return mark
        ids = mark.kwargs.get("ids")
        sets, kept_ids = [], []
        for place, (names, values) in enumerate(_sets(mark)):
            if any(
                describe(value) in without.get(name, ()) for name, value in zip(names, values, strict=True)
            ):
                continue
            ours = tuple(self._value(value) for value in values)
            sets.append(ours if len(names) > 1 else ours[0])
            kept_ids.append(ids[place] if isinstance(ids, list | tuple) else None)
        kwargs = {**mark.kwargs, "ids": kept_ids} if isinstance(ids, list | tuple) else mark.kwargs
        return pytest.mark.parametrize(mark.args[0], sets, **kwargs).mark

    def _value(self, value: Any) -> Any:
        """Return the value of a parameter with our class, or an object of it, in the place of theirs."""
        if isinstance(value, type):
            return self._classes.get(value, value)
        if isinstance(value, types.FunctionType):
            return self._globals.get(value.__name__, value)
        if type(value) in self._classes:
            return self._classes[type(value)](**value.get_params(deep=False))
        return value


def _go_on(reason: str = "") -> None:
    """Do nothing."""


def _is_context(cell: types.CellType) -> bool:
    return hasattr(cell.cell_contents, "_recreate_cm")


def describe(value: Any) -> str:
    """Return the text by which a table names a value."""
    if isinstance(value, (type, types.FunctionType)):
        return value.__name__
    return repr(value)
