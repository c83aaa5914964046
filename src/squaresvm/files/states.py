"""Models that hold their rows as JSON and arrays, and back: nothing of a file is taken on trust."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from squaresvm.factors import CholeskyFactor
from squaresvm.files.claims import decode_calibration, decode_certificate, encode_certificate, encode_maps
from squaresvm.files.values import (
    Arrays,
    decode_ids,
    decode_labels,
    decode_matrix,
    encode_ids,
    encode_labels,
    encode_matrix,
    floats_of,
    number,
)
from squaresvm.models.model import Known, Model, Settings
from squaresvm.models.ownership import Claim
from squaresvm.models.problems import check_costs, find_classes
from squaresvm.models.several_cs import SeveralCs
from squaresvm.models.state import State
from squaresvm.operators import Operator, PrecomputedOperator, ProximalOperator, StoredOperator
from squaresvm.operators.precomputed import check_symmetric
from squaresvm.problem import Loss, Problem
from squaresvm.rows import Rows
from squaresvm.runtime.resources import row_blocks
from squaresvm.solution import Outcome, Solution
from squaresvm.typing import FloatArray, Matrix

__all__ = [
    "decode_rows",
    "decode_solution",
    "decode_solver",
    "decode_state",
    "encode_held_solution",
    "encode_rows",
    "encode_solution",
    "encode_state",
    "solved",
]


def encode_state(state: State, *, factor: bool) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of a state that holds its rows, nothing of forgotten rows among them.

    A ValueError for what a file cannot hold: ids that are neither numbers nor strings.
    """
    header, arrays = encode_rows(state.rows)
    arrays |= encode_matrix(state.rows.X)
    header |= {"sparse": bool(sp.issparse(state.rows.X))}
    solved, found = encode_held_solution(state, factor=factor)
    if state.settings.kernel is None:
        found["kernel_matrix"] = _kernel_matrix(state)
    return header | solved, arrays | found


def encode_rows(rows: Rows) -> tuple[dict[str, Any], Arrays]:
    """Return labels, ids and weights of rows, without their features."""
    ids, arrays = encode_ids(rows.ids)
    arrays |= {"y": encode_labels(rows.y), "weights": rows.weights}
    if rows.given is not None:
        arrays["given"] = rows.given
    header = {"labels_are_objects": rows.y.dtype == object, "ids": ids, "arrivals": rows.ids.arrivals}
    return header, arrays


def encode_held_solution(state: State, *, factor: bool) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of the solution of rows that are held."""
    header, arrays = encode_solution(state)
    header["certificate"] = encode_certificate(state.claimed)
    if isinstance(state, SeveralCs):
        header["Cs"] = state.C.tolist()
        header["certificates"] = [encode_certificate(part.claimed) for part in state.parts]
    if factor:
        header["factor"], stored = _factor(state)
        arrays |= stored
    return header, arrays


def encode_solution(state: Model) -> tuple[dict[str, Any], Arrays]:
    """Return header and arrays of a solution, with all that predictions need beside the rows."""
    solution = state.solution
    header = {
        "solver": state.solver,
        "reason": state.reason,
        "n_iter": int(solution.n_iter),
        "outcome": solution.outcome.value,
        "factor": None,
    }
    arrays: Arrays = {"bias": solution.bias}
    if solution.beta is not None:
        arrays["beta"] = solution.beta
    if solution.primal is not None:
        arrays["primal"] = solution.primal
    if state.settings.proximal:
        # A product with K, which would come out in other last digits from another order of the rows.
        arrays["expansion"] = state.attribute("expansion")
    calibration = state.calibration
    if calibration is not None:
        arrays |= encode_maps(calibration)
    return header, arrays


def _kernel_matrix(state: State) -> np.ndarray[Any, Any]:
    operator = state.by_cost[0][1].problem.operator
    inner = operator.inner if isinstance(operator, ProximalOperator) else operator
    assert isinstance(inner, StoredOperator)
    everyone = np.arange(inner.n_rows)
    return inner.block(everyone, everyone)


def _factor(state: State) -> tuple[dict[str, Any] | None, Arrays]:
    """Return the factor of H, where the model keeps one that is worth its space."""
    squared = state.settings.loss == Loss.SQUARED and not state.settings.proximal
    if not squared or state.solution.beta is None:
        return None, {}
    factor = CholeskyFactor.among(state.solution.factor)
    if factor is None or not factor.is_in_order:
        problem = state.detached().problem
        if not isinstance(problem.operator, StoredOperator):
            return None, {}  # K is not held, so that a factor has no place either.
        factor = CholeskyFactor.of(problem)
    form, triangle = factor.packed()
    return {"form": form, "jitter": factor.jitter}, {"factor": triangle}


#: Residual down to which a factor that belongs to K solves; where K is too badly conditioned for that, a new
#: factor costs time and no more.
_EXACT = 1e-9
#: How far products that were rounded in another order may be apart, of the largest.
_NEAR = 1e-6
#: Times the sum of the sizes of what is added up: rounding errors of a sum over all rows.
_ROUNDING = 100 * float(np.finfo(np.float64).eps)


def decode_state(header: dict[str, Any], arrays: Arrays, settings: Settings) -> State:
    """Return the state that header and arrays describe; a ValueError, KeyError or TypeError where none."""
    rows = decode_rows(header, arrays, lambda count: decode_matrix(header, arrays, count))
    if settings.kernel is None and rows.n_columns != 0:
        raise ValueError("it has rows and a precomputed kernel")
    state = solved(header, arrays, settings, rows)
    return state if "Cs" not in header else _divided(state, header["Cs"], header["certificates"])


def _divided(state: State, given: Any, certificates: Any) -> State:
    """Return the model of targets with C of their own."""
    k = state.solution.bias.size
    Cs = np.array([number(C, "a C of its targets") for C in given])
    if Cs.shape != (k,) or state.rows.y.ndim != 2 or Cs.min() != state.settings.C:
        raise ValueError("its targets have other values of C than its fit")
    columns, parts = [np.flatnonzero(Cs == C) for C in np.unique(Cs)], []
    for own, certificate in zip(columns, certificates, strict=True):
        found = state.solution
        check_costs(float(Cs[own[0]]), state.weights[state.held], state.held)
        solution = replace(
            found,
            beta=None if found.beta is None else found.beta[:, own],
            primal=None if found.primal is None else found.primal[:, own],
            bias=found.bias[own],
        )
        operator = state.operator
        part = replace(
            state,
            settings=replace(state.settings, C=float(Cs[own[0]])),
            rows=replace(state.rows, y=state.rows.y[:, own]),
            operator=operator.private() if isinstance(operator, StoredOperator) else operator,
            solution=solution,
            known=Known(claimed=decode_certificate(certificate, own.size)),
            claim=Claim(),
        )
        parts.append(part)
    return replace(SeveralCs.of(parts, columns), known=Known(claimed=state.known.claimed))


def decode_rows(header: dict[str, Any], arrays: Arrays, base: Any) -> Rows:
    """Return rows with their labels, ids and weights; ``base(count)`` gives the features."""
    several = arrays["y"].ndim == 2
    y = floats_of(arrays, "y", None, None) if several else decode_labels(header, arrays, "y")
    count = y.shape[0]
    if y.size == 0:
        raise ValueError("it holds no rows, or no values")
    weights = floats_of(arrays, "weights", count)
    given = floats_of(arrays, "given", count) if "given" in arrays else None
    if weights.min() < 0 or (given is not None and given.min() < 0):
        raise ValueError("a weight is negative")
    features: Matrix = base(count)
    return Rows(features, y, weights, decode_ids(header, arrays, count), given=given)


def targets_of(classes: np.ndarray[Any, Any] | None, n_values: int) -> int:
    """Return the number of columns of targets."""
    if classes is None:
        return n_values
    return 1 if classes.size == 2 else int(classes.size)


def solved(header: dict[str, Any], arrays: Arrays, settings: Settings, rows: Rows) -> State:
    """Return the state of rows and the solution that header and arrays describe."""
    if settings.class_weight is None and rows.y.dtype != np.float64:
        raise ValueError("its values are not in double precision")
    several = settings.class_weight is not None and rows.y.ndim == 2
    if several and (settings.class_weight or not np.all(np.abs(rows.y) == 1.0)):
        raise ValueError("its labels are several a row, and neither there nor not")
    weights = settings.row_weights(rows.y, rows.weights)
    held = np.flatnonzero(weights > 0)
    if held.size == 0:
        raise ValueError("all of its rows have weight zero")
    check_costs(settings.C, weights[held], held)
    if settings.kernel is not None:
        settings.kernel.check_range(rows.X)
    classes = find_classes(rows.y[held], settings)
    columns = targets_of(classes, 1 if rows.y.ndim == 1 else int(rows.y.shape[1]))
    solution = decode_solution(header, arrays, settings, (held.size, rows.n_columns, columns))
    operator = _precomputed(arrays, settings, weights[held])
    claimed = header.get("certificate")  # Not in files of earlier versions.
    known = Known(
        calibration=decode_calibration(arrays, classes, columns if several else 0),
        claimed=None if claimed is None else decode_certificate(claimed, columns),
    )
    solver, reason = decode_solver(header)
    state = State(
        settings=settings,
        classes=classes,
        solution=solution,
        solver=solver,
        reason=reason,
        rows=rows,
        operator=operator,
        is_verified=False,
        known=known,
    )
    if settings.proximal:
        state.known.expansion = _expansion(arrays, state)
    return _with_factor(header, arrays, state)


def _expansion(arrays: Arrays, state: State) -> FloatArray:
    """Return the coefficients that predictions use; a ValueError where they are not those of the multipliers.

    The certificate looks at the multipliers, and would not notice. K is never held: the file may be small.
    """
    beta = state.solution.beta
    if beta is None:
        raise ValueError("it has coefficients of rows, and no multipliers")
    found = floats_of(arrays, "expansion", *beta.shape)
    weights, kernel = state.weights[state.held], state.settings.kernel
    if kernel is None:
        blocks: Iterable[FloatArray] = [floats_of(arrays, "kernel_matrix", weights.size, weights.size)]
    else:
        X, parts = state.rows.take(state.held), row_blocks(weights.size, weights.size)
        blocks = (kernel(X[part], X) for part in parts)
    pairs = [(block @ beta, np.abs(block) @ np.abs(beta)) for block in blocks]
    expected, size = (weights[:, None] * np.concatenate(one) for one in zip(*pairs, strict=True))
    # What cancels in the sums was rounded in another order when the file was written.
    room = _NEAR * np.abs(expected).max(initial=0.0) + _ROUNDING * size.max(initial=0.0)
    if not np.allclose(found, expected, rtol=0.0, atol=float(room)):
        raise ValueError("its coefficients are not those of its multipliers")
    return found


def decode_solver(header: dict[str, Any]) -> tuple[str, str]:
    """Return which solver it was, and why."""
    solver, reason = header["solver"], header["reason"]
    if not isinstance(solver, str) or not isinstance(reason, str):
        raise ValueError("its solver has no name")
    return solver, reason


def decode_solution(
    header: dict[str, Any], arrays: Arrays, settings: Settings, extents: tuple[int, int, int]
) -> Solution:
    """Return the solution of so many rows, features and columns of targets."""
    m, n, k = extents
    bias, n_iter = floats_of(arrays, "bias", k), header["n_iter"]
    if type(n_iter) is not int or n_iter < 0:
        raise ValueError("its number of iterations is impossible")
    if "primal" in arrays and not settings.is_linear:
        raise ValueError("it has a vector w, and its kernel is not linear")
    beta = floats_of(arrays, "beta", m, k) if "beta" in arrays else None
    primal = floats_of(arrays, "primal", n, k) if "primal" in arrays else None
    if beta is None and primal is None:
        raise ValueError("it has neither multipliers nor a vector w")
    return Solution(bias=bias, beta=beta, primal=primal, n_iter=n_iter, outcome=Outcome(header["outcome"]))


def _precomputed(arrays: Arrays, settings: Settings, weights: FloatArray) -> Operator | None:
    if settings.kernel is not None:
        return None
    K = floats_of(arrays, "kernel_matrix", weights.size, weights.size)
    check_symmetric(K)
    operator = PrecomputedOperator(K)
    return ProximalOperator(operator, weights) if settings.proximal else operator


def _with_factor(header: dict[str, Any], arrays: Arrays, state: State) -> State:
    """Return the state with the factor of the file, where it holds one, in the room of a store of K.

    A factor that does not belong to K is left out, and made anew when it is needed: requests would update it,
    and most of their residuals are taken on a few rows.
    """
    described = header["factor"]
    if described is None:
        return state
    m, jitter = state.held.size, described["jitter"]
    triangle = floats_of(arrays, "factor", m * (m + 1) // 2)  # Before K, which is no smaller, is made.
    if type(jitter) is not float or jitter < 0:
        raise ValueError("the jitter of its factor is impossible")
    problem = state.problem
    operator, solution = problem.operator, state.solution
    if solution.beta is None or not isinstance(operator, StoredOperator) or state.settings.proximal:
        raise ValueError("it holds a factor that its kind of model has no use for")
    form, store = str(described["form"]), operator.store()
    factor = CholeskyFactor.unpacked(form, triangle, jitter, store, problem.ridge, problem.bias)
    if not _belongs(factor, problem):
        return state.detached()
    return replace(state, solution=replace(solution, factor=factor), operator=operator)


def _belongs(factor: CholeskyFactor, problem: Problem) -> bool:
    """Return whether a factor solves the problem for targets that nobody can have known beforehand."""
    random = np.random.default_rng()
    probe = Problem(
        problem.operator,
        random.choice([-1.0, 1.0], size=(problem.n_rows, 1)) + random.normal(size=(problem.n_rows, 1)),
        problem.costs,
        problem.loss,
        problem.bias,
    )
    return bool(probe.residual(factor.solve(probe.targets)).max() <= _EXACT)
