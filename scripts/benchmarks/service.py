"""`crfqn serve` under load, beside the same server around python-crfsuite with the same weights.

A process of clients asks for the labels of sentences of 15 words, dicts of 14 features a word (`tagging.py`), each
client over a connection of its own, the next sentence when the last one has come back.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from harness.measuring import quietly, run_alone
from harness.options import Output
from harness.report import Promise, Report, Table, finish

from benchmarks.tagging import ONE_THREAD, sentences

N_LABELS, N_WORDS, N_CLIENTS = 13, 15, (1, 8, 64)
ASKED = 0.9  # of the requests a second of python-crfsuite, 64 clients
ROUNDS = 3  # of each, by turns
# What differs is the object that labels: the server, its reading of requests and its writing of answers are the same.
PEER = """
import pycrfsuite
import crfqn.service.workers as workers

class Peer(workers.LabelService):
    def __init__(self, path):
        super().__init__(path)
        tagger = pycrfsuite.Tagger()
        tagger.open({theirs!r})
        self.model.predict = lambda X: [tagger.tag(item) for item in X]

workers.LabelService = Peer
"""
SERVE = "import sys; from crfqn.cli import run; sys.argv = ['crfqn', 'serve', {own!r}, '--port', '0']; run()"


async def load(port: int, bodies: list[bytes], n_clients: int, seconds: float) -> tuple[float, list[float]]:
    """Return requests a second, and the seconds of each."""
    times: list[float] = []
    requests = [
        b"POST /label HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        for body in bodies
    ]
    begin = end = 0.0

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        await reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1]))  # type: ignore[index]

    async def ask_on(client: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        turn = client
        while (start := time.perf_counter()) < end:
            await ask(reader, writer, requests[turn % len(requests)])
            times.append(time.perf_counter() - start)
            turn += n_clients
        writer.close()

    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(n_clients)]
    for _ in range(5):
        await asyncio.gather(*(ask(*stream, requests[k % len(requests)]) for k, stream in enumerate(streams)))
    begin = time.perf_counter()
    end = begin + seconds
    await asyncio.gather(*(ask_on(k, *stream) for k, stream in enumerate(streams)))
    return len(times) / (time.perf_counter() - begin), times


def run_load(*measurement: Any) -> tuple[float, list[float]]:
    return asyncio.run(load(*measurement))


def start(script: str) -> tuple[subprocess.Popen[str], int]:
    """Start a service; return its process and its port."""
    process = subprocess.Popen(
        [sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, env=os.environ | ONE_THREAD
    )
    assert process.stderr is not None
    line = process.stderr.readline()
    found = re.search(r":(\d+);", line)
    assert found, line + process.stderr.read()
    return process, int(found[1])


def processor_seconds(parent: int) -> float:
    """Return what the processes of a service have taken, those forked."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    ticks = [Path(f"/proc/{child}/stat").read_text().rsplit(") ", 1)[1].split()[11:13] for child in children]
    return sum(int(n) for pair in ticks for n in pair) / os.sysconf("SC_CLK_TCK")


def service(
    output: Output = None, seconds: Annotated[float, typer.Option(min=1, help="Of each measurement.")] = 5.0
) -> None:
    """`crfqn serve` under load, beside the same server around python-crfsuite."""
    from crfqn import ChainCRF, interchange

    report = Report("service", "A service", ["crfqn", "python-crfsuite", "starlette", "uvicorn", "numpy"])
    X, y = sentences(N_LABELS, 120, 1)
    bodies = [json.dumps({"item": item}).encode() for item in sentences(N_LABELS, 1000, 2, [N_WORDS])[0]]
    with tempfile.TemporaryDirectory() as folder:
        own, theirs = (str(Path(folder) / f"model.{suffix}") for suffix in ("crfqn", "crfsuite"))
        with quietly():
            model = ChainCRF(n_threads=1).fit(X, y)
            model.save(own)
            interchange.write(model, theirs)
        serve = SERVE.format(own=own)
        services = {
            "crfqn serve": start(serve),
            "around python-crfsuite": start(PEER.format(theirs=theirs) + serve),
        }
        try:
            figures = measure(services, bodies, seconds)
        finally:
            for process, _ in services.values():
                process.terminate()
                process.wait()
    rows = []
    for n_clients in N_CLIENTS:
        for name in services:
            rates, times, costs = figures[name, n_clients]
            quantiles = [f"{1e3 * q:.1f}" for q in np.quantile(times, [0.5, 0.99])]
            cost = f"{1e6 * float(np.median(costs)):.0f}"
            rows.append([name, str(n_clients), f"{np.median(rates):.0f}", *quantiles, cost])
            numbers = {"requests a second": rates, "processor seconds": costs}
            report.numbers[f"{name}, {n_clients} clients"] = numbers
    (rates, _, costs), (peer_rates, _, peer_costs) = (figures[name, 64] for name in services)
    ratio = float(np.median(np.divide(rates, peer_rates)))
    by_cost = float(np.median(np.divide(peer_costs, costs)))
    what = "requests a second against python-crfsuite, 64 clients"
    report.promises.append(Promise(what, f">= {ASKED}", f"{ratio:.2f}", ratio >= ASKED))
    report.notes.append(f"By processor time, which other processes change less, the ratio is {by_cost:.2f}.")
    head = ["", "clients", "requests a second", "p50, ms", "p99, ms", "processor time of a request, us"]
    report.tables.append(Table(f"One process, {N_LABELS} labels, sentences of {N_WORDS} words", head, rows))
    finish(report, output)


def measure(
    services: dict[str, tuple[Any, int]], bodies: list[bytes], seconds: float
) -> dict[tuple[str, int], tuple]:
    """Return of each service and number of clients requests a second by round, the seconds of all requests, and the
    server's processor seconds of a request by round."""
    found: dict[tuple[str, int], tuple[list, list, list]] = {}
    for n_clients in N_CLIENTS:
        for _ in range(ROUNDS):
            for name, (process, port) in services.items():
                rates, times, costs = found.setdefault((name, n_clients), ([], [], []))
                before = processor_seconds(process.pid)
                rate, seconds_each = run_alone(run_load, port, bodies, n_clients, seconds)
                rates.append(rate)
                times += seconds_each
                costs.append((processor_seconds(process.pid) - before) / (len(seconds_each) + 5 * n_clients))
    return found
