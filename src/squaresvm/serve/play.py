"""The playground: small models in memory whose points are set, moved and removed, each an exact request."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from sklearn.datasets import make_moons
from starlette.requests import Request
from starlette.responses import Response

import squaresvm
from squaresvm.datasets import make_checkerboard, make_two_spirals
from squaresvm.serve.endpoint import Endpoint, json_response, read_body
from squaresvm.serve.rows import Limits, RequestError, first_line, json_object
from squaresvm.typing import FloatArray

__all__ = ["Board", "Playground", "sample"]

#: Points of a board, boards at a time, and cells of the grid along each side.
MOST_POINTS, MOST_BOARDS, GRID = 400, 64, 65
#: How far the grid reaches, a little beyond the square.
_REACH = 1.04
_ESTIMATORS = {
    "LSSVC": squaresvm.LSSVC,
    "RelaxedLSSVC": squaresvm.RelaxedLSSVC,
    "ProximalSVC": squaresvm.ProximalSVC,
    "LagrangianSVC": squaresvm.LagrangianSVC,
    "RLSSVC": squaresvm.RLSSVC,
}
_WITH_A = ("RelaxedLSSVC", "LagrangianSVC")
_KERNELS = ("rbf", "laplacian", "poly", "linear")
_RANGES = {"C": (1e-3, 1e6), "gamma": (1e-3, 1e4), "A": (1e-3, 1e4)}
#: What suits a data set is set with it: turns of spirals stand close.
_GAMMAS = {"four points": 1.0, "two spirals": 64.0, "checkerboard": 8.0, "moons": 8.0}
#: The four points of the RLSSVM paper's Table 1.
_FOUR_POINTS = ([[1.1, 1.0], [1.0, 1.0], [0.0, 0.0], [-0.1, 0.0]], [1, 1, -1, -1])


def sample(name: str) -> tuple[FloatArray, np.ndarray[Any, Any]]:
    """Return a data set in the square [-1, 1]^2 with labels -1 and 1.

    Examples
    --------
    >>> from squaresvm.serve.play import sample
    >>> X, y = sample("four points")
    >>> X.shape, y.tolist()
    ((4, 2), [1, 1, -1, -1])
    """
    if name == "four points":
        X, y = np.array(_FOUR_POINTS[0]), np.array(_FOUR_POINTS[1])
    elif name == "moons":
        X, y = make_moons(80, noise=0.18, random_state=3)
    elif name == "two spirals":
        X, y = make_two_spirals(random_state=0)
    elif name == "checkerboard":
        X, y = make_checkerboard(160, random_state=0)
    else:
        raise RequestError(422, "there is no data set of this name")
    X = np.asarray(X, dtype=np.float64)
    middle = (X.max(axis=0) + X.min(axis=0)) / 2
    X = 0.92 * (X - middle) / (X.max(axis=0) - middle).max()
    return X, np.where(y == np.unique(y)[0], -1, 1)


class Board:
    """Points of two classes in a square, and a model of them.

    Examples
    --------
    >>> from squaresvm.serve.play import Board
    >>> board = Board()
    >>> board.add([[-0.5, 0.0], [0.5, 0.0]], [-1, 1])
    >>> board.remove([0])
    >>> board.model is None, board.check()  # One class only is no problem to solve.
    (True, None)
    """

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {
            "estimator": "LSSVC",
            "kernel": "rbf",
            "C": 10.0,
            "gamma": 8.0,
            "A": 1.0,
        }
        self.points: dict[int, tuple[float, float, int]] = {}
        self.model: Any = None
        self.last: dict[str, Any] = {}
        self._next = 0

    # Changes ---------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Remove all points."""
        self.points, self.model, self.last = {}, None, {}

    def set(self, settings: dict[str, Any]) -> None:
        """Take other settings, and fit anew: the numbers of a model are those of its fit."""
        self.settings = settings
        self.model = None
        self._fit("fit")

    def add(self, X: Any, y: Any) -> None:
        """Learn points."""
        names = list(range(self._next, self._next + len(y)))
        self._next += len(y)
        for name, place, label in zip(names, X, y, strict=True):
            self.points[name] = (float(place[0]), float(place[1]), int(label))
        if self.model is None:
            self._fit("fit")
            return
        self._timed("learn", lambda: self.model.learn(np.array(X, dtype=float), np.array(y), ids=names))

    def remove(self, names: list[int]) -> None:
        """Forget points."""
        for name in names:
            del self.points[name]
        if len({label for _, _, label in self.points.values()}) < 2:
            self.model, self.last = None, {}
            return
        if self.model is None:
            self._fit("fit")
            return
        self._timed("forget", lambda: self.model.forget(names))

    def move(self, name: int, place: tuple[float, float]) -> None:
        """Forget a point and learn it elsewhere, under the same name."""
        label = self.points[name][2]
        self.points[name] = (*place, label)
        alone = sum(other == label for _, _, other in self.points.values()) == 1
        if self.model is None or alone:  # Without it there would be one class only, for a moment.
            self._fit("fit")
            return

        def again() -> None:
            self.model.forget([name])
            self.model.learn(np.array([place]), np.array([label]), ids=[name])

        self._timed("forget and learn", again)

    def _timed(self, action: str, work: Callable[[], object]) -> None:
        start = time.perf_counter()
        work()
        seconds = time.perf_counter() - start
        start = time.perf_counter()
        self._fresh()
        self.last = {"action": action, "seconds": seconds, "refit_seconds": time.perf_counter() - start}

    def _fit(self, action: str) -> None:
        start = time.perf_counter()
        self.model = self._fresh()
        self.last = {} if self.model is None else {"action": action, "seconds": time.perf_counter() - start}

    def _fresh(self) -> Any:
        """Return a model that is fitted to the points as they are; None where a class is missing."""
        labels = np.array([label for _, _, label in self.points.values()])
        if len(set(labels.tolist())) < 2:
            return None
        chosen = self.settings
        options = {name: chosen[name] for name in ("C", "kernel", "gamma")}
        if chosen["estimator"] in _WITH_A:
            options["A"] = chosen["A"]
        if chosen["kernel"] == "poly":
            options |= {"degree": 3, "coef0": 1.0}
        estimator = _ESTIMATORS[chosen["estimator"]](**options)
        X = np.array([(x, y) for x, y, _ in self.points.values()])
        return estimator.fit(X, labels, ids=list(self.points))

    # What is shown ---------------------------------------------------------------------------------

    def check(self) -> dict[str, Any] | None:
        """Compare the model with one that is fitted to the points now; None where there is none."""
        if self.model is None:
            return None
        start = time.perf_counter()
        fresh = self._fresh()
        seconds = time.perf_counter() - start
        grid = _grid()
        difference = np.abs(fresh.decision_function(grid) - self.model.decision_function(grid)).max()
        return {"difference": float(difference), "seconds": seconds, "rows": len(self.points)}

    def picture(self) -> dict[str, Any]:
        """Return all that the page draws."""
        points = [{"id": name, "x": x, "y": y, "label": label} for name, (x, y, label) in self.points.items()]
        facts: dict[str, Any] = {
            "settings": self.settings,
            "points": points,
            "last": self.last,
            "model": None,
        }
        model = self.model
        if model is None:
            return facts
        decision = model.decision_function(_grid())
        state = model._state
        values = np.zeros(len(points))
        values[state.held] = np.abs(state.expansion[:, 0])
        place = {name: position for position, name in enumerate(model.ids_.tolist())}
        order = [place[point["id"]] for point in points]
        left_out = model.loo_decision_function() if len(points) > 2 and _both_stay(self.points) else None
        for point, position in zip(points, order, strict=True):
            point["support"] = float(values[position])
            if left_out is not None:
                point["left_out"] = float(left_out[position])
        facts["model"] = {
            "grid": GRID,
            "decision": _short(decision),
            "support": int(model.support_.size),
            "loo_accuracy": None if left_out is None else _accuracy(left_out, points, order),
            "probability": None,
            "certificate": model.certificate_.to_json(),
            "solver": f"{model.solver_}: {model.solver_reason_}",
        }
        if left_out is not None:
            p = model.predict_proba(_grid())[:, 1]
            facts["model"]["probability"] = _short(p)
        return facts


def _both_stay(points: dict[int, tuple[float, float, int]]) -> bool:
    """Return whether both classes are there whichever point is left out."""
    labels = [label for _, _, label in points.values()]
    return min(labels.count(label) for label in set(labels)) >= 2


def _accuracy(left_out: FloatArray, points: list[dict[str, Any]], order: list[int]) -> float:
    return float(
        np.mean([(left_out[at] > 0) == (p["label"] > 0) for p, at in zip(points, order, strict=True)])
    )


def _short(values: FloatArray) -> list[float]:
    """Return values with five digits each: where all are small, too, the boundary is a smooth line."""
    return [float(f"{value:.5g}") for value in values.tolist()]


def _grid() -> FloatArray:
    ticks = np.linspace(-_REACH, _REACH, GRID)
    return np.array([(x, y) for y in ticks for x in ticks])


# Requests ------------------------------------------------------------------------------------------------


class Playground:
    """The boards, and the route that plays on them."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._boards: OrderedDict[str, Board] = OrderedDict()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="squaresvm-play")
        self._waiting = 0

    @property
    def endpoints(self) -> list[Endpoint]:
        """The route."""
        return [Endpoint("POST", "/play/board", self.board, ("inspect",), "Play")]

    async def board(self, request: Request) -> Response:
        """Set, move and remove points of a small model in memory."""
        body = await read_body(request, self._limits)
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise RequestError(415, "the Content-Type must be application/json")
        sent = json_object(body)
        if self._waiting >= 32:
            raise RequestError(503, "too many people use the playground", 1)
        self._waiting += 1
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._pool, self._play, sent)
        finally:
            self._waiting -= 1
        return json_response(answer)

    def _play(self, sent: dict[str, Any]) -> dict[str, Any]:
        name = sent.get("board")
        if not self._boards:
            _warm()
        if not isinstance(name, str) or name not in self._boards:
            name = secrets.token_urlsafe(12)
            self._boards[name] = Board()
            if len(self._boards) > MOST_BOARDS:
                self._boards.popitem(last=False)
        self._boards.move_to_end(name)
        board = self._boards[name]
        try:
            extra = _act(board, sent)
            return {"board": name, **board.picture(), **extra}
        except (ValueError, KeyError) as error:
            board.model = None  # Points and model may differ now: the next request fits anew.
            raise RequestError(422, first_line(error)) from None

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _warm() -> None:
    """Play once, so that the first times on a page are not those of what a process loads and compiles."""
    board = Board()
    board.add([[-0.5, 0.0], [0.5, 0.0], [0.0, 0.5], [0.0, -0.5]], [-1, 1, -1, 1])
    board.move(0, (-0.4, 0.0))
    board.picture()


def _act(board: Board, sent: dict[str, Any]) -> dict[str, Any]:
    action = sent.get("action", "show")
    if action == "show":
        return {}
    if action == "check":
        return {"check": board.check()}
    if action == "clear":
        board.clear()
    elif action == "sample":
        board.clear()
        name = str(sent.get("name"))
        X, y = sample(name)
        board.settings["gamma"] = _GAMMAS[name]
        board.add(X.tolist(), y.tolist())
    elif action == "set":
        board.set(_settings(sent))
    elif action == "add":
        points = _points(sent, MOST_POINTS - len(board.points))
        board.add([point[:2] for point in points], [point[2] for point in points])
    elif action == "replace":
        points = _points(sent, MOST_POINTS)
        board.clear()
        board.add([point[:2] for point in points], [point[2] for point in points])
    elif action in ("remove", "move"):
        id = sent.get("id")
        if type(id) is not int or id not in board.points:
            raise RequestError(422, "there is no point with this id")
        if action == "remove":
            board.remove([id])
        else:
            board.move(id, (_coordinate(sent.get("x")), _coordinate(sent.get("y"))))
    else:
        raise RequestError(
            400, "the action must be one of show, add, replace, move, remove, set, sample, clear, check"
        )
    return {}


def _points(sent: dict[str, Any], room: int) -> list[tuple[float, float, int]]:
    points = sent.get("points")
    if not isinstance(points, list) or not points:
        raise RequestError(400, "'points' must be a list of points")
    if len(points) > room:
        raise RequestError(413, f"a board has {MOST_POINTS} points at most")
    found = []
    for point in points:
        if not isinstance(point, dict) or type(point.get("label")) is not int or abs(point["label"]) != 1:
            raise RequestError(422, "a point has x, y and a label of -1 or 1")
        found.append((_coordinate(point.get("x")), _coordinate(point.get("y")), point["label"]))
    return found


def _coordinate(value: Any) -> float:
    if type(value) not in (int, float) or not -1.0 <= value <= 1.0:
        raise RequestError(422, "coordinates are numbers from -1 to 1")
    return float(value)


def _settings(sent: dict[str, Any]) -> dict[str, Any]:
    if sent.get("estimator") not in tuple(_ESTIMATORS) or sent.get("kernel") not in _KERNELS:
        raise RequestError(422, f"estimators are {', '.join(_ESTIMATORS)}; kernels are {', '.join(_KERNELS)}")
    settings = {"estimator": sent["estimator"], "kernel": sent["kernel"]}
    for name, (low, high) in _RANGES.items():
        value: Any = sent.get(name)
        if type(value) not in (int, float) or not low <= value <= high:
            raise RequestError(422, f"{name} is a number from {low:g} to {high:g}")
        settings[name] = float(value)
    return settings
