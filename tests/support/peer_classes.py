"""Our estimators under the names and parameters of scikit-learn's: what its own tests are run with.

An adapter has the parameters of its peer and translates them when it is fitted. Where settings of the peer
have no counterpart here (other losses, folds), the peer itself is what a call of the adapter returns.
"""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import numpy as np
from sklearn import ensemble, kernel_ridge, linear_model, svm, tree
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils import get_tags

from squaresvm import LSSVC, LSSVCCV, LSSVR, LSSVRCV, RLSSVC, LagrangianSVC

#: What `tol` is at least and at most here, where it bounds the residual of the certificate: our default.
_FINEST, _COARSEST = 1e-12, 1e-6
_CLASSIFY = ("predict", "decision_function", "score")


class Adapter(BaseEstimator):
    """An estimator of ours with the name and the parameters of a peer."""

    peer: ClassVar[type]
    ours: ClassVar[type]
    methods: ClassVar[tuple[str, ...]]
    #: How often a model of ours was asked for, so that no test passes without one.
    asked: ClassVar[int] = 0

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls.has(**_bound(cls.peer, args, kwargs)):
            return super().__new__(cls)
        return cls.peer(*args, **kwargs)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.__dict__.update(_bound(self.peer, args, kwargs))

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(inspect.signature(cls.peer).parameters)

    @classmethod
    def has(cls, **parameters: Any) -> bool:
        """Return whether the parameters of the peer mean something here."""
        return True

    def translated(self) -> dict[str, Any]:
        """Return our parameters."""
        raise NotImplementedError

    def _model(self) -> Any:
        """Return the fitted model, or one that is not fitted and says so."""
        Adapter.asked += 1
        if "model_" in self.__dict__:
            return self.__dict__["model_"]
        # Messages name the class, so it bears the name of the peer.
        named = type(self.peer.__name__, (self.ours,), {"__module__": __name__})
        return named(**self.translated())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        self.__dict__.pop("model_", None)
        if np.isscalar(sample_weight):
            sample_weight = np.full(len(y), float(sample_weight))
        self.model_ = self._model().fit(X, y, sample_weight=sample_weight)
        return self

    def __getattr__(self, name: str) -> Any:
        """Return a method that the peer has too, or a fitted attribute."""
        is_fitted_attribute = name.endswith("_") and not name.startswith("_") and name != "model_"
        if name in self.methods or (is_fitted_attribute and "model_" in self.__dict__):
            return getattr(self._model(), name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def coef_(self) -> Any:
        return self.__getattr__("coef_")

    def __sklearn_tags__(self) -> Any:
        return get_tags(self._model())

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in self.__dict__


def _bound(peer: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    bound = inspect.signature(peer).bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


def _tol(tol: float) -> float:
    return min(max(tol, _FINEST), _COARSEST)


class SVC(Adapter):
    """RLSSVC: the squared hinge in the place of the hinge, one class against the rest."""

    peer, ours, methods = svm.SVC, RLSSVC, _CLASSIFY

    def translated(self) -> dict[str, Any]:
        same = ("C", "kernel", "degree", "gamma", "coef0", "class_weight", "random_state")
        limit = None if self.max_iter == -1 else self.max_iter
        return {name: getattr(self, name) for name in same} | {"tol": _tol(self.tol), "max_iter": limit}

    def __getattr__(self, name: str) -> Any:
        if name in ("predict_proba", "predict_log_proba") and self.probability is True:
            return getattr(self._model(), name)
        return super().__getattr__(name)

    @property
    def _gamma(self) -> float:
        return self.model_.gamma_


class SVR(Adapter):
    """LSSVR: the squared loss in the place of the epsilon-insensitive one."""

    peer, ours, methods = svm.SVR, LSSVR, ("predict", "score")

    def translated(self) -> dict[str, Any]:
        same = ("C", "kernel", "degree", "gamma", "coef0")
        return {name: getattr(self, name) for name in same} | {"tol": _tol(self.tol)}


class LinearSVC(Adapter):
    """LagrangianSVC with a linear kernel: the same problem, whose loss has a factor of one half here."""

    peer, ours, methods = svm.LinearSVC, LagrangianSVC, _CLASSIFY

    @classmethod
    def has(cls, *, penalty: str, loss: str, multi_class: str, **others: Any) -> bool:
        return (penalty, loss, multi_class) == ("l2", "squared_hinge", "ovr")

    def translated(self) -> dict[str, Any]:
        same = ("fit_intercept", "class_weight", "random_state", "verbose")
        return {name: getattr(self, name) for name in same} | {
            "kernel": "linear",
            "C": 2.0 * self.C,
            "A": 1.0 / self.intercept_scaling**2,
            "tol": _tol(self.tol),
        }


#: A solver of ours for each of Ridge's, of a like kind where there is one.
_FREE = {
    "auto": "auto",
    "svd": "direct",
    "cholesky": "direct",
    "sparse_cg": "cg",
    "lsqr": "cg",
    "sag": "substitution",
    "saga": "penalty-flow",
}
_ABSENT = {**_FREE, "sag": "2smo", "saga": "2smo"}


class Ridge(Adapter):
    """LSSVR with a linear kernel and C = 1 / alpha."""

    peer, ours, methods = linear_model.Ridge, LSSVR, ("predict", "score")

    @classmethod
    def has(cls, *, positive: bool, **others: Any) -> bool:
        return not positive

    def translated(self) -> dict[str, Any]:
        solvers = _FREE if self.fit_intercept else _ABSENT
        return {
            "kernel": "linear",
            "C": 1.0 / self.alpha,
            "fit_intercept": self.fit_intercept,
            "tol": _tol(self.tol),
            "solver": solvers[self.solver],
        }

    @property
    def coef_(self) -> Any:
        """Coefficients, flat where there is one target."""
        coef = self.__getattr__("coef_")
        return coef[0] if len(coef) == 1 else coef

    @property
    def intercept_(self) -> Any:
        if not self.fit_intercept:
            return 0.0
        intercept = self.__getattr__("intercept_")
        return intercept[0] if self.model_._state.is_flat else intercept

    @property
    def solver_(self) -> str:
        """The peer's name of the solver, after a look at whether ours ran."""
        ran, asked = self.__getattr__("solver_"), self.translated()["solver"]
        if asked not in ("auto", ran):
            raise AssertionError(f"{ran} ran where {asked} was asked for")
        return self.solver


class KernelRidge(Adapter):
    """LSSVR without a bias and C = 1 / alpha; kernels that we have no name for are given as callables."""

    peer, ours, methods = kernel_ridge.KernelRidge, LSSVR, ("predict", "score")

    def translated(self) -> dict[str, Any]:
        own = ("linear", "rbf", "poly", "sigmoid", "laplacian", "precomputed")
        return {
            "kernel": self.kernel if self.kernel in own else self._called,
            "gamma": "auto" if self.gamma is None else self.gamma,
            "degree": self.degree,
            "coef0": self.coef0,
            "C": 1.0 / self.alpha,
            "fit_intercept": False,
        }

    def _called(self, X: Any, Z: Any) -> Any:
        return pairwise_kernels(X, Z, metric=self.kernel)


class RidgeClassifier(Adapter):
    """LSSVC with a linear kernel and C = 1 / alpha."""

    peer, ours, methods = linear_model.RidgeClassifier, LSSVC, _CLASSIFY

    def translated(self) -> dict[str, Any]:
        return {
            "kernel": "linear",
            "C": 1.0 / self.alpha,
            "fit_intercept": self.fit_intercept,
            "class_weight": self.class_weight,
            "tol": _tol(self.tol),
        }


class _Search(Adapter):
    """What both searches share: alphas are inverse Cs, and folds are the peer's business."""

    @classmethod
    def has(cls, *, cv: Any, **others: Any) -> bool:
        return cv is None

    def translated(self) -> dict[str, Any]:
        return {
            "kernel": "linear",
            "Cs": [1.0 / alpha for alpha in self._alphas()],
            "fit_intercept": self.fit_intercept,
            "scoring": self.scoring,
        }

    def _alphas(self) -> list[float]:
        return np.atleast_1d(self.alphas).tolist()

    @property
    def alpha_(self) -> Any:
        """The alpha whose inverse was chosen, as it was given; of each target where there are several."""
        alphas = np.array(self._alphas())
        chosen = alphas[np.abs(np.log(np.multiply.outer(self.model_.C_, alphas))).argmin(axis=-1)]
        return chosen if np.ndim(chosen) else float(chosen)


class RidgeCV(_Search):
    """LSSVRCV with a linear kernel, by the peer's default score."""

    peer, ours, methods = linear_model.RidgeCV, LSSVRCV, ("predict", "score")

    def translated(self) -> dict[str, Any]:
        scoring = self.scoring or "neg_mean_squared_error"
        return super().translated() | {"scoring": scoring, "C_per_target": self.alpha_per_target}

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        super().fit(X, y, sample_weight)
        self._given = X, np.asarray(y), sample_weight
        return self

    @property
    def coef_(self) -> Any:
        """Coefficients, flat where there is one target."""
        coef = self.__getattr__("coef_")
        return coef[0] if len(coef) == 1 else coef

    @property
    def intercept_(self) -> Any:
        if not self.fit_intercept:
            return 0.0
        intercept = self.__getattr__("intercept_")
        return intercept[0] if self.model_._state.is_flat else intercept

    @property
    def cv_results_(self) -> Any:
        """Squared errors of all rows left out, a column an alpha; with a scorer, predicted values."""
        if not self.store_cv_results:
            raise AttributeError("cv_results_ is not stored")
        X, y, weights = self._given
        columns = []
        for alpha in self._alphas():
            model = LSSVR(kernel="linear", C=1.0 / alpha, fit_intercept=self.fit_intercept)
            values = model.fit(X, y, sample_weight=weights).loo_predict()
            counts = 1.0 if weights is None else weights.reshape(-1, *[1] * (y.ndim - 1))
            columns.append((y - values) ** 2 * counts if self.scoring is None else values)
        return np.stack(columns, axis=-1)


class RidgeClassifierCV(_Search):
    """LSSVCCV with a linear kernel, by its own default score."""

    peer, ours, methods = linear_model.RidgeClassifierCV, LSSVCCV, _CLASSIFY

    @property
    def coef_(self) -> Any:
        """Coefficients, flat where there are two classes."""
        coef = self.__getattr__("coef_")
        return coef[0] if len(coef) == 1 else coef

    def translated(self) -> dict[str, Any]:
        return super().translated() | {"class_weight": self.class_weight}


class StandIn(Adapter):
    """LSSVC where a test needs nothing but some classifier, with probabilities or coefficients."""

    ours, methods = LSSVC, (*_CLASSIFY, "predict_proba", "predict_log_proba")

    def translated(self) -> dict[str, Any]:
        return {"kernel": "linear"}


class LogisticRegression(StandIn):
    peer = linear_model.LogisticRegression


class RandomForestClassifier(StandIn):
    peer = ensemble.RandomForestClassifier


class DecisionTreeClassifier(StandIn):
    peer = tree.DecisionTreeClassifier
