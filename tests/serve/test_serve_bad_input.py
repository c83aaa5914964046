"""Whatever is sent gets a clear answer, and changes nothing unless it is right."""

from __future__ import annotations

import json
import socket
import stat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("uvicorn")

import squaresvm
from squaresvm.serve import Limits, Settings, make_app
from squaresvm.serve.access import Access, add_token
from squaresvm.serve.inference import parse_infer
from squaresvm.serve.play import GRID, Board
from squaresvm.serve.rows import (
    RequestError,
    csv_request,
    json_object,
    labels_for,
    list_in,
    rows_for,
    table_of,
)
from squaresvm.serve.view import View
from support.server import serving

JSON = {"content-type": "application/json"}
ROW = [0.5, 1.0, 2.0]


def tensor(**others):
    return {"inputs": [{"name": "rows", "shape": [1, 3], "datatype": "FP64", "data": ROW, **others}]}


BAD = [
    ("learn", b"", 400),
    ("learn", b"[]", 400),
    ("learn", b"{", 400),
    ("learn", b"\xff\xfe", 400),
    ("learn", b'{"records": [[NaN, 1, 2]], "labels": [0], "ids": ["x"]}', 400),
    ("learn", b"[" * 200_000, 400),
    ("forget", b'{"ids": ["\\ud800"]}', 400),
    ("forget", {"ids": []}, 400),
    ("forget", {"ids": "p1"}, 400),
    ("forget", {"ids": [None]}, 400),
    ("forget", {"ids": [True]}, 400),
    ("forget", {"ids": [["p1"]]}, 400),
    ("forget", {"ids": ["nobody"]}, 422),
    ("forget", {"ids": ["p1", "p1"]}, 422),
    ("forget", {"ids": ["p1", "nobody"]}, 422),
    ("forget", {"ids": [f"p{i}" for i in range(90)]}, 422),
    ("forget", {"ids": [1e300, 10**400]}, 422),
    ("learn", {"records": [ROW], "labels": [0]}, 422),
    ("learn", {"records": [ROW], "labels": [0], "ids": ["x"], "weights": [0.5]}, 400),
    ("forget", {"ids": ["p1"], "verify": True}, 400),
    ("predict", {"records": [ROW], "probability": True}, 400),
    ("learn", {"records": [ROW], "labels": [0], "ids": ["x", "y"]}, 422),
    ("learn", {"records": [ROW], "labels": [0.5], "ids": ["x"]}, 422),
    ("learn", {"records": [ROW], "labels": ["zero"], "ids": ["x"]}, 422),
    ("learn", {"records": [ROW], "labels": [10**30], "ids": ["x"]}, 422),
    ("learn", {"records": [ROW], "labels": [True], "ids": ["x"]}, 422),
    ("learn", {"records": [ROW[:2]], "labels": [0], "ids": ["x"]}, 422),
    ("learn", {"records": [ROW, ROW[:2]], "labels": [0, 0], "ids": ["x", "y"]}, 422),
    ("learn", {"records": [[1, 2, "3"]], "labels": [0], "ids": ["x"]}, 422),
    ("learn", {"records": [[1, 2, 10**400]], "labels": [0], "ids": ["x"]}, 422),
    ("learn", {"records": [{"a": 1}], "labels": [0], "ids": ["x"]}, 422),
    ("learn", {"records": [7], "labels": [0], "ids": ["x"]}, 400),
    ("learn", {"records": [ROW] * 10_001, "labels": [0], "ids": ["x"]}, 413),
    ("learn", {"records": [ROW], "labels": [0], "ids": [0.5]}, 422),
    ("learn", {"records": [ROW], "labels": [0], "ids": ["a\0"]}, 422),
    ("absence", {"ids": ["p1"]}, 400),
    ("absence", {"id": ["p1"]}, 400),
    ("absence", {"id": "p1"}, 409),
    ("predict", {"records": [ROW], "probabilities": 1}, 400),
    ("predict", {"rows": [ROW]}, 400),
    ("predict", {"records": [[]]}, 422),
    ("infer", tensor(shape=[3]), 422),
    ("infer", tensor(shape=[1, 4]), 422),
    ("infer", tensor(shape=[-1, 3]), 400),
    ("infer", tensor(shape=[1, 3, 1]), 400),
    ("infer", tensor(shape=["1", 3]), 400),
    ("infer", tensor(datatype="FP65"), 400),
    ("infer", tensor(datatype=["FP64"]), 400),
    ("infer", tensor(data=[1, 2, "x"]), 422),
    ("infer", tensor(data=[[1, 2], 3]), 422),
    ("infer", tensor(data=[None, None, None]), 422),
    ("infer", tensor(data={"a": 1}), 422),
    ("infer", tensor(name=None), 400),
    ("infer", tensor(parameters={"binary_data_size": 24}), 400),
    ("infer", tensor(parameters={"binary_data_size": -1}), 400),
    ("infer", {**tensor(), "outputs": [{"name": "secrets"}]}, 422),
    ("infer", {**tensor(), "outputs": [7]}, 422),
    ("infer", {**tensor(), "id": 7}, 400),
    ("infer", {"inputs": [7]}, 400),
    ("infer", {"inputs": []}, 400),
]


def test_every_bad_body_is_a_4xx_that_changes_nothing(folder):
    with serving(folder) as client:
        for route, body, expected in BAD:
            path = f"/v2/models/clouds/{route}" if route == "infer" else f"/models/clouds/{route}"
            sent = body if isinstance(body, bytes) else json.dumps(body).encode()
            reply = client.ask("POST", path, sent, JSON)
            assert reply.status == expected, (route, sent[:80], reply.body)
            assert len(reply.json["error"]) < 500
        assert client.get("/models/clouds").json["number"] == 0
        assert client.get("/models/clouds/receipts").json["receipts"] == []


def test_routes_that_are_not_there(folder):
    with serving(folder) as client:
        assert client.get("/models/none").status == 404
        assert client.get("/models/..%2fclouds").status == 404
        assert client.get("/models/../../etc/passwd").status == 404
        assert client.get("/static/../app.py").status == 404
        wrong = client.ask("PUT", "/models/clouds/learn", b"{}", JSON)
        assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
        assert client.get("/models/clouds/receipts?limit=-1").status == 400
        assert client.get("/models/clouds/receipts?before=x").status == 400
        assert client.post("/models/clouds/forget", {"ids": ["p1"]}, idempotency_key="k" * 300).status == 400


def test_pages_from_elsewhere_cannot_ask(folder):
    with serving(folder) as client:
        body = b'{"ids": ["p1"]}'
        for kind in (
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "",
        ):
            assert client.ask("POST", "/models/clouds/forget", body, {"content-type": kind}).status == 415
        elsewhere = client.ask("GET", "/models", headers={"host": "evil.example:80"})
        ours = client.get("/models")
    assert elsewhere.status == 421
    assert "access-control-allow-origin" not in ours.headers
    assert "default-src 'none'" in ours.headers["content-security-policy"]


def test_large_bodies(folder):
    limits = Limits(body=1000, rows=3, columns=5)
    with serving(folder, limits=limits) as client:
        large = client.ask("POST", "/models/clouds/predict", b" " * 1001, JSON)
        chunks = client.ask("POST", "/models/clouds/predict", iter([b" " * 600] * 2), JSON)
        rows = client.post("/models/clouds/predict", {"records": [ROW] * 4})
        packed = client.ask("POST", "/models/clouds/predict", b"{}", {**JSON, "content-encoding": "gzip"})
    assert (large.status, chunks.status, rows.status, packed.status) == (413, 413, 413, 415)


def test_a_slow_body_is_not_waited_for(folder):
    with serving(folder, limits=Limits(seconds=0.3)) as client:
        with socket.create_connection(("127.0.0.1", client.port), timeout=20) as slow:
            head = b"POST /models/clouds/predict HTTP/1.1\r\nHost: localhost\r\n"
            slow.sendall(head + b"Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{")
            assert slow.recv(100).startswith(b"HTTP/1.1 408")
        assert client.get("/models/clouds").status == 200


def test_overload_is_said(folder):
    with serving(folder, limits=Limits(waiting=0)) as client:
        change = client.post("/models/clouds/forget", {"ids": ["p1"]})
        prediction = client.post("/models/clouds/predict", {"records": [ROW]})
    for reply in (change, prediction):
        assert reply.status == 503
        assert int(reply.headers["retry-after"]) >= 1


def test_tokens_and_roles(folder):
    path = folder / "tokens.json"
    tokens = {role: add_token(path, role, [role]) for role in ("predict", "learn", "forget", "inspect")}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not any(token in path.read_text() for token in tokens.values())
    asks = {
        "predict": ("/models/clouds/predict", {"records": [ROW]}),
        "learn": ("/models/clouds/learn", {"records": [ROW], "labels": [1], "ids": ["x"]}),
        "forget": ("/models/clouds/forget", {"ids": ["p1"]}),
    }
    with serving(folder, tokens=path) as client:
        for role, token in tokens.items():
            client.token = token
            for needed, (route, body) in asks.items():
                assert client.post(route, body).status == (200 if needed == role else 403), (role, needed)
            assert client.get("/metrics").status == (200 if role == "inspect" else 403)
        for token in (None, "", "wrong", tokens["predict"] + "x"):
            client.token = token
            assert client.post(*asks["predict"]).status == 401
        assert client.get("/v2/health/live").status == 200


def test_what_cannot_be_served_is_refused_at_once(folder):
    with pytest.raises(ValueError, match="--tokens"):
        make_app(Settings(folder, host="0.0.0.0"))
    with pytest.raises(ValueError, match="no such folder"):
        make_app(Settings(folder / "none"))
    (folder / "t.json").write_text('{"tokens": [{"name": "x", "sha256": "0", "roles": ["all"]}]}')
    with pytest.raises(ValueError, match="'x' has no hash"):
        Access.read(folder / "t.json")
    with pytest.raises(ValueError, match="no such file: make one with --add-token"):
        Access.read(folder / "none.json")
    with pytest.raises(ValueError, match="roles are predict"):
        add_token(folder / "t2.json", "x", ["all"])


# What hostile bodies lead to, without the sockets -----------------------------------------------------

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
REQUESTS = st.fixed_dictionaries(
    {}, optional={name: VALUES for name in ("records", "labels", "ids", "inputs", "outputs", "id")}
)
TENSORS = st.fixed_dictionaries(
    {
        "name": st.text(max_size=3) | VALUES,
        "shape": st.lists(st.integers(-1, 3), max_size=3) | VALUES,
        "datatype": st.sampled_from(["FP64", "INT8", "BOOL", "BYTES"]) | VALUES,
        "data": VALUES,
    }
)


@pytest.fixture(scope="module")
def view():
    rng = np.random.default_rng(0)
    return View.of(squaresvm.LSSVC().fit(rng.normal(size=(20, 3)), np.arange(20) % 2), 0)


@given(request=REQUESTS | st.fixed_dictionaries({"inputs": st.lists(TENSORS, max_size=3)}))
def test_hostile_values_end_in_a_request_error(view, request):
    body = json.dumps(request).encode()
    limits = Limits()
    for attempt in (
        lambda: parse_infer(body, None, view, limits),
        lambda: rows_for(table_of(list_in(json_object(body), "records", limits), limits), None, 3),
        lambda: labels_for(view.estimator, list_in(json_object(body), "labels", limits)),
    ):
        try:
            attempt()
        except RequestError as error:
            assert 400 <= error.status < 500  # noqa: PT017


@given(body=st.binary(max_size=60) | st.text(alphabet='a,;\t"\n\r 1', max_size=40).map(str.encode))
def test_hostile_bytes_end_in_a_request_error(view, body):
    for attempt in (
        lambda: json_object(body),
        lambda: csv_request(body, "label", "id", Limits()),
        lambda: parse_infer(body, "3", view, Limits()),
    ):
        try:
            attempt()
        except RequestError as error:
            assert 400 <= error.status < 500  # noqa: PT017


@pytest.mark.parametrize("action", ["add", "move", "remove"])
def test_a_board_that_lost_its_model_fits_anew(action):
    board = Board()
    board.add([[-0.5, 0.0], [0.5, 0.0], [0.0, 0.5], [0.0, -0.5]], [-1, 1, -1, 1])
    board.model = None  # As after a request that failed half-way.
    if action == "add":
        board.add([[0.2, 0.3]], [1])
    elif action == "move":
        board.move(0, (-0.4, 0.1))
    else:
        board.remove([3])
    assert board.model.ids_.tolist() == list(board.points)
    assert board.check()["difference"] < 1e-10


def test_the_playground_refuses_what_it_cannot_play(tmp_path):
    good = {"estimator": "LSSVC", "kernel": "rbf", "C": 1, "gamma": 1, "A": 1}
    bad = [
        {"action": "?"},
        {"action": ["add"]},
        {"action": "add"},
        {"action": "add", "points": [7]},
        {"action": "add", "points": [{"x": 2, "y": 0, "label": 1}]},
        {"action": "add", "points": [{"x": 0, "y": 0, "label": 2}]},
        {"action": "add", "points": [{"x": 0, "y": 0, "label": 1}] * 401},
        {"action": "remove", "id": 0},
        {"action": "move", "id": [0]},
        {"action": "sample", "name": ["moons"]},
        {"action": "set", **good, "estimator": ["LSSVC"]},
        {"action": "set", **good, "kernel": {}},
        {"action": "set", **good, "C": 0},
        {"action": "set", **good, "gamma": True},
    ]
    with serving(tmp_path) as client:
        for body in bad:
            reply = client.post("/play/board", body)
            assert 400 <= reply.status < 500, body
        assert client.ask("POST", "/play/board", b"{}", {"content-type": "text/plain"}).status == 415
        board = client.post("/play/board", {"action": "sample", "name": "four points"}).json
        assert len(board["points"]) == 4
        for estimator in ("LSSVC", "RelaxedLSSVC", "ProximalSVC", "LagrangianSVC", "RLSSVC"):
            for kernel in ("rbf", "laplacian", "poly", "linear"):
                settings = {**good, "board": board["board"], "estimator": estimator, "kernel": kernel}
                assert client.post("/play/board", {"action": "set", **settings}).json["model"]["grid"] == GRID
                move = {"action": "move", "board": board["board"], "id": 1, "x": 0.1, "y": 0.9}
                assert client.post("/play/board", move).status == 200
                check = client.post("/play/board", {"action": "check", "board": board["board"]}).json["check"]
                assert check["difference"] < 1e-5, (estimator, kernel)
