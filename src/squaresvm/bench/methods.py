"""Every method that a row may name: ours, and what a user would pick instead.

Peers are imported when a row asks for them. What is not installed raises a `MissingPeerError`, which the
runner turns into a row that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from squaresvm.solvers.choose import SOLVERS
from squaresvm.typing import FloatArray

__all__ = ["METHODS", "LagrangianIterate", "MissingPeerError", "is_peer", "make_method"]


class MissingPeerError(ImportError):
    """Which package a peer needs."""


class LagrangianIterate:
    """The LSVM paper's iteration stopped where the paper stops it: its tables count what that leaves.

    u <- Q^-1 (1 + ((Q - alpha) u - 1)_+), eq. (15), until a step is shorter than `tol`. Q = I/C + GG', or
    (GG')^degree in place of GG', with the rows of G = [x, 1] times their labels. The package's own solver of
    that name goes on to a certificate: its support vectors are the optimum's.

    Parameters
    ----------
    C : float
        The paper's nu.
    degree : int, default=1
        Of the kernel.
    tol : float, default=1e-3
    max_iter : int, default=10000
    stop : {'step', 'violation'}, default='step'
        Whether `tol` is of ``|u - previous u|``, as in the paper's tables, or of the violation of (14) in the
        2-norm, as in its dry run.

    Attributes
    ----------
    support_ : ndarray
        Rows whose multiplier is above 0, as the paper counts them.
    dual_coef_ : ndarray of shape (1, n_support)
        Their multipliers, signed. Predictions take the last iterate as it is, negative ones included.
    n_iter_ : int
    violation_ : float
        Of (14), in the 2-norm.

    Examples
    --------
    >>> import numpy as np
    >>> from squaresvm.bench.methods import LagrangianIterate
    >>> model = LagrangianIterate(C=1.0).fit(np.array([[2.0], [-2.0]]), np.array([1.0, -1.0]))
    >>> model.predict(np.array([[0.5], [-3.0]]))
    array([ 1., -1.])
    """

    def __init__(
        self,
        C: float = 1.0,
        degree: int = 1,
        tol: float = 1e-3,
        max_iter: int = 10_000,
        stop: str = "step",
    ) -> None:
        self.C, self.degree, self.tol, self.max_iter, self.stop = C, degree, tol, max_iter, stop

    def fit(self, X: FloatArray, y: FloatArray) -> LagrangianIterate:
        """Iterate on rows with labels +-1."""
        product, solved = self._system(y[:, None] * _with_ones(X))
        alpha = 1.9 / self.C

        def right_side(u: FloatArray) -> FloatArray:
            """Return 1 + ((Q u - 1) - alpha u)_+ of (15), and note how far (14) is from holding."""
            excess = product(u) - 1.0
            positive = np.maximum(excess - alpha * u, 0.0)
            self.violation_ = float(np.linalg.norm(excess - positive))  # (14)
            return 1.0 + positive

        u, step, self.n_iter_ = solved(np.ones(len(y))), np.inf, 0
        z = right_side(u)
        while self.n_iter_ < self.max_iter:
            if (step if self.stop == "step" else self.violation_) <= self.tol:
                break
            before, u = u, solved(z)  # (15)
            step, z = float(np.linalg.norm(u - before)), right_side(u)
            self.n_iter_ += 1
        self._rows, self._beta, self._w = X, y * u, _with_ones(X).T @ (y * u)
        self.support_ = np.flatnonzero(u > 0)
        self.dual_coef_ = self._beta[None, self.support_]
        return self

    def _system(self, G: FloatArray) -> tuple[_Map, _Map]:
        """Return what maps u to Q u, and z to Q^-1 z."""
        if self.degree == 1:
            small = np.linalg.inv(np.eye(G.shape[1]) / self.C + G.T @ G)
            # (10), and its inverse by Sherman, Morrison and Woodbury, (1).
            return lambda u: u / self.C + G @ (G.T @ u), lambda z: self.C * (z - G @ (small @ (G.T @ z)))
        signs = G[:, -1]
        Q = np.outer(signs, signs) ** (self.degree + 1) * (G @ G.T) ** self.degree  # (27)
        Q[np.diag_indices_from(Q)] += 1.0 / self.C
        inverse = np.linalg.inv(Q)
        return lambda u: Q @ u, lambda z: inverse @ z

    def decision_function(self, X: FloatArray) -> FloatArray:
        """Return decision values."""
        if self.degree == 1:
            return np.asarray(_with_ones(X) @ self._w)
        K = (_with_ones(X) @ _with_ones(self._rows).T) ** self.degree
        return np.asarray(K @ self._beta)

    def predict(self, X: FloatArray) -> Any:
        """Return signs."""
        return np.where(self.decision_function(X) > 0, 1.0, -1.0)


_Map = Callable[[FloatArray], FloatArray]


def _with_ones(X: FloatArray) -> FloatArray:
    return np.column_stack([X, np.ones(len(X))])


class PrunedLSSVC:
    """The LS-SVM pruned as the RLSSVM paper's package does by default: 5 % of the rows a round, to 75 %.

    Parameters
    ----------
    budget : float, default=0.75
        Share of the rows that may be left.
    **parameters
        Those of `LSSVC`.
    """

    def __init__(self, budget: float = 0.75, **parameters: Any) -> None:
        self.budget, self.parameters = budget, parameters

    def fit(self, X: FloatArray, y: FloatArray) -> PrunedLSSVC:
        """Fit all rows, then drop those of the smallest multipliers."""
        package = import_module("squaresvm")
        whole = package.LSSVC(**self.parameters).fit(X, y)
        self._model = package.prune(whole, budget=int(self.budget * len(y))).model
        self.support_, self.dual_coef_, self.n_iter_ = (
            self._model.support_,
            self._model.dual_coef_,
            self._model.n_iter_,
        )
        return self

    def predict(self, X: FloatArray) -> Any:
        """Return labels."""
        return self._model.predict(X)


class SquaredHingeSVC:
    """scikit-learn's SVC at the squared hinge's optimum: its hard margin on K + I/C.

    Parameters
    ----------
    C : float
    kernel : {'linear', 'rbf'}
    gamma : float
    """

    def __init__(self, C: float = 1.0, kernel: str = "rbf", gamma: float = 1.0) -> None:
        self.C, self.kernel, self.gamma = C, kernel, gamma

    def _gram(self, X: FloatArray, Z: FloatArray) -> FloatArray:
        pairwise = import_module("sklearn.metrics.pairwise")
        if self.kernel == "linear":
            return pairwise.linear_kernel(X, Z)
        return pairwise.rbf_kernel(X, Z, gamma=self.gamma)

    def fit(self, X: FloatArray, y: FloatArray) -> SquaredHingeSVC:
        """Fit on all rows."""
        svm = import_module("sklearn.svm")
        K = self._gram(X, X)
        K[np.diag_indices_from(K)] += 1.0 / self.C
        self._rows = X
        self._model = svm.SVC(kernel="precomputed", C=1e12, cache_size=500).fit(K, y)
        self.support_ = self._model.support_
        return self

    def predict(self, X: FloatArray) -> Any:
        """Return labels."""
        values = self._gram(X, self._rows[self.support_]) @ self._model.dual_coef_[0]
        return self._model.classes_[(values + self._model.intercept_[0] > 0).astype(int)]


class NystroemRidge:
    """scikit-learn's Nystroem features with a RidgeClassifier."""

    def __init__(self, C: float = 1.0, gamma: float = 1.0, n_components: int = 300) -> None:
        features = import_module("sklearn.kernel_approximation")
        linear = import_module("sklearn.linear_model")
        make = import_module("sklearn.pipeline").make_pipeline
        self._model = make(
            features.Nystroem(gamma=gamma, n_components=n_components, random_state=0),
            linear.RidgeClassifier(alpha=1.0 / C),
        )

    def fit(self, X: FloatArray, y: FloatArray) -> NystroemRidge:
        """Fit, with at most one landmark a row."""
        self._model[0].n_components = min(self._model[0].n_components, len(y))
        self._model.fit(X, y)
        return self

    def predict(self, X: FloatArray) -> Any:
        """Return labels."""
        return self._model.predict(X)


class KernelRidgeSigns:
    """scikit-learn's KernelRidge on labels +-1: the squared loss without a bias."""

    def __init__(self, **parameters: Any) -> None:
        self._model = import_module("sklearn.kernel_ridge").KernelRidge(**parameters)

    def fit(self, X: FloatArray, y: FloatArray) -> KernelRidgeSigns:
        """Fit values."""
        self._model.fit(X, y)
        return self

    def predict(self, X: FloatArray) -> Any:
        """Return signs."""
        return np.where(self._model.predict(X) > 0, 1.0, -1.0)


class _CommandStyle:
    """LIBSVM's and LIBLINEAR's own Python, whose parameters are those of their commands."""

    module, train, predict_name = "", "", ""

    def __init__(self, options: str = "") -> None:
        self.options = options
        self._package = import_module(self.module)

    def fit(self, X: FloatArray, y: FloatArray) -> _CommandStyle:
        """Fit all rows."""
        self._model = getattr(self._package, self.train)(y, X, f"{self.options} -q")
        return self

    def predict(self, X: FloatArray) -> Any:
        """Return labels."""
        zeros = np.zeros(len(X))
        return np.asarray(getattr(self._package, self.predict_name)(zeros, X, self._model, "-q")[0])


class Libsvm(_CommandStyle):
    """libsvm-official."""

    module, train, predict_name = "libsvm.svmutil", "svm_train", "svm_predict"

    def fit(self, X: FloatArray, y: FloatArray) -> _CommandStyle:
        """Fit all rows and note the support vectors."""
        super().fit(X, y)
        self.support_ = np.asarray(self._model.get_sv_indices()) - 1
        return self


class Liblinear(_CommandStyle):
    """liblinear-official or liblinear-multicore."""

    module, train, predict_name = "liblinear.liblinearutil", "train", "predict"


def _from(module: str, name: str) -> Callable[..., Any]:
    return lambda **parameters: getattr(import_module(module), name)(**parameters)


#: Name in the tables: package to install, and what makes an estimator of the row's parameters.
METHODS: Mapping[str, tuple[str, Callable[..., Any]]] = {
    **{
        name: ("squaresvm", _from("squaresvm", name))
        for name in ("LSSVC", "RelaxedLSSVC", "ProximalSVC", "LagrangianSVC", "RLSSVC")
    },
    "the LSVM paper's iterate": ("squaresvm", LagrangianIterate),
    "LSSVC, pruned": ("squaresvm", PrunedLSSVC),
    "sklearn.LinearSVC": ("scikit-learn", _from("sklearn.svm", "LinearSVC")),
    "sklearn.SVC": ("scikit-learn", _from("sklearn.svm", "SVC")),
    "sklearn.SVC on K + I/C": ("scikit-learn", SquaredHingeSVC),
    "sklearn.KernelRidge": ("scikit-learn", KernelRidgeSigns),
    "sklearn.RidgeClassifier": ("scikit-learn", _from("sklearn.linear_model", "RidgeClassifier")),
    "sklearn.RidgeClassifierCV": ("scikit-learn", _from("sklearn.linear_model", "RidgeClassifierCV")),
    "sklearn.Nystroem": ("scikit-learn", NystroemRidge),
    "libsvm": ("libsvm-official", Libsvm),
    "liblinear": ("liblinear-multicore", Liblinear),
    "neo-ls-svm": ("neo-ls-svm", _from("neo_ls_svm", "NeoLSSVM")),
    "sklearnex.SVC": ("scikit-learn-intelex", _from("sklearnex.svm", "SVC")),
}


def is_peer(method: str) -> bool:
    """Return whether a method is not ours."""
    return METHODS[method][0] != "squaresvm"


def make_method(method: str, parameters: Mapping[str, Any]) -> Any:
    """Return an estimator that is not fitted yet.

    Parameters
    ----------
    method : str
        A key of `METHODS`.
    parameters : mapping
        In the method's own words and scale; a solver of ours with options is a mapping with its ``name``.

    Examples
    --------
    >>> from squaresvm.bench.methods import make_method
    >>> make_method("LSSVC", {"C": 2.0})
    LSSVC(C=2.0)
    """
    package, make = METHODS[method]
    if isinstance(parameters.get("solver"), Mapping):
        options = dict(parameters["solver"])
        parameters = {**parameters, "solver": type(SOLVERS[options.pop("name")])(**options)}
    try:
        return make(**parameters)
    except ImportError as error:
        raise MissingPeerError(f"{package} is not installed ({error})") from None
