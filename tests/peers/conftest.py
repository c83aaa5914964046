"""What scikit-learn's tests expect to find, and a look at whether each of them met a class of ours."""

from __future__ import annotations

import numpy as np
import pytest

from support.peer_classes import Adapter


@pytest.fixture
def global_random_seed():
    """The seed that scikit-learn's suite has, unless it is told another."""
    return 42


@pytest.fixture(params=[np.float32, np.float64])
def global_dtype(request):
    return request.param


@pytest.fixture
def pyplot():
    pytest.importorskip("matplotlib").use("agg")
    from matplotlib import pyplot

    pyplot.close("all")
    yield pyplot
    pyplot.close("all")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """Fail a test of scikit-learn's that passes without a model of ours: it would say nothing.

    A generator that the tests of a module share begins anew with each, so that no test's data depend on
    which of the others ran before it.
    """
    shared = pyfuncitem.function.__globals__.get("rng")
    if isinstance(shared, np.random.RandomState):
        shared.seed(0)
    before = Adapter.asked
    result = yield
    if pyfuncitem.function.__module__.startswith("sklearn") and Adapter.asked == before:
        pytest.fail("no model of ours was asked for in this test: it says nothing of one")
    return result
