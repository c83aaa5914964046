"""scikit-learn's callbacks, from its version 1.9 on: they hear what the solvers and passes of a fit tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from squaresvm.models.train import listening_with
from squaresvm.solution import Certificate
from squaresvm.solvers.base import Progress, Solver

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # Before scikit-learn 1.9.

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands where scikit-learn has callbacks; there is nobody to tell."""

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is."""
        return method


__all__ = ["CallbackSupportMixin", "FitTasks", "tells_callbacks"]

Method = TypeVar("Method", bound=Callable[..., Any])


def tells_callbacks(method: Method) -> Method:
    """Return a `fit` after which callbacks are torn down, whether it failed or not."""
    return cast(Method, with_callbacks(method))


class FitTasks:
    """Tells the callbacks of an estimator of its fit, and of each part of it as a subtask.

    Parameters
    ----------
    estimator : estimator
        The one that the user has; work may go on in a copy.
    X, y, sample_weight :
        As `fit` was given them.
    """

    def __init__(self, estimator: Any, X: Any, y: Any, sample_weight: Any) -> None:
        self._estimator = estimator
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self._data = {"X": X, "y": y, "metadata": metadata}
        self._open: Any = None
        #: Whether anybody listens: a parent may only want to know where in its own tasks this one stands.
        self.is_heard = bool(getattr(estimator, "_skl_callbacks", ()))
        # How many iterations or passes there will be is known when they are over.
        self._root = estimator._init_callback_context(max_subtasks=None)
        self._root.call_on_fit_task_begin(estimator=estimator, **self._data)

    @classmethod
    def of(cls, estimator: Any, X: Any, y: Any, sample_weight: Any) -> FitTasks | None:
        """Begin the fit; None where there is nobody to tell."""
        if hasattr(estimator, "_skl_callbacks") or hasattr(estimator, "_parent_callback_ctx"):
            return cls(estimator, X, y, sample_weight)
        return None

    def told(self, what: str) -> bool:
        """Tell of a part of the fit that is over; return whether a callback asks to stop."""
        task = self._root.subcontext(task_name=what)
        task.call_on_fit_task_begin(estimator=self._estimator, **self._data)
        return bool(task.call_on_fit_task_end(estimator=self._estimator, **self._data))

    def next(self, what: str) -> None:
        """Tell of a part of the fit that begins, which ends with the next one or the fit."""
        self._close()
        self._open = self._root.subcontext(task_name=what)
        self._open.call_on_fit_task_begin(estimator=self._estimator, **self._data)

    def _close(self) -> None:
        if self._open is not None:
            self._open.call_on_fit_task_end(estimator=self._estimator, **self._data)
            self._open = None

    @contextmanager
    def part(self, what: str, estimator: Any) -> Iterator[None]:
        """Hand callbacks that reach further on to an estimator that is fitted as a part of this one."""
        task = self._root.subcontext(task_name=what)
        task.call_on_fit_task_begin(estimator=self._estimator, **self._data)
        with task.propagate_callback_context(estimator):
            yield
        task.call_on_fit_task_end(estimator=self._estimator, **self._data)

    def done(self) -> None:
        """End the fit: the estimator is fitted."""
        self._close()
        self._root.call_on_fit_task_end(estimator=self._estimator, **self._data, reconstruction_attributes={})

    # What a fit tells of itself, as to a log ---------------------------------------------------------

    def began(self, solver: str, reason: str, columns: int = 1) -> None:
        """Hear which solver was taken: callbacks do not ask for it."""

    def listening(self, solver: Solver) -> Solver:
        """Return the solver with callbacks that hear of its iterations, and may stop it."""
        return listening_with(solver, self._hear) if self.is_heard else solver

    def _hear(self, progress: Progress) -> bool:
        return self.told("iteration")

    def ended(self, certificate: Certificate) -> None:
        """Hear what the certificate says: callbacks are shown the fitted estimator."""
