"""The service: answers against the estimator's, refusals, counts; and its processes, with another model meanwhile."""

import asyncio
import json
import math
import os
import re
import signal
import socket
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from command_line import run_here
from served import Process, saved
from starlette.requests import Request

from crfqn import MulticlassCRF, TaxonomyCRF, Templates
from crfqn.data.model_file import write_model
from crfqn.errors import InputError, ModelFileError
from crfqn.model.content import Entries, chain_file
from crfqn.service.application import COUNTS_PER_PROCESS, Counters, Labelling, RequestLimits, create_app
from crfqn.service.description import describe_api
from crfqn.service.labelling import LabelRequest, LabelService, Overdue

pytestmark = pytest.mark.filterwarnings("ignore::crfqn.errors.UnknownFeaturesWarning")

WORDS = ["Ann", "Lee", "sees", "New", "York", "and", "Bob"]
LABELS = ["B-PER", "I-PER", "O", "B-LOC", "I-LOC", "O", "B-PER"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Estimators by name, with the folder of their files."""
    folder = tmp_path_factory.mktemp("service")
    templates = Templates(windows="w[-1] w[0]", columns=("w",))
    X = templates.fit_transform([[{"w": word} for word in WORDS], [{"w": "York"}]] * 3)
    y = [LABELS, ["B-LOC"]] * 3
    columns = Templates(windows="w[0] p[0]", columns=("w", "p"))
    pairs = columns.fit_transform([[{"w": word, "p": word[0]} for word in WORDS]] * 3)
    dicts = [[{"w": word, "n": len(word)} for word in WORDS]] * 3
    random = np.random.default_rng(0)
    matrix, classes = random.normal(size=(40, 4)), random.integers(0, 3, 40)
    paths = np.array(["a/x", "a/y", "b"])[classes]
    return folder, {
        "words": saved(folder / "words.crfqn", X, y, scheme="IOB2"),
        "columns": saved(folder / "columns.crfqn", pairs, [LABELS] * 3),
        "dicts": saved(folder / "dicts.crfqn", dicts, [LABELS] * 3),
        "matrix": saved(folder / "matrix.crfqn", [matrix] * 3, [classes.tolist()] * 3),
        "rows": saved(folder / "rows.crfqn", matrix, classes, MulticlassCRF),
        "tree": saved(folder / "tree.crfqn", matrix, paths, TaxonomyCRF),
    }


@pytest.fixture(scope="module")
def client(models):
    """Return a function that gives a client of the model of a name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # starlette would rather have the successor of httpx
        from starlette.testclient import TestClient

    def of(name, counters=None, **limits):
        app = create_app(LabelService(models[0] / f"{name}.crfqn"), RequestLimits(**limits), counters)
        return TestClient(app, raise_server_exceptions=False)

    return of


def ask(client, **request):
    response = client.post("/label", json=request)
    assert response.status_code == 200, response.text
    return response.json()


def test_a_text_has_all_that_is_asked_for(models, client):
    model, text = models[1]["words"], "Ann Lee sees New York"
    everything = {"probabilities": True, "marginals": True, "spans": True, "nbest": 3, "features": 2}
    found = ask(client("words"), item=text, **everything)
    X = [[{"w": word} for word in text.split()]]
    (labels,), (log,) = model.decode(X)
    assert found["tokens"] == text.split()
    assert [text[start:end] for start, end in zip(found["start"], found["end"], strict=True)] == text.split()
    assert found["labels"] == list(labels) == LABELS[:5]
    assert found["probability"] == pytest.approx(np.exp(log), abs=1e-12)
    assert found["log_probability"] == pytest.approx(log, abs=1e-12)
    (marginals,) = model.predict_marginals(X)
    names = model.classes_.tolist()
    assert found["marginals"] == [pytest.approx(dict(zip(names, row, strict=True))) for row in marginals]
    assert found["probabilities"] == pytest.approx(
        [marginals[t, names.index(k)] for t, k in enumerate(labels)]
    )
    for one, (best, p) in zip(found["nbest"], model.predict_nbest(X, 3)[0], strict=True):
        assert (one["labels"], one["probability"]) == (best, pytest.approx(p))
    spans = [span._asdict() for span in model.predict_spans(X)[0]]
    assert [(s["label"], s["start"], s["end"]) for s in found["spans"]] == [("PER", 0, 2), ("LOC", 3, 5)]
    for mine, span in zip(found["spans"], spans, strict=True):
        places = {"start_char": found["start"][span["start"]], "end_char": found["end"][span["end"] - 1]}
        assert mine == {**span, **places, "probability": pytest.approx(span["probability"], abs=1e-12)}
    assert [text[s["start_char"] : s["end_char"]] for s in found["spans"]] == ["Ann Lee", "New York"]
    weights = model.state_features_
    for label, rows in zip(labels, found["features"], strict=True):
        assert [row["weight"] for row in rows] == [weights[row["feature"], label] for row in rows]
        assert [abs(row["weight"]) for row in rows] == sorted(
            (abs(row["weight"]) for row in rows), reverse=True
        )


def test_many_items_are_as_one_by_one(models, client):
    texts = ["Ann Lee", "", "sees York", "nobody \ud800"] * 40
    own = client("words")
    body = json.dumps({"items": texts, "spans": True, "known": [None] * len(texts)})
    assert len(body) > 1000
    found = own.post("/label", content=body).json()["items"]
    assert found == [
        json.loads(own.post("/label", content=json.dumps({"item": t, "spans": True})).content) for t in texts
    ]
    known = ask(own, item=["Ann", "Lee"], known=[["B-LOC", "O"], "O"])
    assert known["labels"] == models[1]["words"].predict([["Ann", "Lee"]], known=[[{"B-LOC", "O"}, "O"]])[0]


def test_requests_that_wait_together_have_each_its_own_answer(models):
    service = LabelService(models[0] / "words.crfqn")
    fields = [
        {"item": "Ann Lee"}, {"item": "York"}, {"item": 5}, {"item": "Ann", "spans": True}, {"items": ["York", "Ann"]},
        {"item": "York", "known": [["O"]]}, {"item": "York", "known": ["X"]}, {"item": "Ann", "spans": True},
    ]  # fmt: skip
    for some in (fields, [one for one in fields if one.get("item") != 5 and one.get("known") != ["X"]]):
        requests = [(LabelRequest(**one), math.inf) for one in some]
        for request, found in zip(requests, service.answer_each(requests), strict=True):
            if isinstance(found, Exception):
                with pytest.raises(InputError, match=re.escape(str(found))):
                    service.answer(*request)
            else:
                assert found == service.answer(*request)
    late, *others = service.answer_each([(LabelRequest(item="Ann"), 0), *requests])
    assert isinstance(late, Overdue)
    assert others == service.answer_each(requests)


@pytest.mark.parametrize("name", ["9" * 5000, "01", "\u0663", "-1"])
def test_names_that_are_no_number_of_a_column(models, name):
    service = LabelService(models[0] / "rows.crfqn")
    good, bad = LabelRequest(item={"1": 0.5}), LabelRequest(item={name: 1.0})
    with pytest.raises(InputError):
        service.answer(bad, math.inf)
    first, refused, last = service.answer_each([(one, math.inf) for one in (good, bad, good)])
    assert isinstance(refused, InputError)
    assert first == last == service.answer(good, math.inf)


def test_a_failure_is_of_its_request_alone(models, monkeypatch):
    service = LabelService(models[0] / "words.crfqn")
    prepared = service._prepared

    def fails(i, item, answer):
        if item == "Bob":
            raise ZeroDivisionError
        return prepared(i, item, answer)

    monkeypatch.setattr(service, "_prepared", fails)
    requests = [(LabelRequest(item=item), math.inf) for item in ("Ann", "Bob", "York")]
    first, failed, last = service.answer_each(requests)
    assert isinstance(failed, ZeroDivisionError)
    assert [first, last] == [service.answer(*requests[0]), service.answer(*requests[2])]


def test_requests_are_answered_together_once_no_others_come_in(models, monkeypatch):
    service, sizes = LabelService(models[0] / "words.crfqn"), []
    answer_each = service.answer_each
    monkeypatch.setattr(service, "answer_each", lambda all: (sizes.append(len(all)), answer_each(all))[1])
    labelling = Labelling(service, RequestLimits(), Counters(np.zeros((1, COUNTS_PER_PROCESS))))

    async def ask(n_turns, text):
        for _ in range(n_turns):  # of the event loop, before the request comes
            await asyncio.sleep(0)

        async def receive():
            return {"type": "http.request", "body": json.dumps({"item": text}).encode()}

        return json.loads((await labelling.label(Request({"type": "http", "headers": []}, receive))).body)

    async def ask_all(turns):
        return await asyncio.gather(*(ask(*each) for each in zip(turns, WORDS * 20, strict=False)))

    expected = [service.answer(LabelRequest(item=text), math.inf).content for text in WORDS * 20]
    for turns, n_together in [
        ([0], [1]),
        ([0, 0, 1, 2, 3], [5]),
        ([0, 50], [1, 1]),
        ([k // 2 for k in range(100)], [64, 36]),
    ]:
        sizes.clear()
        assert asyncio.run(ask_all(turns)) == expected[: len(turns)]
        assert sizes == n_together


def test_what_requests_use_is_there_before_the_first(tmp_path):
    """Processes are forked then; what one made on its own, it would not share."""
    n, none = 5000, Entries(np.zeros(0), *np.zeros((2, 0), np.int64))
    table = Entries(np.ones(n), np.arange(n), np.arange(n) % 2)
    file = chain_file("", ["a", "b"], [f"name{k}=value" for k in range(n)], table, none, extra={})
    path = tmp_path / "many.crfqn"
    write_model(path, file.kind, file.arrays, file.strings, file.metadata)
    service = LabelService(path)
    before = sys.getallocatedblocks()
    assert service.answer(LabelRequest(item=[{"name7": "value"}]), math.inf).n_positions == 1
    assert sys.getallocatedblocks() - before < n / 10


@pytest.mark.parametrize(
    ("name", "item"),
    [
        ("words", ["Ann", "Lee"]), ("columns", [["Ann", "A"], ["Lee", "L"]]),
        ("dicts", [{"w": "Ann", "n": 3}, {"w": "Lee"}]), ("matrix", [[1, 0.5, -1, 0], [0, 0, 0, 2]]),
        ("rows", [1, 0.5, -1, 0]), ("rows", {"0": 1, "2": -1}), ("tree", [1, 0.5, -1, 0]),
    ],
)  # fmt: skip
def test_each_kind_of_model_takes_its_items(models, client, name, item):
    own, model = client(name), models[1][name]
    takes = own.get("/model").json()
    X = [item] if takes["takes"] in ("text", "columns", "features") else np.array([item])
    if isinstance(item, dict):
        X = np.array([[item.get(str(f), 0) for f in range(4)]])
    found = ask(own, item=item, probabilities=True, nbest=2, features=3)
    assert found["labels" if takes["labels_sequences"] else "label"] == model.predict(X).tolist()[0]
    assert found["probability"] == pytest.approx(np.exp(model.decode(X)[1][0]))
    assert takes["labels"] == model.classes_.tolist()
    if takes["takes"] == "row":
        nodes = {name: k for k, name in enumerate(model.tree_.names if name == "tree" else takes["labels"])}
        path = [found["label"], found["label"].split("/")[0]] if name == "tree" else [found["label"]]
        sums = X[0] * sum(model.coef_.toarray()[k] for k in {nodes[node] for node in path})
        assert {f["feature"]: f["weight"] for f in found["features"]} == pytest.approx(
            {f: sums[f] for f in np.argsort(-abs(sums))[:3].tolist() if sums[f]}
        )


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "expected JSON"), (b"\xff", "expected JSON"), (b"[" * 100_000, "expected JSON"),
        (b'{"item": NaN}', "NaN is no number"), (b"[]", "expected an object"),
        (b'{"item": 1, "items": []}', "expected an object"), (b'{"item": null}', "got null"),
        (b'{"items": "Ann"}', "items: expected a list"), (b'{"item": "Ann", "best": 2}', "expected the keys item"),
        (b'{"item": "Ann", "nbest": 1e3}', "nbest: expected a whole number"),
        (b'{"item": "Ann", "nbest": true}', "nbest: expected a whole number"),
        (b'{"item": "Ann", "spans": 1}', "spans: expected true or false"),
        (b'{"item": "Ann", "known": ["X"]}', "label 'X' is not among"),
        (b'{"item": "Ann", "known": [[["X"]]]}', "known: item 0: expected a label"),
        (b'{"item": "Ann", "known": [[]]}', "at least one label"),
        (b'{"item": "Ann", "known": []}', "expected 1 labels"),
        (b'{"items": ["Ann"], "known": []}', "known: expected 1 lists"), (b'{"item": 5}', "item 0: expected a list"),
        (b'{"item": [["Ann", "x"]]}', "item 0, position 0: expected"),
        (json.dumps({"items": ["Ann"] * 100 + [[1]]}).encode(), "item 100, position 0: expected a text"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(client, body, says):
    response = client("words").post("/label", content=body)
    assert response.status_code == 422
    assert says in response.json()["error"]


@pytest.mark.parametrize("name", ["words", "columns", "dicts", "matrix", "rows", "tree"])
def test_no_item_breaks_it(client, name):
    own = client(name)
    big = 10**400
    for item in (
        5, "a", {}, [], {"a": 1}, {"0": "x"}, {"9": 1}, {"-1": 1}, {"": 2}, [None], [[]], [{}], [[1.5]], [1e999], [big],
        [["a"], "b"], [{"w": None}], [{"w": [1]}], [{"w": {"v": {}}}], [[[1]]], True, ["\ud800"], [{"n": big}],
        {"0": big}, [[big] * 4], [[1e999] * 4], ["a"] * 4, [True, False, True, False], [{"\ud800": 1}], [{"n": 1e999}],
    ):  # fmt: skip
        body = json.dumps({"item": item, "features": 1, "probabilities": True}).replace("Infinity", "1e999")
        response = own.post("/label", content=body)
        assert response.status_code in (200, 422), (item, response.text)
        response.json()


@pytest.mark.parametrize("value", ["1e17", "1e308", "1e999", "1e-310"])
def test_values_that_no_score_has_place_for(client, value):
    """Refused, or labelled as others: JSON has no NaN, and nor has an answer."""
    body = f'{{"items": [[{{"w": "Ann", "n": {value}}}, {{"w": "Lee", "n": -{value}}}]], "marginals": true}}'
    response = client("dicts").post("/label", content=body)
    answer = json.loads(response.content, parse_constant=pytest.fail)
    if value == "1e-310":
        assert response.status_code == 200
    else:
        assert response.status_code in (200, 422), answer
        assert "items" in answer or "finite" in answer["error"] or "e+12" in answer["error"]


def test_an_answer_that_json_does_not_have_is_refused(client, monkeypatch):
    own = client("words")
    answered = LabelService.answer

    def with_nan(self, request, deadline):
        answer = answered(self, request, deadline)
        answer.content["probability"] = math.nan
        return answer

    monkeypatch.setattr(LabelService, "answer", with_nan)
    response = own.post("/label", json={"item": "Ann"})
    assert response.status_code == 422
    assert "expected finite numbers" in response.json()["error"]


def test_limits_of_size_and_time(models, client):
    own = client("words", max_bytes=100)
    assert own.post("/label", content=b"x" * 101).json() == {"error": "expected a body of at most 100 bytes"}
    assert own.post("/label", content=iter([b"x" * 60] * 2)).status_code == 413
    for n_words in (1, 20_000):  # where it came in, and in a thread
        late = client("words", timeout=1e-9).post("/label", json={"item": "Ann " * n_words})
        assert (late.status_code, late.headers["retry-after"]) == (503, "1")
        assert "answered in 1e-09 seconds" in late.json()["error"]
    assert ask(client("words"), item="Ann " * 20_000)["labels"][:1] == ["B-PER"]
    for method, path, status in (("GET", "/label", 405), ("GET", "/nothing", 404)):
        response = own.request(method, path)
        assert response.status_code == status
        assert response.json()["error"].startswith(f"{method} {path}: ")
    with pytest.raises(ModelFileError, match="there is no such file"):
        LabelService(models[0] / "nothing.crfqn")


def test_counts_are_of_all_processes(client):
    table = np.zeros((2, COUNTS_PER_PROCESS))
    clients = [client("words", Counters(table, row)) for row in (0, 1)]
    for own in clients:
        ask(own, items=["Ann Lee", "York"])
        own.post("/label", content=b"")
    lines = clients[0].get("/metrics").text.splitlines()
    for line in (
        'crfqn_requests_total{status="200"} 2', 'crfqn_requests_total{status="422"} 2', "crfqn_items_total 4",
        "crfqn_positions_total 6", 'crfqn_request_seconds_bucket{le="+Inf"} 4', "crfqn_request_seconds_count 4",
    ):  # fmt: skip
        assert line in lines
    names = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert {re.sub(r"(_bucket|_sum|_count)?[ {].*", "", line) for line in lines if line[0] != "#"} == names


def test_the_description_is_of_what_there_is(client):
    own = client("words")
    described = own.get("/openapi.json").json()
    assert described == json.loads(json.dumps(describe_api(1 << 20, 10.0)))
    for path in described["paths"]:
        assert own.request("POST" if path == "/label" else "GET", path).status_code in (200, 422)
    schemas = {name: {*schema["properties"]} for name, schema in described["components"]["schemas"].items()}
    request = {
        "item": "Ann Lee",
        "probabilities": True,
        "marginals": True,
        "spans": True,
        "nbest": 2,
        "features": 2,
        "explain": 2,
    }
    assert schemas["Request"] == {*request, "items", "known", "once", "threshold"}
    assert ask(own, item="Ann Lee", once=[], nbest=1)["nbest"] == ask(own, item="Ann Lee", nbest=1)["nbest"]
    assert own.post("/label", json={"item": "Ann Lee", "once": ["q"]}).status_code == 422
    assert schemas["Item"] == {*ask(own, **request), "label"}
    assert schemas["Model"] == {*own.get("/model").json()}
    assert schemas["Error"] == {*own.post("/label", content=b"").json()}


def test_the_page_runs_its_own_script_only(client):
    response = client("words").get("/")
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\bon\w+=|style=|https?://", response.text
    )


def wait_until(is_so, seconds=20):
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        time.sleep(0.02)
    assert is_so()


def test_what_is_missing_or_taken_is_told(models, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = run_here(monkeypatch, models[0], "serve", "words.crfqn", "--port", port)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith(f"crfqn: cannot listen at 127.0.0.1, port {port}: Address already in use")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    run = run_here(monkeypatch, models[0], "serve", "words.crfqn")
    assert (run.returncode, run.stderr) == (2, "crfqn: a service needs uvicorn: pip install 'crfqn[serve]'\n")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_another_model_comes_without_a_lost_request(models, tmp_path):
    served, other, lower = (tmp_path / f"{name}.crfqn" for name in ("served", "other", "lower"))
    served.write_bytes((models[0] / "words.crfqn").read_bytes())
    other.write_bytes(b"no model")
    templates = Templates(windows="w[0]", columns=("w",))
    X = templates.fit_transform([[{"w": word} for word in WORDS]] * 3)
    saved(lower, X, [[label.lower() for label in LABELS]] * 3)
    before, after = (LabelService(path).model.predict([["York"]])[0] for path in (served, lower))
    found, is_over = [], threading.Event()
    with Process(served, "--workers", "2") as service:

        def ask_on():
            connection = service.connect()
            while not is_over.is_set():
                found.append(service.label(connection, "York"))
            connection.close()

        clients = [threading.Thread(target=ask_on) for _ in range(2)]
        for client in clients:
            client.start()
        try:
            wait_until(lambda: found)
            for file, message in ((other, "the previous model is kept"), (lower, "opened anew")):
                os.replace(file, served)
                service.send_signal(signal.SIGHUP)
                assert message in service.stderr.readline()
            wait_until(lambda: found[-1] == after)
        finally:
            is_over.set()
            for client in clients:
                client.join()
        assert found[0] == before != after == found[-1]
        assert len(found) == sum(labels in (before, after) for labels in found)
        service.send_signal(signal.SIGTERM)
        assert service.wait(20) == 0
        with pytest.raises(ConnectionRefusedError):
            service.label(service.connect(), "York")
