"""Files fetched for the papers' tables: from a server of our own, and from an OpenML that is made up."""

from __future__ import annotations

import bz2
import csv
import gzip
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError, URLError

import numpy as np
import pytest
import requests
from sklearn.utils import Bunch
from typer.testing import CliRunner

from squaresvm.bench import downloads, fetch_missing, known_tables, load_table
from squaresvm.bench.data import load_data
from squaresvm.bench.downloads import Origin, Origins, load_origins
from squaresvm.bench.table import DataSet
from squaresvm.cli.app import app

#: As the pages have it, with blanks at line ends, and as it is kept.
PAGE = b"-1 1:2 3:0.5 \n+1.000000  2:1\n1 1:7\t\n"
KEPT = b"-1 1:2 3:0.5\n+1 2:1\n+1 1:7\n"


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class Server:
    """Serves `pages` by path; those in `cut` break off before their end."""

    def __init__(self):
        self.pages, self.cut, self.asked = {}, set(), []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                server.asked.append(self.path)
                body = server.pages.get(self.path)
                if body is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if self.path in server.cut else body)

            def log_message(self, *args):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self):
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    found = Server()
    yield found
    found.close()


def table_of(folder, *names, test=(), quick=True):
    """Return a table that reads files."""
    folder.mkdir(exist_ok=True)
    path = folder / "mine.toml"
    data = "\n".join(
        f"[data.d{number}]\nfiles = [{json.dumps(name)}]\ntest = {json.dumps(list(test))}\nfeatures = 3"
        for number, name in enumerate(names)
    )
    rows = "\n".join(
        f'[[rows]]\ndata = "d{number}"\nmethod = "LSSVC"\nquick = {json.dumps(quick)}'
        for number in range(len(names))
    )
    head = 'title = "t"\npaper = "p"\nwhere = "w"\nprotocol = { kind = "splits", train = 2 }'
    path.write_text(f"{head}\n{data}\n{rows}\n")
    return path


def fetched(tmp_path, server, files, *names, **options):
    folder = tmp_path / "data"
    folder.mkdir(exist_ok=True)
    table = load_table(table_of(tmp_path, *(names or files)))
    return folder, fetch_missing([table], folder, origins=Origins(server.base, files), **options)


def test_every_file_of_a_table_has_one_declared_origin():
    tables = [load_table(name) for name in known_tables()]
    used = {name for t in tables for d in t.data.values() for name in (*d.files, *d.test)}
    files = load_origins().files
    assert used == set(files)
    for origin in files.values():
        ways = (origin.page, origin.whole, origin.openml, origin.unfetchable)
        assert sum(way is not None for way in ways) == 1
        assert (origin.sha256 is not None) == (origin.page is not None or origin.whole is not None)
        assert origin.openml is None or origin.rows == sum(origin.classes.values()) > 0


def test_pages_are_fetched_plain_unpacked_and_packed_again(tmp_path, server):
    server.pages = {"/b/plain": PAGE, "/b/packed.bz2": bz2.compress(PAGE)}
    files = {
        "plain.svm": Origin(page="b/plain", sha256=sha256(KEPT)),
        "packed.svm": Origin(page="b/packed.bz2", sha256=sha256(KEPT)),
        "again.svm.gz": Origin(page="b/plain", sha256=sha256(KEPT)),
    }
    told = []
    folder, reasons = fetched(tmp_path, server, files, progress=lambda *at: told.append(at))
    assert reasons == {}
    assert (folder / "plain.svm").read_bytes() == (folder / "packed.svm").read_bytes() == KEPT
    assert gzip.decompress((folder / "again.svm.gz").read_bytes()) == KEPT
    assert told[0] == (0, 3, "fetch plain.svm")
    assert told[-1] == (3, 3, "")
    loaded = load_data(DataSet("d", files=("again.svm.gz",), features=3), folder)
    assert loaded.train.X.tolist() == [[2, 0, 0.5], [0, 1, 0], [7, 0, 0]]
    assert loaded.train.y.tolist() == [-1, 1, 1]


def test_what_is_there_is_neither_fetched_nor_changed_and_what_came_is_listed(tmp_path, server):
    server.pages = {"/b/new": PAGE}
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "old.svm").write_bytes(b"mine")
    (tmp_path / "data" / "SHA256SUMS").write_text(f"{sha256(b'mine')}  old.svm\n")
    files = {name: Origin(page=f"b/{name[:3]}", sha256=sha256(KEPT)) for name in ("old.svm", "new.svm")}
    folder, reasons = fetched(tmp_path, server, files)
    assert (reasons, server.asked) == ({}, ["/b/new"])
    assert (folder / "old.svm").read_bytes() == b"mine"
    listed = (folder / "SHA256SUMS").read_text().splitlines()
    assert listed == [f"{sha256(b'mine')}  old.svm", f"{sha256(KEPT)}  new.svm"]


def test_each_failure_has_its_reason_and_keeps_nothing(tmp_path, server, monkeypatch):
    packed = bz2.compress(PAGE)
    server.pages = {
        "/wrong": PAGE + b"+1 3:9\n",
        "/cut": PAGE,
        "/cut.bz2": packed[:-8],
        "/plain.bz2": PAGE,
        "/html": b"<html>moved</html>",
        "/empty-line": b"+1 1:1\n\n",
        "/large": b"+1 1:1\n" * 99,
        "/good": PAGE,
    }
    server.cut = {"/cut"}
    monkeypatch.setattr(downloads, "_MAX_BYTES", 600)
    files = {
        f"{page[1:]}.svm": Origin(page=page[1:], sha256=sha256(KEPT)) for page in (*server.pages, "/gone")
    }
    files["theirs.svm"] = Origin(unfetchable="it is nobody's")
    files["rest.svm"] = Origin(whole="gone.svm", less="good.svm", sha256=sha256(b""))
    folder, reasons = fetched(tmp_path, server, files, *files, "unknown.svm")
    expected = {
        "wrong.svm": "SHA-256 is not the declared one",
        "cut.svm": "the download was interrupted (",
        "cut.bz2.svm": "the compressed file is incomplete",
        "plain.bz2.svm": "is not compressed with bzip2",
        "html.svm": "is not LIBSVM text",
        "empty-line.svm": "is not LIBSVM text",
        "large.svm": "has more than 600 bytes",
        "gone.svm": "/gone: HTTP 404 ",
        "theirs.svm": "cannot be fetched: it is nobody's",
        "rest.svm": "is made from gone.svm, which is not there",
        "unknown.svm": "cannot be fetched: no origin is declared for it",
    }
    assert set(reasons) == set(expected)
    for name, words in expected.items():
        assert words in reasons[name]
        assert "\n" not in reasons[name]
    assert sorted(path.name for path in folder.iterdir()) == ["SHA256SUMS", "good.svm"]


def test_a_file_that_the_folder_lists_otherwise_is_refused(tmp_path, server):
    server.pages = {"/b/a": PAGE}
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "SHA256SUMS").write_text(f"{'0' * 64}  a.svm\n")
    folder, reasons = fetched(tmp_path, server, {"a.svm": Origin(page="b/a", sha256=sha256(KEPT))})
    assert "SHA256SUMS lists" in reasons["a.svm"]
    assert not (folder / "a.svm").exists()


def test_lines_less_those_of_another_file_count_doubles(tmp_path, server):
    server.pages = {"/whole": b"+1 1:1\n-1 2:1\n+1 1:1\n-1 3:1\n", "/less": b"-1 3:1\n+1 1:1\n"}
    rest = b"-1 2:1\n+1 1:1\n"
    files = {
        "rest.svm": Origin(whole="whole.svm", less="less.svm", sha256=sha256(rest)),
        "whole.svm": Origin(page="whole", sha256=sha256(server.pages["/whole"])),
        "less.svm": Origin(page="less", sha256=sha256(server.pages["/less"])),
    }
    folder, reasons = fetched(tmp_path, server, files, "rest.svm")  # Its parts are fetched, too.
    assert reasons == {}
    assert (folder / "rest.svm").read_bytes() == rest


def test_without_a_network_one_try_is_enough(tmp_path, server, monkeypatch):
    tried = []

    def get(address, **options):
        tried.append(address)
        raise requests.ConnectionError("no route\nto host")

    monkeypatch.setattr(requests, "get", get)
    files = {name: Origin(page=name, sha256=sha256(KEPT)) for name in ("a.svm", "b.svm")}
    folder, reasons = fetched(tmp_path, server, files)
    assert reasons == dict.fromkeys(files, f"no connection to {server.base} (no route to host)")
    assert len(tried) == 1
    assert list(folder.iterdir()) == []


def test_quick_mode_fetches_nothing_for_rows_that_it_leaves_out(tmp_path):
    table = load_table(table_of(tmp_path, "a1a.svm", quick=False))
    assert fetch_missing([table], tmp_path, quick=True, base="http://127.0.0.1:9") == {}


def made_up(monkeypatch, found):
    """Have OpenML answer with this, or fail with it; return what it was asked."""
    asked = []

    def fetch_openml(**given):
        asked.append(given)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(downloads, "fetch_openml", fetch_openml)
    return asked


WEATHER = Bunch(
    data=np.array([[1.0, 0.25, 2.0], [0.0, np.nan, np.nan], [1.0, -3.0, 0.0]]),
    target=np.array(["yes", "no", "yes"], dtype=object),
    feature_names=["windy%3F", "heat", "grade"],
    categories={"windy%3F": ["no, calm", "yes"], "grade": ["3", "1", "2", "9"]},
)
ORIGIN = Origin(
    openml=7, rename={"windy%3F": "windy?"}, rows=3, columns=3, classes={"no": 1, "yes": 2}, label="play"
)


def test_openml_becomes_csv_with_all_levels(tmp_path, server, monkeypatch):
    asked = made_up(monkeypatch, WEATHER)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "SCHEMA.json").write_text('{"other": {"features": []}}')
    folder, reasons = fetched(tmp_path, server, {"weather.csv": ORIGIN})
    assert reasons == {}
    assert (asked[0]["data_id"], asked[0]["target_column"]) == (7, "play")
    text = (folder / "weather.csv").read_text()
    assert text == 'windy?,heat,grade,label\nyes,0.25,2,yes\n"no, calm",,,no\nyes,-3,3,yes\n'
    schema = json.loads((folder / "SCHEMA.json").read_text())
    assert set(schema) == {"other", "weather"}
    assert schema["weather"]["features"] == [
        {"name": "windy?", "type": "nominal", "values": ["no, calm", "yes"]},
        {"name": "heat", "type": "numeric"},
        {"name": "grade", "type": "nominal", "values": ["3", "1", "2", "9"]},
    ]
    loaded = load_data(DataSet("d", files=("weather.csv",), prepare=("onehot",)), folder)
    nan = np.nan
    expected = [[0, 1, 0.25, 0, 0, 1, 0], [1, 0, nan, 0, 0, 0, 0], [0, 1, -3, 1, 0, 0, 0]]
    np.testing.assert_array_equal(loaded.train.X, expected)
    assert loaded.train.y.tolist() == [1, -1, 1]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (URLError("no name"), "no connection to OpenML (no name)"),
        (TimeoutError("timed out"), "no connection to OpenML (timed out)"),
        (HTTPError("http://x", 500, "Broken", None, None), "OpenML 7: HTTP 500 Broken"),
        (ValueError("md5 checksum\ndoes not match"), "OpenML 7: ValueError: md5 checksum does not match"),
        (
            Bunch(**{**WEATHER, "data": WEATHER.data[:, :2]}),
            "has 3 rows and 2 columns; the papers' have 3 and 3",
        ),
        (Bunch(**{**WEATHER, "target": np.array([1.0, 2.0, 1.0])}), "has classes {'1': 2, '2': 1}"),
    ],
)
def test_what_is_wrong_with_openml_is_said_and_nothing_kept(tmp_path, server, monkeypatch, found, words):
    made_up(monkeypatch, found)
    folder, reasons = fetched(tmp_path, server, {"weather.csv": ORIGIN})
    assert words in reasons["weather.csv"]
    assert list(folder.iterdir()) == []


def test_a_broken_schema_is_left_alone(tmp_path, server, monkeypatch):
    made_up(monkeypatch, WEATHER)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "SCHEMA.json").write_text("{")
    folder, reasons = fetched(tmp_path, server, {"weather.csv": ORIGIN})
    assert "SCHEMA.json is not JSON" in reasons["weather.csv"]
    assert [path.name for path in folder.iterdir()] == ["SCHEMA.json"]


def test_the_command_fetches_when_asked_and_rows_say_what_is_missing(tmp_path, monkeypatch):
    def get(address, **options):
        raise requests.ConnectionError("no name")

    monkeypatch.setattr(requests, "get", get)
    table = table_of(tmp_path, "a1a.svm", "ida_german.csv")
    data, output = tmp_path / "new" / "data", tmp_path / "out"

    def run(*arguments):
        return CliRunner().invoke(app, ["bench", str(table), "-o", str(output), *map(str, arguments)])

    refused = run("--fetch")
    assert (refused.exit_code, refused.stderr) == (
        2,
        "squaresvm: --fetch needs --data FOLDER, where files are kept\n",
    )
    assert run("--fetch", "--data", table).exit_code == 2
    assert run("--data", data).exit_code == 2
    done = run("--fetch", "--data", data)
    assert done.exit_code == 0
    reasons = [
        "a1a.svm: no connection to https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary (no name)",
        "ida_german.csv: cannot be fetched: of the IDA benchmark repository, which is in neither place",
    ]
    assert done.stderr.splitlines() == [f"squaresvm: note: {reason}" for reason in reasons]
    rows = json.loads((output / "results.json").read_text())["tables"]["mine"]["rows"]
    assert [(row["status"], row["reason"]) for row in rows] == [("missing", reason) for reason in reasons]
    assert list(data.iterdir()) == []


@pytest.mark.slow
def test_declared_checksums_are_those_of_the_files_we_have(tmp_path, server, data_folder):
    files = load_origins().files
    for name, origin in files.items():
        if origin.page is not None:
            text = (data_folder / name).read_bytes()
            page = (gzip.decompress(text) if name.endswith(".gz") else text).replace(b"\n", b" \n")
            server.pages[f"/{origin.page}"] = bz2.compress(page) if origin.page.endswith(".bz2") else page
    names = ("lsvm-table-2", "rlssvm-table-6", "rlssvm-table-7", "rlssvm-table-8", "rlssvm-table-4")
    reasons = fetch_missing([load_table(name) for name in names], tmp_path, base=server.base)
    assert list(reasons) == ["leukemia.t.svm"]
    for name, origin in files.items():
        if origin.page is not None and not name.endswith(".gz"):
            assert (tmp_path / name).read_bytes() == (data_folder / name).read_bytes()
        if origin.whole is not None:  # The same rows in another order.
            ours, theirs = (gzip.decompress((at / name).read_bytes()) for at in (tmp_path, data_folder))
            assert sorted(ours.splitlines()) == sorted(theirs.splitlines())


def as_openml(path, schema, origin):
    """Return a local data set as scikit-learn returns OpenML's."""
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    codes = {
        feature["name"]: {level: code for code, level in enumerate(feature["values"])}
        for feature in schema["features"]
        if "values" in feature
    }
    theirs = {ours: name for name, ours in origin.rename.items()}
    data = [
        [
            np.nan if cell == "" else codes[name][cell] if name in codes else float(cell)
            for name, cell in cells
        ]
        for cells in (list(zip(header, row, strict=True))[:-1] for row in rows)
    ]
    return Bunch(
        data=np.array(data, dtype=float),
        target=np.array([row[-1] for row in rows], dtype=object),
        feature_names=[theirs.get(name, name) for name in header[:-1]],
        categories={theirs.get(name, name): list(levels) for name, levels in codes.items()},
    )


@pytest.mark.slow
def test_sets_of_openml_are_read_as_the_files_we_have(tmp_path, monkeypatch, data_folder):
    schemas = json.loads((data_folder / "SCHEMA.json").read_text())
    origins = load_origins().files
    by_number = {origin.openml: name for name, origin in origins.items() if origin.openml is not None}

    def fetch_openml(*, data_id, **given):
        name = by_number[data_id]
        return as_openml(data_folder / name, schemas[name.split(".")[0]], origins[name])

    monkeypatch.setattr(downloads, "fetch_openml", fetch_openml)
    tables = [load_table(name) for name in ("relaxed-table-1", "lsvm-table-1", "lsvm-table-4")]
    assert list(fetch_missing(tables, tmp_path)) == ["cleveland297.csv"]
    sets = [data for table in tables for data in table.data.values() if data.files != ("cleveland297.csv",)]
    assert {name for data in sets for name in data.files} == set(by_number.values())
    for data in sets:
        ours, theirs = load_data(data, tmp_path).train, load_data(data, data_folder).train
        np.testing.assert_array_equal(ours.X, theirs.X)
        np.testing.assert_array_equal(ours.y, theirs.y)
