"""Predictions, changes and receipts over HTTP, against models that are fitted from nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("uvicorn")

import squaresvm
from support.server import serving


def refit(X, y):
    return squaresvm.LSSVC(C=3.0, gamma=0.3).fit(X, y)


def tensor(X):
    return {"name": "rows", "shape": list(X.shape), "datatype": "FP64", "data": X.reshape(-1).tolist()}


def test_predictions_are_those_of_predict(folder, clouds):
    X, _ = clouds
    model = squaresvm.load(folder / "clouds.model")
    with serving(folder) as client:
        plain = client.post("/models/clouds/predict", {"records": X.tolist(), "probabilities": True}).json
        names = ("predict", "decision", "probabilities")
        wanted = {"id": "q", "inputs": [tensor(X)], "outputs": [{"name": name} for name in names]}
        infer = client.post("/v2/models/clouds/infer", wanted).json
    outputs = {output["name"]: output for output in infer["outputs"]}
    assert plain["predictions"] == outputs["predict"]["data"] == model.predict(X).tolist()
    np.testing.assert_allclose(plain["decision"], model.decision_function(X), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(plain["probabilities"], model.predict_proba(X), rtol=1e-9)
    assert infer["id"] == "q"
    assert outputs["decision"]["shape"] == [90, 3]
    np.testing.assert_allclose(outputs["probabilities"]["data"], np.ravel(plain["probabilities"]))


def test_a_client_that_others_wrote(folder, clouds):
    triton = pytest.importorskip("tritonclient.http")
    X, _ = clouds
    expected = squaresvm.load(folder / "clouds.model").predict(X)
    with serving(folder) as client:
        peer = triton.InferenceServerClient(f"127.0.0.1:{client.port}")
        try:
            assert peer.is_server_live()
            assert peer.is_server_ready()
            assert peer.is_model_ready("clouds")
            assert peer.get_model_metadata("clouds")["inputs"][0]["shape"] == [-1, 3]
            for is_binary in (True, False):
                rows = triton.InferInput("rows", list(X.shape), "FP64")
                rows.set_data_from_numpy(X, binary_data=is_binary)
                found = peer.infer("clouds", [rows])
                np.testing.assert_array_equal(found.as_numpy("predict"), expected)
        finally:
            peer.close()


def test_an_id_with_several_rows(folder, clouds):
    X, y = clouds
    numbers = [i // 2 for i in range(90)]
    squaresvm.save(squaresvm.LSSVC(C=3.0, gamma=0.3).fit(X, y, ids=numbers), folder / "pairs.model")
    with serving(folder) as client:
        for ids in (["new", 7], ["7", "new"]):  # A number that is sent as text is still that number.
            added = {"records": [[2.0, 0.1, 0.3], [0.2, 1.9, -0.5]], "labels": [0, 1], "ids": ids}
            assert client.post("/models/pairs/learn", added).json["rows"] == 2
        gone = client.post("/models/pairs/forget", {"ids": ["7", "new"]}).json
        found = client.post("/models/pairs/predict", {"records": X.tolist()}).json
    keep = np.setdiff1d(np.arange(90), [14, 15])
    assert (gone["rows"], gone["remaining"]) == (6, 88)
    np.testing.assert_allclose(found["decision"], refit(X[keep], y[keep]).decision_function(X), atol=1e-9)


def test_learn_and_forget_equal_a_refit(folder, clouds):
    X, y = clouds
    extra = np.array([[2.0, 0.1, 0.3], [0.2, 1.9, -0.5]])
    with serving(folder) as client:
        added = {"records": extra.tolist(), "labels": [0, 1], "ids": ["new1", "new2"]}
        learned = client.post("/models/clouds/learn", added).json
        gone = client.post("/models/clouds/forget", {"ids": ["p3", "p17", "new2"]}).json
        found = client.post("/models/clouds/predict", {"records": X.tolist()}).json
        certificate = client.get("/models/clouds/certificate").json
        receipts = client.get("/models/clouds/receipts").json["receipts"]
    keep = np.setdiff1d(np.arange(90), [3, 17])
    peer = refit(np.vstack([X[keep], extra[:1]]), np.append(y[keep], 0))
    np.testing.assert_allclose(found["decision"], peer.decision_function(X), rtol=1e-9, atol=1e-9)
    assert (learned["rows"], learned["remaining"], gone["rows"], gone["remaining"]) == (2, 92, 3, 89)
    assert certificate["rows"] == 89
    assert certificate["residual"] < 1e-10
    assert [receipt["number"] for receipt in receipts] == [gone["number"], learned["number"]]
    assert squaresvm.load(folder / "clouds.model").ids_.size == 89  # Saved at the end.


def test_a_key_is_applied_once(folder):
    with serving(folder) as client:
        first = client.post("/models/clouds/forget", {"ids": ["p3"]}, idempotency_key="k")
        again = client.post("/models/clouds/forget", {"ids": ["p3"]}, idempotency_key="k")
        other = client.post("/models/clouds/forget", {"ids": ["p4"]}, idempotency_key="k")
        rows = client.get("/models/clouds").json["rows"]
    assert first.json == again.json
    assert again.headers["idempotent-replayed"] == "true"
    assert (other.status, rows) == (422, 89)


def test_keys_outlive_the_server(folder):
    with serving(folder) as client:
        first = client.post("/models/clouds/forget", {"ids": ["p3"]}, idempotency_key="k").json
    with serving(folder) as client:
        again = client.post("/models/clouds/forget", {"ids": ["p3"]}, idempotency_key="k").json
    assert (again["number"], again["remaining"]) == (first["number"], 89)
    assert first["erased"] is None
    assert again["erased"] >= first["time"]


@pytest.fixture
def table(tmp_path):
    """Return a folder with a model of a table: numbers, a category, text labels, ids."""
    from typer.testing import CliRunner

    from squaresvm.cli.app import app

    rng = np.random.default_rng(3)
    lines = ["who,age,town,label"]
    for i in range(60):
        age = 40 + 15 * (i % 2) + 5 * rng.normal()
        lines.append(f"u{i},{age:.2f},{'Ulm' if i % 3 else 'Bonn'},{'sick' if i % 2 else 'well'}")
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    done = CliRunner().invoke(
        app, ["train", f"{tmp_path}/people.csv", "--id", "who", "-o", f"{tmp_path}/people.model", "--json"]
    )
    assert done.exit_code == 0, done.output
    return tmp_path


def test_records_and_csv_go_through_the_preparation(table):
    csv = (table / "people.csv").read_bytes()
    with serving(table) as client:
        by_csv = client.ask("POST", "/models/people/predict", csv, {"content-type": "text/csv"}).json
        records = [{"age": 41, "town": "Ulm"}, {"age": 58.5, "town": "Bonn"}]
        by_record = client.post("/models/people/predict", {"records": records}).json
        columns = {
            "inputs": [
                {"name": "age", "shape": [2], "datatype": "FP32", "data": [41, 58.5]},
                {"name": "town", "shape": [2, 1], "datatype": "BYTES", "data": ["Ulm", "Bonn"]},
            ]
        }
        by_tensor = client.post("/v2/models/people/infer", columns).json
        missing = client.post("/models/people/predict", {"records": [{"age": 41}]})
        text = client.post("/models/people/predict", {"records": [{"age": "old", "town": "Ulm"}]})
    labels = [line.rsplit(b",", 1)[1].decode() for line in csv.splitlines()[1:]]
    assert np.mean(np.array(by_csv["predictions"]) == labels) > 0.8
    assert by_record["predictions"] == ["well", "sick"] == by_tensor["outputs"][0]["data"]
    np.testing.assert_allclose(by_record["decision"], by_tensor["outputs"][1]["data"])
    assert (missing.status, text.status) == (422, 422)
    assert "town" in missing.json["error"]
    assert "old" in text.json["error"]


def test_a_new_level_comes_and_goes(table):
    with serving(table, save_seconds=0.2) as client:
        row = {"records": [{"age": 44, "town": "Xanten"}], "labels": ["well"], "ids": ["visitor-99"]}
        before = client.get("/models/people").json["n_columns"]
        assert client.post("/models/people/learn", row).status == 200
        assert client.get("/models/people").json["n_columns"] == before + 1
        assert client.get("/models/people/verify").json["ok"]
        assert client.post("/models/people/forget", {"ids": ["visitor-99"]}).json["remaining"] == 60
        assert client.get("/models/people/verify").json["ok"]
    for path in table.iterdir():  # Names too long to stand in a hash by chance.
        assert b"Xanten" not in path.read_bytes()
        assert b"visitor-99" not in path.read_bytes()
    assert squaresvm.load(table / "people.model").n_features_in_ == before


def test_what_a_model_does_not_know_is_said(table):
    with serving(table) as client:
        found = client.post(
            "/models/people/predict",
            {"records": [{"age": 44, "town": "Xanten"}, {"age": 61, "town": "Ulm"}]},
        ).json
        row = {"records": [{"age": 44, "town": "Xanten"}], "labels": ["unsure"], "ids": ["visitor-99"]}
        learned = client.post("/models/people/learn", row).json
        gone = client.post("/models/people/forget", {"ids": ["visitor-99"]}).json
        receipts = client.get("/models/people/receipts").body
    assert found["unknown_levels"] == {"town": ["Xanten"]}
    assert (learned["new_classes"], learned["new_levels"]) == (1, 1)
    assert (gone["new_classes"], gone["new_levels"]) == (0, 0)
    assert b"Xanten" not in receipts  # Counts only: receipts stay when the row is gone.
    assert b"unsure" not in receipts


def test_a_table_of_one_column(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": np.arange(20.0)})
    model = squaresvm.LSSVC().fit(frame, np.arange(20) > 9)
    squaresvm.save(model, tmp_path / "m.model")
    with serving(tmp_path) as client:
        found = client.ask("POST", "/models/m/predict", b"age\n3\n14\n", {"content-type": "text/csv"})
    assert found.json["predictions"] == [False, True]


def test_learning_from_csv(table):
    with serving(table) as client:
        body = b"who,age,town,label\nv1,39,Ulm,well\nv2,61,Bonn,sick\n"
        reply = client.ask("POST", "/models/people/learn", body, {"content-type": "text/csv"})
        assert (reply.status, reply.json["rows"]) == (200, 2)
        ids = client.ask("POST", "/models/people/forget", b"who\nv1\n", {"content-type": "text/csv"})
        assert ids.json["remaining"] == 61  # A table of ids, or rows with their ids.
        rows = b"who,age,town,label\nv2,61,Bonn,sick\n"
        again = client.ask("POST", "/models/people/forget", rows, {"content-type": "text/csv"})
        assert again.json["remaining"] == 60


def test_the_report_names_rows_that_look_mislabelled(tmp_path, clouds):
    X, y = clouds
    wrong = np.where(np.arange(90) == 40, (y[40] + 1) % 3, y)
    X = np.where(np.arange(90)[:, None] == 40, 2.5 * np.eye(3)[y[40]], X)
    squaresvm.save(refit(X, wrong), tmp_path / "m.model")
    with serving(tmp_path) as client:
        report = client.get("/models/m/report").json
        gone = client.post("/models/m/forget", {"ids": [str(report["suspects"][0]["id"])]})
    assert report["suspects"][0]["id"] == 40
    assert report["loo_is_exact"]
    assert report["loo_score"] == pytest.approx(refit(X, wrong).loo_score())
    assert gone.status == 200


@pytest.mark.parametrize("estimator", ["LSSVR", "RLSSVC", "LagrangianSVC"])
def test_other_estimators(tmp_path, clouds, estimator):
    X, y = clouds
    target = X[:, 0] ** 2 if estimator == "LSSVR" else np.where(y == 0, "a", "b")
    model = getattr(squaresvm, estimator)(C=2.0, kernel="linear" if estimator == "LagrangianSVC" else "rbf")
    model.fit(X, target)
    squaresvm.save(model, tmp_path / "m.model")
    with serving(tmp_path) as client:
        assert client.post("/models/m/forget", {"ids": [5]}).json["remaining"] == 89
        found = client.post("/models/m/predict", {"records": X.tolist()}).json["predictions"]
        label = 0.5 if estimator == "LSSVR" else "a"
        assert client.post("/models/m/learn", {"records": [[0, 1, 2]], "labels": [label]}).status == 200
    model.forget([5])
    if estimator == "LSSVR":
        np.testing.assert_allclose(found, model.predict(X), rtol=1e-6, atol=1e-8)
    else:
        assert found == model.predict(X).tolist()


def test_a_pipeline_takes_the_columns_that_it_was_fitted_on(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("skops")
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    people = pandas.DataFrame({"age": [25.0, 38, 61, 33, 47, 52], "town": ["Ulm", "Bonn"] * 3})
    steps = [("numbers", StandardScaler(), ["age"]), ("towns", OneHotEncoder(), ["town"])]
    pipeline = make_pipeline(ColumnTransformer(steps), squaresvm.LSSVC()).fit(people, [1, 0, 1, 1, 0, 0])
    squaresvm.save(pipeline, tmp_path / "people.model")
    plain = make_pipeline(StandardScaler(), squaresvm.LSSVC()).fit(people[["age"]].to_numpy(), [1, 0] * 3)
    squaresvm.save(plain, tmp_path / "plain.model")
    with serving(tmp_path) as client:
        records = [{"town": town, "age": age} for age, town in zip(people.age, people.town, strict=True)]
        found = client.post("/models/people/predict", {"records": records, "probabilities": True}).json
        strange = client.post("/models/people/predict", {"records": [{"age": 3, "town": "Kiel"}]})
        missing = client.post("/models/people/predict", {"records": [{"age": 3}]})
        lists = client.post("/models/plain/predict", {"records": people[["age"]].to_numpy().tolist()}).json
        forget = client.post("/models/people/forget", {"ids": [3]})
        verdict = client.get("/models/people/verify").json
        columns = client.get("/models/people").json["columns"]
    np.testing.assert_allclose(found["decision"], pipeline.decision_function(people), rtol=1e-10)
    np.testing.assert_allclose(found["probabilities"], pipeline.predict_proba(people), rtol=1e-9)
    np.testing.assert_allclose(
        lists["decision"], plain.decision_function(people[["age"]].to_numpy()), rtol=1e-10
    )
    assert (strange.status, missing.status, forget.status) == (422, 422, 409)
    assert "Kiel" in strange.json["error"]
    assert "no column 'town'" in missing.json["error"]
    assert (verdict["ok"], columns) == (True, ["age", "town"])


def test_several_labels_or_values_a_row(tmp_path, clouds):
    X, y = clouds
    both = np.column_stack([y == 0, X[:, 1] > 1]).astype(int)
    squaresvm.save(squaresvm.LSSVC().fit(X, both), tmp_path / "labels.model")
    squaresvm.save(squaresvm.LSSVR().fit(X, X[:, :2] ** 2), tmp_path / "values.model")
    new = [[0.5, 1.0, 2.0]]
    with serving(tmp_path) as client:
        assert {model["name"] for model in client.get("/models").json["models"]} == {"labels", "values"}
        for name, label, bad in (("labels", [[1, 0]], [[1, 2]]), ("values", [[0.5, 1.5]], [0.5])):
            assert client.post(f"/models/{name}/learn", {"records": new, "labels": bad}).status == 422
            learned = client.post(f"/models/{name}/learn", {"records": new, "labels": label})
            assert learned.status == 200, learned.body
            report = client.get(f"/models/{name}/report")
            assert report.status in (200, 409), report.body
        labels = client.post("/models/labels/predict", {"records": X.tolist()}).json["predictions"]
        values = client.post("/v2/models/values/infer", {"inputs": [tensor(X)]}).json["outputs"][0]
        described = client.get("/v2/models/values").json["outputs"][0]
    peer = squaresvm.LSSVC(gamma=1 / (3 * X.var())).fit(np.vstack([X, new]), np.vstack([both, [[1, 0]]]))
    assert labels == peer.predict(X).tolist()
    peer = squaresvm.LSSVR(gamma=1 / (3 * X.var())).fit(
        np.vstack([X, new]), np.vstack([X[:, :2] ** 2, [[0.5, 1.5]]])
    )
    np.testing.assert_allclose(values["data"], peer.predict(X).ravel(), rtol=1e-8, atol=1e-10)
    assert (values["shape"], described["shape"]) == ([90, 2], [-1, 2])


def test_a_precomputed_kernel_only_predicts(tmp_path, clouds):
    X, y = clouds
    model = squaresvm.LSSVC(kernel="precomputed").fit(X @ X.T, y == 0)
    squaresvm.save(model, tmp_path / "m.model")
    with serving(tmp_path) as client:
        outputs = client.post("/v2/models/m/infer", {"inputs": [tensor((X @ X.T)[:4])]}).json["outputs"]
        shapes = {one["name"]: one["shape"] for one in client.get("/v2/models/m").json["outputs"]}
        assert client.get("/models/m/verify").json["ok"]
        assert client.get("/models/m/report").status == 409
    np.testing.assert_allclose(outputs[1]["data"], model.decision_function((X @ X.T)[:4]), rtol=1e-10)
    assert shapes == {"predict": [-1], "decision": [-1], "probabilities": [-1, 2]}


def test_a_streamed_model_only_predicts(tmp_path, clouds):
    from squaresvm.streaming import ArraySource

    X, y = clouds
    model = squaresvm.LSSVC(kernel="linear").fit(ArraySource(X, y))
    squaresvm.save(model, tmp_path / "m.model")
    with serving(tmp_path) as client:
        found = client.post("/models/m/predict", {"records": X.tolist()}).json["predictions"]
        refused = client.post("/models/m/forget", {"ids": [1]})
        report = client.get("/models/m/report")
    assert found == model.predict(X).tolist()
    assert (refused.status, report.status) == (409, 409)


def test_what_the_server_says_of_itself(folder):
    with serving(folder) as client:
        description = client.get("/openapi.json").json
        client.post("/models/clouds/forget", {"ids": ["p1"]})
        metrics = client.get("/metrics").body.decode()
        for path, operations in description["paths"].items():
            if "get" in operations:
                assert client.get(path.replace("{name}", "clouds")).status == 200, path
    assert 'squaresvm_rows_changed_total{kind="forget"} 1.0' in metrics
    assert 'squaresvm_rows_held{model="clouds"} 89.0' in metrics
    assert json.dumps(description).count("#/components/schemas/Forget") == 1


def test_mlflow_hands_frames_to_the_preparation(table):
    pandas = pytest.importorskip("pandas")
    from squaresvm.serve.pyfunc import _load_pyfunc

    frame = pandas.read_csv(table / "people.csv")
    model = _load_pyfunc(table / "people.model")
    with serving(table) as client:
        csv = (table / "people.csv").read_bytes()
        expected = client.ask("POST", "/models/people/predict", csv, {"content-type": "text/csv"}).json
    assert model.predict(frame[["town", "label", "age"]]).tolist() == expected["predictions"]
    assert model.predict(frame, params={"probabilities": True}).shape == (60, 2)
    with pytest.raises(ValueError, match="no column 'town'"):
        model.predict(frame[["age"]])
    with pytest.raises(ValueError, match="records with names"):
        model.predict(np.zeros((2, 3)))


def test_a_model_through_mlflow(table, tmp_path_factory):
    mlflow = pytest.importorskip("mlflow.pyfunc")
    pandas = pytest.importorskip("pandas")
    place = tmp_path_factory.mktemp("mlflow") / "people"
    mlflow.save_model(place, loader_module="squaresvm.serve.pyfunc", data_path=str(table / "people.model"))
    found = mlflow.load_model(str(place)).predict(
        pandas.DataFrame({"town": ["Ulm", "Bonn"], "age": [41, 58.5]})
    )
    assert list(found) == ["well", "sick"]


def test_the_history_in_the_file_stays_short(folder):
    with serving(folder, save_seconds=0.1) as client:
        for number in range(12):
            row = {"records": [[0.1 * number, 1, 2]], "labels": [1], "ids": [f"h{number}"]}
            assert client.post("/models/clouds/learn", row).status == 200
            if number % 3:
                assert client.post("/models/clouds/forget", {"ids": [f"h{number}"]}).status == 200
    history = squaresvm.files.Record.of(squaresvm.load(folder / "clouds.model")).history
    lines = [(event.action, event.rows, event.left) for event in history.events]
    assert sorted(lines) == [("forget", 8, 0), ("learn", 12, 4), ("save", 90, 90)]


def test_the_chain_of_receipts_and_absence(folder):
    with serving(folder) as client:
        client.post("/models/clouds/forget", {"ids": ["p3", "p5"]})
        answer = client.post(
            "/models/clouds/learn", {"records": [[1, 2, 3]], "labels": [1], "ids": ["x"]}
        ).json
        chain = client.get("/models/clouds/chain").json["chain"]
        found = client.post("/models/clouds/absence", {"id": "p3"}).json
        verdict = client.get("/models/clouds/verify").json
    receipts = [squaresvm.Receipt.from_json(one) for one in chain]
    assert squaresvm.check_chain(receipts) == []
    assert [(one.kind, one.rows, one.remaining) for one in receipts[-2:]] == [
        ("forget", 2, 88),
        ("learn", 1, 89),
    ]
    assert receipts[-1].number == answer["chain_number"]
    proof = squaresvm.evidence.hashes.AbsenceProof.from_json(found["proof"])
    assert squaresvm.check_absence(proof, receipts[-1].commitment) == []
    assert proof.id_hash in receipts[-2].id_hashes
    assert verdict["ok"]
    again = squaresvm.load(folder / "clouds.model").receipts_
    assert [one.hash for one in again] == [one.hash for one in receipts]
