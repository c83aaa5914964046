"""Random histories of requests, round trips and copies, each step judged by the referee.

A history is drawn from its seed alone, so `run(seed)` is the way to replay one. A step is a silent wrong
answer where certificate or receipt say that all is well, and the residual in extended precision, or the
decision values, say that it is not.
"""

from __future__ import annotations

import copy
import pickle
import tempfile
import warnings
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import squaresvm
from support import referee
from support.hands import PATIENCE, in_child, start
from support.random_settings import M_LEAST, M_MOST, random_setting, resolved

#: A claim is a lie where the truth is this many times tol, or what float64 leaves of K beta.
SLACK = 10.0
ROUNDING = 100.0
STEPS = 40


@dataclass(frozen=True)
class Failure:
    """A silent wrong answer, an error where there should be none, or rows other than the record's."""

    seed: int
    step: int
    action: str
    fault: str
    words: str

    def __str__(self):
        return f"seed {self.seed} step {self.step} {self.action}: {self.fault}; {self.words}"


@dataclass
class Subject:
    """A model and the record of the rows that it should hold."""

    model: object
    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    ids: np.ndarray
    class_weight: dict | None = None
    warned: bool = False


@dataclass
class Outcome:
    """What became of a history."""

    steps: int = 0
    refused: int = 0
    statuses: dict = field(default_factory=dict)
    failures: list = field(default_factory=list)


def run(seed, steps=STEPS, forks=False, wild=None):
    """Run the history of a seed; return its outcome, which ends at the first failure."""
    return _History(seed, forks, wild).run(steps)


class _History:
    def __init__(self, seed, forks, wild):
        self.seed, self.forks = seed, forks
        self.setting = random_setting(seed, wild)
        self.rng = self.setting.rng
        self.outcome = Outcome()
        self.subjects = []
        self.arrived = 0

    # Steps -----------------------------------------------------------------------------------------

    def run(self, steps):
        least = max(M_LEAST, 2 * self.setting.classes)
        m = int(self.rng.integers(least, M_MOST // 2)) if self.rng.random() < 0.8 else least
        if not self._stepped(0, "fit", lambda: self._fit(m)):
            return self.outcome
        for step in range(1, steps):
            subject = self.subjects[self.rng.integers(len(self.subjects))]
            name = self._drawn()
            if not self._stepped(step, name, lambda s=subject, n=name: getattr(self, f"_{n}")(s)):
                break
        return self.outcome

    def _drawn(self):
        names = ["learn"] * 6 + ["forget"] * 7 + ["forget_class", "flush", "loo", "loo", "predict", "refit"]
        names += ["copy", "pickle", "file", "thread"] + (["fork"] if self.forks else [])
        return names[self.rng.integers(len(names))]

    def _stepped(self, step, action, act):
        """Do one step and judge it; return whether the history goes on."""
        self.outcome.steps += 1
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                done = act()
            if done is None:  # Nothing to do for such a model.
                return True
            subject, receipt = done
            subject.warned |= any(issubclass(one.category, ConvergenceWarning) for one in caught)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fault = self._judge(subject, receipt, fresh=step % 6 == 5)
        except Exception as error:
            if self._is_refusal(error):
                self.outcome.refused += 1
                return bool(self.subjects)  # The next step sees whether anything has changed.
            fault = f"{type(error).__name__}: {str(error)[:150]}"
        if fault:
            words = " ".join(self.setting.words.split())
            self.outcome.failures.append(Failure(self.seed, step, action, fault, words))
        return not fault

    def _is_refusal(self, error):
        """Return whether a model says in so many words that it cannot: loud, and so no silent wrong answer.

        Rows in a linear kernel are always positive semidefinite, so there no refusal of that kind is right.
        """
        if not isinstance(error, ValueError):
            return False
        words = str(error)
        if "positive definite" in words or "positive semidefinite" in words:
            return self.setting.kernel != "linear"
        if "Solvers that fit" in words:  # A solver was asked for that does not solve this problem.
            return self.setting.has_solver
        return "range of float64" in words or "too large" in words

    def _fit(self, m):
        X, y, weights = self.setting.first_rows(m)
        model = clone(self.setting.model)
        if self.setting.wrapper == "window":
            model.size = max(model.size, 2 * self.setting.classes)
        model.fit(self.setting.given(X, X), y, sample_weight=weights)
        self.arrived = m
        subject = Subject(model, X, y, weights, np.arange(m))
        self._keep(subject, np.isin(subject.ids, model.ids_))  # A window may be smaller than m.
        subject.class_weight = self._class_weights(model)
        self.subjects.append(subject)
        return subject, None

    def _class_weights(self, model):
        """Return what each class weighs from now on: as given, or as the fit resolved it."""
        given = self.setting.class_weight
        if given is None or self.setting.wrapper == "pairs":
            return None
        if isinstance(given, dict):
            return given
        return dict(zip(model.classes_.tolist(), model.class_weight_.tolist(), strict=True))

    def _keep(self, subject, mask):
        subject.X, subject.y, subject.weights = subject.X[mask], subject.y[mask], subject.weights[mask]
        subject.ids = subject.ids[mask]

    def _learn(self, subject):
        k = int(self.rng.integers(1, 4))
        if subject.ids.size + k > M_MOST:
            return self._forget(subject)
        X, y, weights = self.setting.rows(k)
        if self.setting.wrapper == "pairs":
            weights = np.where(weights > 0, weights, 1.0)  # Pairs refuse a class of rows without weight.
        together = np.vstack([subject.X, X])
        if self.setting.wrapper == "window":
            counted = np.concatenate([subject.weights, weights])[-subject.model.size :] > 0
            labels = np.concatenate([subject.y, y])[-subject.model.size :]
            if not counted.any() or (self.setting.classes and np.unique(labels[counted]).size < 2):
                return None
        next_id = int(subject.ids.max(initial=-1)) + 1
        subject.model.learn(self.setting.given(X, together), y, sample_weight=weights)
        ids = np.asarray(subject.model.ids_)[-k:]
        assert np.all(ids >= next_id), "arrival numbers fell"
        subject.X, subject.y = together, np.concatenate([subject.y, y])
        subject.weights = np.concatenate([subject.weights, weights])
        subject.ids = np.concatenate([subject.ids, ids])
        if self.setting.wrapper == "window":
            self._keep(subject, np.arange(subject.ids.size) >= subject.ids.size - subject.model.size)
        self._late_classes(subject)
        return subject, None

    def _late_classes(self, subject):
        """What 'balanced' gave a class goes with its last row; one that comes weighs what the model says."""
        if subject.class_weight is None or isinstance(self.setting.class_weight, dict):
            return
        held = set(subject.model.classes_.tolist())
        subject.class_weight = {k: v for k, v in subject.class_weight.items() if k in held}
        found = zip(subject.model.classes_.tolist(), subject.model.class_weight_.tolist(), strict=True)
        for label, weight in found:
            subject.class_weight.setdefault(label, weight)

    def _forget(self, subject):
        k = int(self.rng.integers(1, 4))
        gone = self.rng.choice(subject.ids, size=min(k, subject.ids.size), replace=False)
        return self._without(subject, gone)

    def _forget_class(self, subject):
        if self.setting.classes != 3:
            return None
        return self._without(subject, subject.ids[subject.y == self.rng.integers(3)])

    def _without(self, subject, gone, ask=None):
        stay = ~np.isin(subject.ids, gone)
        counted = stay & (subject.weights > 0)
        enough = np.unique(subject.y[counted]).size >= 2 if self.setting.classes else counted.sum() >= 1
        if not enough or gone.size == 0:
            return None
        receipt = (ask or subject.model.forget)(gone.tolist())
        self._keep(subject, stay)
        self._late_classes(subject)
        if self.setting.wrapper == "pairs":  # Rows of weight zero leave with the rest of their class.
            self._keep(subject, np.isin(subject.y, np.unique(subject.y[subject.weights > 0])))
        return subject, receipt

    def _flush(self, subject):
        if not hasattr(subject.model, "flush"):
            return None
        subject.model.flush()
        return subject, None

    def _loo(self, subject):
        model = subject.model
        counted = subject.weights > 0
        if not hasattr(model, "loo_score") or counted.sum() < 3:
            return None
        unknown = self.setting.kernel == "precomputed" and not counted.all()
        counts = np.unique(subject.y[counted], return_counts=True)[1] if self.setting.classes else [2]
        if unknown or min(counts) < 2:
            return None
        model.loo_score()
        return subject, None

    def _predict(self, subject):
        X = self.setting.given(subject.X[:4], subject.X)
        subject.model.predict(X)
        return subject, None

    def _refit(self, subject):
        present = set(np.unique(subject.y[subject.weights > 0]).tolist())
        if isinstance(self.setting.class_weight, dict) and set(self.setting.class_weight) - present:
            return None
        counts = np.unique(subject.y[subject.weights > 0], return_counts=True)[1]
        if self.setting.wrapper == "search" and counts.min() < 2:
            return None  # The search leaves one out, which needs two rows a class.
        subject.model.refit()
        if not isinstance(self.setting.class_weight, dict):
            subject.class_weight = self._class_weights(subject.model)
        return subject, None

    def _copy(self, subject):
        way = copy.copy if self.rng.random() < 0.5 else copy.deepcopy
        return self._beside(subject, way(subject.model))

    def _pickle(self, subject):
        return self._beside(subject, pickle.loads(pickle.dumps(subject.model)))

    def _file(self, subject):
        if self.setting.kernel == "callable" or self.setting.wrapper == "window":
            return None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.model"
            squaresvm.save(subject.model, path, factor=bool(self.rng.random() < 0.5))
            other = squaresvm.load(path)
        if subject.class_weight is not None and isinstance(self.setting.class_weight, dict):
            # A file names no class that is gone: should it come back, it weighs what that of any name does.
            subject = replace(subject, class_weight=dict(other.class_weight))
        return self._beside(subject, other)

    def _beside(self, subject, model):
        """Keep both the original and what was made from it, up to three; judge the new one now."""
        other = replace(subject, model=model)
        if len(self.subjects) < 3:
            self.subjects.append(other)
        else:
            self.subjects[self.rng.integers(3)] = other
        return other, None

    def _thread(self, subject):
        """Forget while another thread leaves one out of the same model."""
        if not hasattr(subject.model, "loo_score") or self.setting.kernel == "precomputed":
            return None
        model, errors, threads = subject.model, [], []

        def forget(ids):
            threads.append(start(model.loo_score))
            return model.forget(ids)

        found = self._without(subject, self.rng.choice(subject.ids, size=1), ask=forget)
        for thread, raised in threads:
            thread.join(PATIENCE)
            errors += [e for e in raised if not isinstance(e, ValueError)]
        if errors:
            raise errors[0]
        return found

    def _fork(self, subject):
        if self.rng.random() > 0.1 or subject.ids.size < 8:
            return None
        gone = subject.ids[:1].tolist()
        assert in_child(lambda: subject.model.forget(gone)) != "hangs", "a forked child hangs"
        return subject, None

    # Judging ---------------------------------------------------------------------------------------

    def _judge(self, subject, receipt, fresh):
        """Return what is wrong with a model after a step, or an empty text."""
        model = subject.model
        if np.asarray(model.ids_).tolist() != subject.ids.tolist():
            return f"holds rows {np.asarray(model.ids_).tolist()} in place of {subject.ids.tolist()}"
        if self.setting.wrapper == "pairs":
            return self._judge_pairs(subject, receipt)
        inner = model.estimator_ if self.setting.wrapper == "window" else model
        return self._judge_one(inner, subject, receipt, fresh)

    def _judge_pairs(self, subject, receipt):
        model = subject.model
        for pair, inner in zip(combinations(model.classes_.tolist(), 2), model.estimators_, strict=True):
            mine = np.isin(subject.y, pair)
            part = Subject(inner, subject.X[mine], subject.y[mine], subject.weights[mine], subject.ids[mine])
            part.warned = subject.warned
            fault = self._judge_one(inner, part, receipt, fresh=False)
            if fault:
                return f"pair {pair}: {fault}"
        return ""

    def _judge_one(self, model, subject, receipt, fresh):
        given = self.setting.given(subject.X, subject.X)
        p = referee.problem_of(model, given, subject.y, subject.weights, class_weight=subject.class_weight)
        truth, certificate, tol = referee.judge(p), model.certificate_, model.tol
        counts = self.outcome.statuses
        counts[str(certificate.status)] = counts.get(str(certificate.status), 0) + 1
        bound = SLACK * tol + ROUNDING * truth.rounding
        if certificate.status == "converged" and not truth.residual <= bound:
            return f"certificate {certificate.residual:.1e} converged, truly {truth.residual:.1e}"
        if receipt is not None and receipt.residual <= tol and not truth.residual <= bound:
            return f"receipt {receipt.residual:.1e}, truly {truth.residual:.1e}"
        if certificate.status == "precision" and not subject.warned:
            fault = self._precision(model, p, truth, certificate)
            if fault:
                return fault
        fault = self._said(model, p, truth, subject, given) if self.outcome.steps % 3 == 0 else ""
        if not fault and fresh:
            fault = self._against_fresh(model, p, truth, subject, given)
        return fault

    @staticmethod
    def _precision(model, p, truth, certificate):
        """'precision' without a warning must not hide an f that is off by a tenth of the targets' scale."""
        likely = np.sqrt(2 * max(truth.gap, 0.0) / float(p.costs.sum())) / truth.scale
        if likely <= 0.1 or len(p.costs) > 40:
            return ""
        off = max(
            np.abs(truth.decision[:, k].astype(float) - answer.decision).max()
            for k, answer in enumerate(referee.exact_of(p))
        )
        if off <= 0.1 * truth.scale:
            return ""
        return f"precision without a warning, residual {certificate.residual:.1e}, f off by {off:.1e}"

    @staticmethod
    def _said(model, p, truth, subject, given):
        """Decision values must be those that the coefficients stand for."""
        said = model.predict(given) if referee.is_regression(model) else model.decision_function(given)
        said = np.asarray(said).reshape(len(subject.y), -1)[p.held]
        off = float(np.abs(said - truth.decision).max()) / truth.scale
        bound = 1e-6 + ROUNDING * truth.rounding
        if subject.warned and not np.isfinite(bound):
            return ""  # Beyond what the referee can judge, and the model has said that it is beyond its own.
        return "" if off <= bound else f"decisions off by {off:.1e} from the coefficients"

    @staticmethod
    def _against_fresh(model, p, truth, subject, given):
        """A fresh fit of the same rows and numbers: both are within their gaps of the one optimum."""
        other = resolved(model, subject.class_weight).fit(given, subject.y, sample_weight=subject.weights)
        q = referee.problem_of(other, given, subject.y, subject.weights, class_weight=subject.class_weight)
        theirs = referee.judge(q)
        if subject.warned and "converged" not in {model.certificate_.status, other.certificate_.status}:
            return ""  # Nothing is claimed that could be wrong in silence.
        room = 10 * referee.EPS * max(truth.objective, theirs.objective)
        gaps = [np.sqrt(2 * (max(one.gap, 0.0) + room)) for one in (truth, theirs)]
        bound = SLACK * sum(gaps) * referee.reach(p) + truth.scale * (
            1e-7 + ROUNDING * (truth.rounding + theirs.rounding)
        )
        off = np.abs(truth.decision - theirs.decision).max(axis=1).astype(float)
        if np.all(off <= bound):
            return ""
        worst = int(np.argmax(off / bound))
        return f"f off by {off[worst]:.1e} from a fresh fit, where gaps allow {bound[worst]:.1e}"
