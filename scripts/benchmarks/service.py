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
from typing import Annotated

import numpy as np
import typer
from harness.comparing import Comparison, Ratio, Section
from harness.measuring import quietly
from harness.options import Output
from harness.report import Record, Table, matching, median

from benchmarks.tagging import ONE_THREAD, sentences

N_LABELS, N_WORDS, N_CLIENTS = 13, 15, (1, 8, 64)
OURS, AROUND = "crfqn serve", "around python-crfsuite"
ROUNDS = 9  # of each, by turns: short ones, so that what else the machine does falls on both
# What differs is the object that labels: the server, its reading of requests and its writing of answers are the same.
PEER = """
import pycrfsuite
import crfqn.service.workers as workers

class Peer(workers.LabelService):
    def __init__(self, path):
        super().__init__(path)
        tagger = pycrfsuite.Tagger()
        tagger.open({theirs!r})
        object.__setattr__(self.model, "predict", lambda X: [tagger.tag(item) for item in X])

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
    """Return what the threads of the processes that a service has forked have taken so far."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    threads = [thread for child in children for thread in Path(f"/proc/{child}/task").iterdir()]
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def measure(seconds: float) -> Record:
    """By service and number of clients: requests a second and processor seconds of a request by round, quantiles of the
    seconds of all requests."""
    from crfqn import ChainCRF, interchange

    X, y = sentences(N_LABELS, 120, 1)
    bodies = [json.dumps({"item": item}).encode() for item in sentences(N_LABELS, 1000, 2, [N_WORDS])[0]]
    services, loads = {}, []
    with tempfile.TemporaryDirectory() as folder:
        own, theirs = (str(Path(folder) / f"model.{suffix}") for suffix in ("crfqn", "crfsuite"))
        with quietly():
            model = ChainCRF(n_threads=1).fit(X, y)
            model.save(own)
            interchange.write(model, theirs)
        serve = SERVE.format(own=own)
        try:
            services[OURS] = start(serve)
            services[AROUND] = start(PEER.format(theirs=theirs) + serve)
            for n_clients in N_CLIENTS:
                by_name: dict[str, tuple[list, list, list]] = {name: ([], [], []) for name in services}
                for _ in range(ROUNDS):
                    for name, (process, port) in services.items():
                        rates, times, costs = by_name[name]
                        before = processor_seconds(process.pid)
                        rate, seconds_each = asyncio.run(load(port, bodies, n_clients, seconds))
                        rates.append(rate)
                        times += seconds_each
                        n_requests = len(seconds_each) + 5 * n_clients
                        costs.append((processor_seconds(process.pid) - before) / n_requests)
                for name, (rates, times, costs) in by_name.items():
                    found = {"quantiles": np.quantile(times, [0.5, 0.99]), "costs": costs}
                    loads.append({"name": name, "n_clients": n_clients, "rates": rates, **found})
        finally:
            for process, _ in services.values():
                process.terminate()
                process.wait()
    return {"loads": loads}


def section(records: list[Record]) -> Section:
    loads, rows = records[-1]["loads"], []
    for each in loads:
        quantiles = [f"{1e3 * q:.1f}" for q in each["quantiles"]]
        cost = f"{1e6 * float(np.median(each['costs'])):.0f}"
        rows.append([each["name"], str(each["n_clients"]), median(each["rates"], ".0f"), *quantiles, cost])
    ours, peer = (matching(loads, name=name, n_clients=N_CLIENTS[-1])[0] for name in (OURS, AROUND))
    by_cost = float(np.median(np.divide(peer["costs"], ours["costs"])))
    by_rate = float(np.median(np.divide(ours["rates"], peer["rates"])))
    rates = [f"{median(each['rates'], '.0f')} a second" for each in (ours, peer)]
    clients = f"{N_CLIENTS[-1]} clients"
    ratios = [Ratio(f"processor seconds of a request, {clients}", by_cost, OURS, AROUND)]
    ratios.append(Ratio(f"requests a second, {clients}, crfqn's over the peer's", by_rate, *rates))
    head = ["", "clients", "requests a second", "p50, ms", "p99, ms", "processor time of a request, us"]
    title = f"One process, {N_LABELS} labels, sentences of {N_WORDS} words"
    return Section([Table(title, head, rows)], ratios)


SERVICE = Comparison(
    "service", "A service, against python-crfsuite",
    "`crfqn serve` under load beside the same server around python-crfsuite with the same weights, by turns.",
    ["crfqn", "python-crfsuite", "starlette", "uvicorn", "numpy"], section,
)  # fmt: skip


def service(
    seconds: Annotated[float, typer.Option(min=0.1, help="Of each measurement.")] = 1.0, output: Output = None
) -> None:
    """`crfqn serve` under load, beside the same server around python-crfsuite."""
    SERVICE.measure(measure, [{"seconds": seconds}], output)
