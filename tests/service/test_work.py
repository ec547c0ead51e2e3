"""Requests that are little to send and much to answer: refused before they begin, or ended at their deadline."""

import http.client
import json
import math
import os
import signal
import threading
import time
import tracemalloc
import warnings
from contextlib import closing

import numpy as np
import pytest
from served import Process

from crfqn.data.model_file import write_model
from crfqn.errors import InputError
from crfqn.model.content import Entries, chain_file
from crfqn.service import work
from crfqn.service.application import MAX_INLINE_SECONDS, Encoded, create_app
from crfqn.service.labelling import LabelRequest, LabelService, Overdue

pytestmark = pytest.mark.filterwarnings("ignore::crfqn.errors.UnknownFeaturesWarning")
N_LABELS = 60
EVERYTHING = {
    "probabilities": True, "marginals": True, "spans": True, "nbest": 100, "features": 100, "explain": 100,
    "threshold": 0.5,
}  # fmt: skip


def written(path, n_labels):
    """Write a chain of labels of spans with random weights, of 50 features; return its path."""
    rng = np.random.default_rng(0)
    labels = ["O", *(f"{'BI'[k % 2]}-{k // 2}" for k in range(n_labels - 1))]
    cells, pairs = np.divmod(np.arange(50 * n_labels), n_labels), np.divmod(np.arange(n_labels**2), n_labels)
    weights, edges = (
        Entries(rng.normal(size=50 * n_labels), *cells),
        Entries(rng.normal(size=n_labels**2), *pairs),
    )
    file = chain_file("", labels, [f"f{k}" for k in range(50)], weights, edges, extra={})
    write_model(path, file.kind, file.arrays, file.strings, file.metadata)
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return written(tmp_path_factory.mktemp("work") / "many.crfqn", N_LABELS)


@pytest.fixture(scope="module")
def service(path):
    return LabelService(path)


def item(n):
    return [{f"f{7 * t % 50}": 1} for t in range(n)]


@pytest.mark.parametrize("fields", [{}, *({name: value} for name, value in EVERYTHING.items())], ids=str)
def test_each_field_adds_to_the_work_and_is_refused_beyond_the_limit(service, monkeypatch, fields):
    request = LabelRequest(item=item(40), **fields)
    estimate = service.seconds(request)
    assert estimate > service.seconds(LabelRequest(item=item(40))) or not fields
    assert service.seconds(LabelRequest(items=[item(40)] * 3, **fields)) == pytest.approx(3 * estimate)
    service.answer(request, math.inf)
    monkeypatch.setattr(work, "MAX_WORK_SECONDS", 0.9 * estimate)
    asked = next(iter(fields), "labels")
    with pytest.raises(
        InputError, match=rf"at most 3\d positions .* for {asked}.* of 60 labels, got 40: ask"
    ):
        service.answer(request, math.inf)


def test_the_estimate_is_of_the_right_size(service):
    """Processor time, with much slack: a limit that is off by a hundred would be none."""
    for fields in ({}, *({name: value} for name, value in EVERYTHING.items())):
        request = LabelRequest(item=item(400), **fields)
        begin = time.process_time()
        service.answer(request, math.inf)
        assert time.process_time() - begin < 20 * service.seconds(request), fields


def test_the_memory_of_requests_is_within_what_the_limit_says(service):
    """Some 100 MB for a second, as the module has it, with slack for what does not grow with the positions."""
    for name, value in EVERYTHING.items():
        request = LabelRequest(item=item(600), **{name: value})
        tracemalloc.start()
        Encoded.from_answer(service.answer(request, math.inf))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 2e7 + 1.5e8 * service.seconds(request), name


def test_names_of_single_runs_are_as_many_as_labels(service):
    with pytest.raises(InputError, match="once: expected at most the 60 labels of the model, got 30,000"):
        service.answer(LabelRequest(item=item(2), once=["O"] * 30_000), math.inf)


def test_the_clock_is_looked_at_within_an_item(service, monkeypatch):
    monkeypatch.setattr(work, "MAX_WORK_SECONDS", math.inf)
    for fields in ({"nbest": 100}, {"explain": 1}, {"features": 1}, {"once": [f"B-{k}" for k in range(29)]}):
        begin = time.monotonic()
        with pytest.raises(Overdue):
            service.answer(LabelRequest(item=item(10_000), **fields), begin + 0.02)
        assert time.monotonic() - begin < 20


def test_little_work_is_done_at_once_and_more_in_a_thread(service, monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from starlette.testclient import TestClient
    threads, answered = [], LabelService.answer
    main = []

    def answer(self, *request):
        threads.append(threading.get_ident())
        return answered(self, *request)

    monkeypatch.setattr(LabelService, "answer", answer)
    monkeypatch.setattr(LabelService, "describe", lambda self: main.append(threading.get_ident()) or {})
    with TestClient(create_app(service)) as client:
        client.get("/model")
        for n, fields in ((3, {}), (100, {"nbest": 100})):
            request = {"item": item(n), **fields}
            is_little = service.seconds(LabelRequest(**request)) <= MAX_INLINE_SECONDS
            assert client.post("/label", json=request).status_code == 200
            assert (threads.pop() == main[0]) == is_little == (n == 3)
        assert client.post("/label", json={"item": item(3), "once": ["O"]}).status_code == 200
        assert threads.pop() != main[0]
        body = {"item": [{}] * 5000, "nbest": 100}
        assert len(json.dumps(body)) < 25_000
        response = client.post("/label", json=body)
        assert response.status_code == 422
        assert "positions in a request for nbest=100 of 60 labels, got 5,000" in response.json()["error"]


def heavy(port, fields, statuses):
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
        try:
            connection.request("POST", "/label", json.dumps(fields))
            statuses.append(connection.getresponse().status)
        except (http.client.HTTPException, OSError) as error:
            statuses.append(repr(error))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_heavy_requests_leave_a_process_alive(path):
    """Five of them wait for one process; others are answered meanwhile, and SIGTERM ends it."""
    search = {"item": item(60), "once": ["O", *(f"{'BI'[k % 2]}-{k // 2}" for k in range(N_LABELS - 1))]}
    n_best, refused, statuses = {"item": item(60), "nbest": 100}, {"item": [{}] * 3000, "nbest": 100}, []
    with Process(path, "--timeout", "3") as service:
        requests = [search, n_best, refused, search, search]
        threads = [threading.Thread(target=heavy, args=(service.port, each, statuses)) for each in requests]
        for thread in threads:
            thread.start()
        seconds, n_answers = [], 0
        while any(thread.is_alive() for thread in threads):
            with closing(service.connect()) as connection:
                for route in ("/health", "/model"):
                    begin = time.monotonic()
                    connection.request("GET", route)
                    assert connection.getresponse().read()
                    seconds.append(time.monotonic() - begin)
                assert len(service.label(connection, [{}])) == 1
                n_answers += 1
            time.sleep(0.05)
        assert n_answers > 1
        assert np.median(seconds) < 1
        assert len(statuses) == 5
        assert {*statuses} <= {200, 422, 503}
        assert statuses.count(422) >= 1
        last = threading.Thread(target=heavy, args=(service.port, search, statuses))
        last.start()
        time.sleep(0.5)
        service.send_signal(signal.SIGTERM)
        assert service.wait(30) == 0
        last.join()
