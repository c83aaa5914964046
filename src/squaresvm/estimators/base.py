"""What all estimators share: validation, parameters, and the state."""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import Tags
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from squaresvm.estimators.attributes import FittedAttributes
from squaresvm.estimators.callbacks import CallbackSupportMixin, FitTasks, tells_callbacks
from squaresvm.estimators.evidence import Evidence, moved_since_fit
from squaresvm.estimators.receipts import Proving, begun, log_of
from squaresvm.kernels import Kernel, KernelFunction, check_kernel, scale_gamma
from squaresvm.models.model import Known, Model, Settings
from squaresvm.models.ownership import REQUESTS, Claim
from squaresvm.models.problems import distributed_kernel, gathered_rows
from squaresvm.models.source_fit import fit_source
from squaresvm.models.state import State
from squaresvm.models.train import FitListener, FitListeners, FitLog, given_kernel, same_kernel, train
from squaresvm.operators import Operator
from squaresvm.operators.precomputed import symmetrised
from squaresvm.problem import Bias, Loss
from squaresvm.readers.preparation import prepared_rows
from squaresvm.rows import Ids, Rows, canonical_csr, ids_from, owned
from squaresvm.rows.labels import weigh
from squaresvm.runtime.arguments import (
    check_flag,
    check_positive,
    check_random_state_parameter,
    check_stopping,
    check_verbose,
)
from squaresvm.runtime.extras import Documented
from squaresvm.solvers.base import Solver
from squaresvm.solvers.choose import check_solver, choose_for_source
from squaresvm.streaming import DaskSource, Source, is_source
from squaresvm.typing import FloatArray, Matrix

__all__ = ["SquareSVM"]


class SquareSVM(Documented, FittedAttributes, Proving, CallbackSupportMixin, BaseEstimator):
    """Base of all estimators; see :class:`squaresvm.LSSVC`."""

    _loss: ClassVar[Loss]
    _proximal: ClassVar[bool] = False
    #: Who is told how a fit goes, while it does.
    _tasks: FitTasks | None = None

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: str | KernelFunction = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-6,
        max_iter: int | None = None,
        fit_intercept: bool = True,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        solver: str | Solver = "auto",
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.random_state = random_state
        self.verbose = verbose
        self.solver = solver

    # Fitting -------------------------------------------------------------------------------------

    @tells_callbacks
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: npt.ArrayLike | None = None,
        ids: Iterable[Hashable] | None = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Fit the model; a failure leaves the estimator as it was.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (m, n), or source
            Rows; the kernel matrix (m, m) with ``kernel='precomputed'``. With ``kernel='linear'`` a source of
            blocks out of ``squaresvm.streaming``, which has labels and weights of its own: the rows are
            read a few times and not kept. With other kernels a ``DaskSource``: the rows are kept here, and
            products with their kernel matrix run on the workers, which hold none of it.
        y : array-like of shape (m,) or (m, k)
            Labels or values; none beside a source. Of k columns, for classifiers: which of k labels each row
            has, by 0 and 1.
        sample_weight : array-like of shape (m,), optional
            Multiplies C row by row. A row of weight 0 is held but is no part of the problem.
        ids : iterable of hashables, one a row, or 'index', optional
            Names under which rows can be forgotten; several rows may have the same. ``'index'`` takes the
            index of a pandas data frame. Arrival numbers 0, 1, 2, ... by default.
        checkpoint : path, optional
            With a source, a file that holds the iterate after each pass, and from which a fit that was killed
            goes on. It is deleted when the fit has ended.

        Returns
        -------
        self
        """
        if is_source(X):
            return self._fit_source(X, y, sample_weight, ids, checkpoint)
        if checkpoint is not None:
            raise ValueError("checkpoint can be given only with a source, not with rows in memory")
        return self._fit_rows(X, y, sample_weight, ids)

    def _fit_rows(
        self, X: Any, y: Any, sample_weight: Any, ids: Any, cluster: DaskSource | None = None
    ) -> Self:
        """Fit a model that keeps its rows; products with their kernel matrix may run on a cluster."""
        start = time.perf_counter()
        # All work happens on a copy, so that whatever fails leaves nothing half done.
        trial = self._copy()
        trial._tasks = FitTasks.of(self, X, y, sample_weight)
        trial._check_parameters()
        trial._front = None
        trial._record = None  # What came with a file belongs to the rows of that file.
        rows = trial._check_rows(X, y, sample_weight, ids)
        settings, operator = trial._settings(rows), None
        if settings.kernel is None:
            # The store of the operator holds K from now on; the rows have no features.
            operator = given_kernel(rows, settings)
            rows = replace(rows, base=np.empty((rows.count, 0)))
        if cluster is not None:
            operator = distributed_kernel(rows, settings, cluster)
        state = trial._trained(rows, settings, operator)
        if cluster is not None:
            # From now on the rows are here alone: requests and predictions need no cluster.
            state = replace(state, operator=None, known=Known(certificate=state.certificate))
            if cluster.feature_names is not None:
                trial.feature_names_in_ = np.array(cluster.feature_names, dtype=object)
        trial._state = state
        trial._log = begun(trial._state, time.perf_counter() - start)
        self._adopt(trial)
        return self

    def _check_kernel_source(self, source: Source) -> DaskSource:
        """Return the source of a kernel model; a ValueError where it has none of those."""
        if not isinstance(source, DaskSource) or self._is_precomputed or self._proximal:
            raise ValueError(
                f"a source needs kernel='linear'; got {self.kernel!r}. For other kernels, put Nystrom "
                "features in front, MappedSource(source, Nystrom(...).fit(some_rows)), or give a DaskSource"
            )
        name = self.solver if isinstance(self.solver, str) else getattr(self.solver, "name", None)
        if name not in ("auto", "cg"):
            raise ValueError(
                f"a kernel model of a DaskSource is fitted with solver='cg' or 'auto'; got {self.solver!r}"
            )
        return source

    def _fit_source(self, source: Source, y: Any, sample_weight: Any, ids: Any, checkpoint: Any) -> Self:
        if y is not None or sample_weight is not None or ids is not None:
            raise ValueError("a source has its own labels and weights, and no ids: give the source alone")
        if not isinstance(self.kernel, str) or self.kernel != "linear":
            cluster = self._check_kernel_source(source)
            if checkpoint is not None:
                raise ValueError("checkpoint can be given only with kernel='linear'")
            return self._fit_rows(*gathered_rows(cluster), None, cluster)
        start = time.perf_counter()
        choose_for_source(self._loss, self.solver, source.n_features)
        trial = self._copy()
        trial._tasks = FitTasks.of(self, source, None, None)
        trial._check_parameters()
        trial._front = trial._record = None
        tasks = trial._tasks
        begins = None if tasks is None else (lambda: tasks.next("pass"))
        trial._state = fit_source(source, trial._settings, is_classifier(self), checkpoint, begins)
        log = self._fit_log()
        if log is not None:
            log.began(trial._state.solver, trial._state.reason)
            log.ended(trial._state.certificate)
        trial._log = begun(trial._state, time.perf_counter() - start)
        trial.__dict__.pop("feature_names_in_", None)
        trial.n_features_in_ = source.n_features
        if source.feature_names is not None:
            trial.feature_names_in_ = np.array(source.feature_names, dtype=object)
        self._adopt(trial)
        return self

    def refit(self) -> Self:
        """Fit anew on the rows held, resolving ``'scale'``, ``'balanced'`` and the like from them.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        start = time.perf_counter()
        with REQUESTS:
            trial = self._copy()
            trial._check_parameters()
            state = self._state.holding("refit")
            rows = state.rows.compact().as_given()
            settings, operator, claim = trial._settings(rows, is_refit=True), None, Claim()
            if settings.kernel is None:
                operator, claim = same_kernel(state, rows, settings), Claim(state.claim)
            trial._state = trial._trained(rows, settings, operator, claim)
            log = log_of(self._log, state.n_rows)
            trial._log = begun(trial._state, time.perf_counter() - start, log)
            claim.commit()
            self._adopt(trial)
        return self

    def _trained(
        self, rows: Rows, settings: Settings, operator: Operator | None, claim: Claim | None = None
    ) -> State:
        """Return the model of the rows; estimators that weigh rows by their residuals train it again."""
        return train(rows, settings, operator, self._fit_log(), claim)

    def _fit_log(self) -> FitListener | None:
        members: list[FitListener] = []
        if self.verbose:
            members.append(FitLog(type(self).__name__, int(self.verbose)))
        if self._tasks is not None:
            members.append(self._tasks)
        return FitListeners(tuple(members)) if members else None

    def _copy(self) -> Self:
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        return copy

    def _adopt(self, trial: Self) -> None:
        for name in ("n_features_in_", "feature_names_in_"):
            if name not in trial.__dict__:
                self.__dict__.pop(name, None)
        tasks = trial.__dict__.pop("_tasks", None)
        self.__dict__.update(trial.__dict__)
        if tasks is not None:
            tasks.done()

    def _check_parameters(self) -> None:
        check_positive("C", self.C)
        check_kernel(self.kernel, self.gamma, self.degree, self.coef0)
        check_stopping(self.tol, self.max_iter)
        check_flag("fit_intercept", self.fit_intercept)
        check_random_state_parameter(self.random_state)
        check_verbose(self.verbose)
        check_solver(self.solver)

    @property
    def _is_precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _check_rows(
        self,
        X: Any,
        y: Any,
        sample_weight: npt.ArrayLike | None,
        ids: Iterable[Hashable] | None,
    ) -> Rows:
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        given = X
        rules = {**self._array_rules(), **self._target_rules(y)}
        # Whether a kernel matrix is finite comes to light with its symmetry, without a pass more.
        X, y = validate_data(self, X, y, ensure_all_finite=not self._is_precomputed, **rules)
        X = canonical_csr(X)
        if self._is_precomputed:
            X = X.toarray() if sp.issparse(X) else X
        y = self._check_targets(y)
        count = y.shape[0]
        if sample_weight is None:
            weights = np.broadcast_to(np.float64(1.0), count)  # No memory for millions of ones.
        else:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if self._is_precomputed:
            X = symmetrised(X, type(self).__name__, float(self.C) * float(weights.max(initial=0.0)))
        named = Ids.numbered(count) if ids is None else Ids.given(ids_from(ids, given), count)
        base, is_owned = (X, False) if self._is_precomputed else owned(X, given)
        return Rows(base, np.array(y), weights, named, is_owned=is_owned)

    @staticmethod
    def _array_rules() -> dict[str, Any]:
        return {
            "accept_sparse": "csr",
            "accept_large_sparse": True,
            "dtype": (np.float64, np.float32),
        }

    def _target_rules(self, y: Any) -> dict[str, Any]:
        return {}

    def _check_targets(self, y: Any) -> np.ndarray[Any, Any]:
        return y

    def _evidence(self) -> Evidence:
        state, kept = self._state, tuple(self._kept_of_rows())
        rows, moved = getattr(state, "rows", None), partial(moved_since_fit, self)
        states = [part for _, part in state.by_cost]
        names = getattr(self, "feature_names_in_", None)
        return Evidence(state.n_rows, rows, states, self._record, kept, moved, self._front, names)

    def _class_weights(self, rows: Rows, is_refit: bool = False) -> dict[Hashable, float] | None:
        return None

    # From parameters to numbers --------------------------------------------------------------------

    def _settings(self, rows: Rows, is_refit: bool = False) -> Settings:
        class_weight = self._class_weights(rows, is_refit)
        kernel, bias = self._kernel_and_bias(rows, class_weight)
        return Settings(
            loss=self._loss,
            bias=bias,
            kernel=kernel,
            C=float(self.C),
            class_weight=class_weight,
            proximal=self._proximal and self.kernel != "linear",
            solver=self.solver,
            tol=float(self.tol),
            max_iter=self.max_iter,
        )

    def _kernel_and_bias(
        self, rows: Rows, class_weight: dict[Hashable, float] | None
    ) -> tuple[Kernel | None, Bias]:
        bias = self._bias() if self.fit_intercept else Bias.none()
        if self._is_precomputed:
            return None, bias
        gamma = self.gamma
        if gamma == "auto":
            gamma = 1.0 / rows.n_columns
        elif gamma == "scale":
            gamma = self._scale(rows, class_weight)
        return Kernel(self.kernel, float(gamma), int(self.degree), float(self.coef0)), bias

    def _scale(self, rows: Rows, class_weight: dict[Hashable, float] | None) -> float:
        if callable(self.kernel) or self.kernel == "linear":
            return 1.0  # Not used: do not read the rows for it.
        weights = weigh(rows.y, rows.weights, class_weight)
        return scale_gamma(rows.X, weights) if weights.any() else 1.0

    def _bias(self) -> Bias:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self._is_precomputed
        return tags

    # Using a fitted model --------------------------------------------------------------------------

    def _decision(self, state: Model, X: Any) -> FloatArray:
        """Return f at new rows, of shape (rows, k), by one state: another thread may bring the next."""
        return state.decision(self._checked_queries(X))

    def _checked_queries(self, X: Any) -> Matrix:
        """Return new rows after a check; data frames by the preparation that came with the model's file."""
        X = self._prepared(X)
        return canonical_csr(validate_data(self, X, reset=False, **self._array_rules()))

    def _prepared(self, X: Any, *, new_levels: bool = True) -> Any:
        preparation = None if self._record is None else self._record.preparation
        return X if preparation is None else prepared_rows(X, preparation, new_levels=new_levels)
