"""What searches over C and gamma share: folds, paths, and what the search said."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import is_classifier

from squaresvm.estimators import LSSVR
from squaresvm.estimators.requests import Updating
from squaresvm.judging.folds import Folds
from squaresvm.judging.scores import Judge, check_scoring
from squaresvm.models.model import Settings
from squaresvm.models.ownership import REQUESTS
from squaresvm.models.problems import check_costs, encode, features, find_classes
from squaresvm.models.state import State
from squaresvm.rows import Rows
from squaresvm.rows.labels import indicator
from squaresvm.runtime.arguments import check_integer
from squaresvm.search.grid import Search, SearchResults, check_values, default_Cs, default_gammas
from squaresvm.search.paths import HAVE_GAMMA, HingePath, KernelFamily, KernelPath, LinearPath, Path
from squaresvm.search.routing import RoutedGroups
from squaresvm.search.walk import WALK_ROWS, Walk, can_be_low_rank, cell_paths, rows_to_search
from squaresvm.streaming import Source
from squaresvm.typing import FloatArray, IntArray, Matrix

__all__ = ["HingeSearch", "LooSearch", "Searched"]

#: Outer folds of `honest_score_` where the search leaves out single rows or groups.
_OUTER_FOLDS = 5


class Searched(NamedTuple):
    """What a search goes over: all rows, and features or kernel, targets and weights of those that count."""

    rows: Rows
    X: Matrix
    targets: FloatArray
    weights: FloatArray
    folds: list[IntArray] | None


class LooSearch(RoutedGroups, Updating):
    """What all searches share: `fit` searches first, and `forget` drops what the search said."""

    _search: SearchResults | None
    #: The groups of the rows, while they are fitted.
    _groups: Any = None
    #: Whether there were any, and which, as long as the rows held are those of the fit.
    _had_groups: bool = False
    _groups_held: np.ndarray[Any, Any] | None = None

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: npt.ArrayLike | None = None,
        ids: Iterable[Hashable] | None = None,
        *,
        groups: npt.ArrayLike | None = None,
        checkpoint: Any = None,
    ) -> Self:
        """Search, and fit the model of the best cell; a failure leaves the estimator as it was.

        Parameters
        ----------
        X, y, sample_weight, ids, checkpoint :
            As in :meth:`squaresvm.LSSVC.fit`; no source.
        groups : array-like of shape (m,), optional
            The group of each row: rows leave with their group, or as the splitter `cv` says. They are
            kept for ``honest_score_`` alone, until rows are learned or forgotten, and not in files.

        Returns
        -------
        self
        """
        self._groups = groups
        try:
            super().fit(X, y, sample_weight, ids, checkpoint=checkpoint)
        finally:
            self.__dict__.pop("_groups", None)
        self._had_groups = groups is not None
        self._groups_held = None if groups is None else np.array(groups)
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.Cs is not None:
            check_values("Cs", self.Cs)
        if self.gammas is not None:
            check_values("gammas", self.gammas)
            if not self._has_gamma:
                raise ValueError(f"kernel={self.kernel!r} has no gamma: leave gammas=None")
        if self._by_evidence:
            if not isinstance(self, LSSVR):
                raise ValueError("scoring='evidence' is for regression: choose LSSVRCV or another scorer")
            if self.cv is not None:
                raise ValueError("scoring='evidence' leaves no rows out: cv must be None")
        else:
            check_scoring(self.scoring)
        check_integer("refine", self.refine, 0)
        if self.n_jobs is not None and (check_integer("n_jobs", self.n_jobs, -(2**31)) == 0):
            raise ValueError("n_jobs must not be 0: 1 is one job, -1 as many as there are cores")

    def _fit_source(self, source: Source, y: Any, sample_weight: Any, ids: Any, checkpoint: Any) -> Self:
        raise ValueError(
            f"{type(self).__name__} searches over rows in memory, not over a source: search on some rows, "
            "then fit the plain estimator from the source with the C that was found"
        )

    @property
    def _has_gamma(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel in HAVE_GAMMA

    def _settings(self, rows: Rows, is_refit: bool = False) -> Settings:
        """Return the settings with the C and gamma of the best leave-one-out score."""
        settings = super()._settings(rows, is_refit)
        weights = settings.row_weights(rows.y, rows.weights)
        held: IntArray = np.flatnonzero(weights > 0)
        if held.size == 0:
            raise ValueError("all rows have weight zero: there is nothing to learn from")
        y = rows.y[held]
        classes = find_classes(y, settings)
        folds = self._search_folds(rows, weights, classes, is_refit)
        if folds is None:
            _check_rows_to_leave_out(y, classes)
        Cs = default_Cs() if self.Cs is None else check_values("Cs", self.Cs)
        for C in (Cs[0], Cs[-1]):
            check_costs(C, weights[held], held)
        X = self._rows_or_kernel(rows, held)
        truth, judge = self._truth(y), None
        if not self._by_evidence:
            judge = Judge(
                *(check_scoring(self.scoring), X, truth, classes, rows.weights[held], weights[held]),
                is_classifier=is_classifier(self),
            )
        tasks = self._tasks
        told = None if tasks is None else (lambda: tasks.told("decomposition"))
        options = self.refine, self.n_jobs, bool(self.verbose), told
        given = Searched(rows, X, encode(y, classes), weights[held], folds)
        if judge is not None and folds is None and self._walks(settings, X):
            some = rows_to_search(X.shape[0])
            weight = weights[held][some]
            few = replace(
                judge, X=X[some], y=truth[some], sample_weight=judge.sample_weight[some], weights=weight
            )
            assert settings.kernel is not None
            exact, coarse = cell_paths(
                settings.kernel, X[some], given.targets[some], weight, settings.bias.is_free
            )
            search: Search = Walk(exact, few, *options, coarse=coarse, sampled=some.size < X.shape[0])
        else:
            search = Search(self._paths(settings, given), judge, *options, folds, self._by_target(y))
        self._search = found = search.run(Cs, self._gamma_values(settings))
        best = found.cells[found.best_of_targets[0]] if self._by_target(y) else found.best
        return self._in_cell(settings, rows, *best)

    def _by_target(self, y: np.ndarray[Any, Any]) -> bool:
        """Return whether each target has a C of its own."""
        return False

    def _in_cell(self, settings: Settings, rows: Rows, C: float, gamma: float | None) -> Settings:
        """Return the settings of a cell: gamma may be in more than one number of the kernel."""
        if gamma is None:
            return replace(settings, C=C)
        chosen = self._copy()
        chosen.gamma = gamma
        kernel, bias = chosen._kernel_and_bias(rows, settings.class_weight)
        return replace(settings, C=C, kernel=kernel, bias=bias)

    def _search_folds(
        self, rows: Rows, weights: FloatArray, classes: np.ndarray[Any, Any] | None, is_refit: bool
    ) -> list[IntArray] | None:
        """Return the rows of positive weight that leave together; None where each leaves alone."""
        if is_refit and self._had_groups:
            raise ValueError("the groups of the fit were not kept for refit: fit anew, with groups")
        if self.cv is None and self._groups is None:
            return None
        X = np.empty((rows.count, 1)) if self._is_precomputed else rows.X
        folds = Folds.of(self.cv, self._groups, X, rows.y, is_classifier=classes is not None)
        folds.check_rest(rows.y, weights, classes)
        return [fold for fold in folds.within(np.flatnonzero(weights > 0), rows.count) if fold.size]

    def _walks(self, settings: Settings, X: Matrix) -> bool:
        """Return whether the grid is ours, and so large that low-rank models say where to look."""
        ours = self.Cs is None and self.gammas is None and not getattr(self, "C_per_target", False)
        return ours and X.shape[0] >= WALK_ROWS and can_be_low_rank(settings.kernel)

    @property
    def _by_evidence(self) -> bool:
        return isinstance(self.scoring, str) and self.scoring == "evidence"

    def _gamma_values(self, settings: Settings) -> list[float | None]:
        if not self._has_gamma:
            return [None]
        assert settings.kernel is not None
        ours = default_gammas(settings.kernel.gamma)
        return [*(ours if self.gammas is None else check_values("gammas", self.gammas))]

    def _rows_or_kernel(self, rows: Rows, held: IntArray) -> Matrix:
        """Return the features of the rows in the problem, or their kernel matrix where that was given."""
        if not self._is_precomputed:
            return features(rows, held)
        if rows.n_columns:
            return rows.X[np.ix_(held, held)]
        # A model that is fitted again: its operator has K, of these very rows.
        everyone = np.arange(held.size)
        held_by = self._holding("searching anew").by_cost[0][1]
        return held_by.problem.operator.block(everyone, everyone)

    def _paths(self, settings: Settings, given: Searched) -> Any:
        """Return what makes the path over C of one gamma."""
        options: dict[str, Any] = {"free_bias": settings.bias.is_free, "folds": given.folds}
        X, targets, weights = given.X, given.targets, given.weights
        kernel = settings.kernel
        if kernel is None:
            return lambda gamma: KernelPath(np.array(X, np.float64, order="F"), targets, weights, **options)
        if settings.is_linear and X.shape[1] < X.shape[0]:
            return lambda gamma: LinearPath(X, targets, weights, **options)
        family = KernelFamily(kernel, X)

        def computed(gamma: float | None) -> Path:
            K = family(kernel.gamma if gamma is None else gamma)
            return KernelPath(K, targets, weights, **options)

        return computed

    def _kept_of_rows(self) -> list[str]:
        numbers = "C and gamma" if self._has_gamma else "C"
        chosen = f"{numbers} were chosen by scores on all rows of the fit, and stay until refit"
        return [*super()._kept_of_rows(), chosen]

    def _drop_results(self) -> None:
        # The scores were taken from the rows that left, too; C and gamma stay.
        self._search = self._groups_held = None

    def _results(self, attribute: str) -> SearchResults:
        self._fitted(attribute)
        if self._search is None:
            raise AttributeError(
                f"{attribute} was dropped when rows were forgotten, because it depends on them "
                "(models of C_path never have it); best_params_, C_ and gamma_ are kept, and refit() "
                "searches anew"
            )
        return self._search

    @property
    def cv_results_(self) -> dict[str, Any]:
        """Scores of all cells, as in ``GridSearchCV``; not after `forget`.

        ``mean_test_score`` is the score of all rows left out, taken together: of accuracies the mean over the
        folds, by their rows. Where folds or groups are given, ``split0_test_score, ...`` and
        ``std_test_score`` are of the folds by themselves.
        """
        return self._results("cv_results_").as_dict()

    @property
    def best_index_(self) -> Any:
        """Where the best cell stands in ``cv_results_``; of each target, where each has a C of its own."""
        results = self._results("best_index_")
        return results.best_of_targets if any(results.targets) else results.best_index

    @property
    def best_score_(self) -> Any:
        """The score of the best cell: of all rows left out, alone or by folds, or its evidence.

        Where each target has a C of its own, the scores of the targets.
        """
        results = self._results("best_score_")
        if not any(results.targets):
            return results.scores[results.best_index]
        return np.array([results.targets[place][j] for j, place in enumerate(results.best_of_targets)])

    @property
    def honest_score_(self) -> float:
        """The cross-validated score of the whole search on the rows held; computed when first asked for.

        ``best_score_`` is the largest of many, and so too good. Here each outer fold is judged by a model
        whose search never saw it: outer folds are those of `cv`, or 5 (of whole groups, where there are any)
        where single rows or groups leave. As in ``best_score_`` all rows are scored together; after
        ``scoring='evidence'`` by the coefficient of determination. It takes a search for each outer fold.
        """
        with REQUESTS:
            state = self._fitted("honest_score_")
            known = state.attribute("known")
            if known.honest_score is None:
                known.honest_score = self._nested(state.holding("honest_score_").rows.compact().as_given())
            return float(known.honest_score)

    def _nested(self, rows: Rows) -> float:
        """Return the score of rows by models of searches that lack their outer folds."""
        settings = self._fitted("honest_score_").settings
        weights = settings.row_weights(rows.y, rows.weights)
        held: IntArray = np.flatnonzero(weights > 0)
        X, y, own = self._rows_or_kernel(rows, held), rows.y[held], rows.weights[held]
        classes, groups, truth = find_classes(y, settings), self._groups_for(rows, held), self._truth(y)
        folds = self._outer_folds(X, y, classes, groups)
        folds.check_rest(y, weights[held], classes)
        values = np.empty_like(encode(y, classes))
        for fold in folds.rows:
            rest = np.setdiff1d(np.arange(y.shape[0]), fold)
            # Not a clone: callbacks were told of the fit, and not of this.
            inner = type(self)(**{**self.get_params(deep=False), "verbose": 0})
            columns = rest if self._is_precomputed else slice(None)
            inner.fit(
                X[rest][:, columns], truth[rest], own[rest], groups=None if groups is None else groups[rest]
            )
            values[fold] = inner._state.decision(X[fold][:, columns])
        scorer = None if self._by_evidence else check_scoring(self.scoring)
        return Judge(scorer, X, truth, classes, own, weights[held], is_classifier(self))(values)

    def _truth(self, y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return targets of rows as the caller gave them."""
        return indicator(y) if is_classifier(self) and y.ndim == 2 else y

    def _groups_for(self, rows: Rows, held: IntArray) -> np.ndarray[Any, Any] | None:
        if not self._had_groups:
            return None
        if self._groups_held is None or self._groups_held.shape[0] != rows.count:
            raise AttributeError(
                "honest_score_ needs the groups of all rows held, and these are not kept when rows are "
                "learned or forgotten, nor in a file: fit again with groups"
            )
        return self._groups_held[held]

    def _outer_folds(
        self,
        X: Matrix,
        y: np.ndarray[Any, Any],
        classes: np.ndarray[Any, Any] | None,
        groups: np.ndarray[Any, Any] | None,
    ) -> Folds:
        """Return the folds of `cv`, or 5; fewer where a class has fewer rows or there are fewer groups."""
        cv = self.cv
        if cv is None:
            counts = [y.shape[0]] if classes is None else [np.count_nonzero(y == label) for label in classes]
            parts = min(counts) if groups is None else len(set(groups.tolist()))
            cv = max(2, min(_OUTER_FOLDS, int(parts)))
        elif not isinstance(cv, Integral) and not hasattr(cv, "split"):
            raise ValueError(
                "honest_score_ repeats the search on parts of the rows, and lists of folds name all "
                "rows: cv must be a number or a splitter"
            )
        return Folds.of(cv, groups, X, y, is_classifier=classes is not None)

    @property
    def best_params_(self) -> dict[str, Any]:
        """The C, or that of each target, and the gamma where the kernel has one, that were chosen."""
        settings = self._fitted("best_params_").settings
        if not self._has_gamma:
            return {"C": self.C_}
        assert settings.kernel is not None
        return {"C": self.C_, "gamma": settings.kernel.gamma}


class HingeSearch(LooSearch):
    """A search whose cells are solved one after the other.

    There is no decomposition that serves every C, as the squared loss has. But the active set of one C is
    most of that of the next, and that of all rows is most of that without a fold.
    """

    def _walks(self, settings: Settings, X: Matrix) -> bool:
        return False  # Low-rank models of the squared hinge have no values of rows left out by themselves.

    def _paths(self, settings: Settings, given: Searched) -> Any:
        K = given.X if settings.kernel is None else None

        def path(gamma: float | None) -> HingePath:
            in_cell = self._in_cell(settings, given.rows, settings.C, gamma)
            return HingePath(given.rows, in_cell, given.folds, K)

        return path

    def _at(self, state: State) -> Any:
        """Return the model at another C: the search did not choose it."""
        model = super()._at(state)
        model._search = None
        return model


def _check_rows_to_leave_out(y: np.ndarray[Any, Any], classes: np.ndarray[Any, Any] | None) -> None:
    """Raise a ValueError where the problem without one of its rows is another one, or none."""
    if y.size < 2:
        raise ValueError(
            f"leaving one row out needs at least two rows of positive weight; got {y.size} (n_samples = 1)"
        )
    if classes is None:
        return
    for label in classes.tolist():
        if np.count_nonzero(y == label) == 1:
            raise ValueError(
                f"class {label!r} has only one row of positive weight, so a model without it could not "
                "predict that class: leave-one-out needs two rows of each class; add rows, or drop the class"
            )
