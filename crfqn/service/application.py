"""The HTTP interface of a service: an ASGI application for a `LabelService`, with limits, counters and a test page.

The event loop labels small requests itself, in batches, because handing them to a thread would take longer than
labelling them. Large requests go to one thread, one at a time, so that the event loop stays responsive. Requests with
too much work are refused before labelling begins, and labelling stops at the deadline of the request.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from time import monotonic
from typing import NamedTuple, Self

import numpy as np
from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from crfqn.arrays import Vector
from crfqn.data.json_text import strict_json
from crfqn.errors import InputError
from crfqn.service.description import describe_api
from crfqn.service.labelling import ITEM_BATCH, Answer, LabelRequest, LabelService, Overdue

# Bytes of a request that the event loop parses itself, which takes up to 0.4 ms.
MAX_INLINE_BYTES = 16_384
# Estimated seconds of a request, and of a batch of requests, that the event loop labels itself
MAX_INLINE_SECONDS, MAX_BATCH_SECONDS = 0.02, 0.05
# Multiple of the size limit that is read of a body: many clients read no answer before they have sent the body
MAX_OVERREAD = 8
# HTTP statuses of answers, which the metrics count.
ANSWER_STATUSES = 200, 400, 408, 413, 422, 500, 503
# Upper ends of the buckets of the histogram of response times, up to the default limit.
SECONDS_BUCKETS = 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0
# By status; by bucket, with one beyond the last end; seconds, items, positions.
COUNTS_PER_PROCESS = len(ANSWER_STATUSES) + len(SECONDS_BUCKETS) + 1 + 3
SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class RequestLimits:
    """The largest number of bytes of a request's body, and of seconds from its arrival to its answer."""

    max_bytes: int = 1 << 20
    timeout: float = 10.0


class Counters:
    """Counts of requests, items, positions and seconds.

    Each process of a service writes its row of `table`, (processes, COUNTS_PER_PROCESS), and reads the sums of all.
    """

    def __init__(self, table: Vector, row: int = 0) -> None:
        self._table, self._row = table, table[row]

    def add(self, status: int, seconds: float, n_items: int = 0, n_positions: int = 0) -> None:
        """Count a request."""
        row = self._row
        row[ANSWER_STATUSES.index(status)] += 1
        row[len(ANSWER_STATUSES) + int(np.searchsorted(SECONDS_BUCKETS, seconds))] += 1
        row[-3:] += seconds, n_items, n_positions

    def text(self) -> str:
        """Return the sums of all processes in the text format of Prometheus."""
        sums = self._table.sum(axis=0).tolist()
        seconds, n_items, n_positions = sums[-3:]
        ends, counts = (
            [*map(str, SECONDS_BUCKETS), "+Inf"],
            np.cumsum(sums[len(ANSWER_STATUSES) : -3]).tolist(),
        )
        by_status = zip(ANSWER_STATUSES, sums, strict=False)
        timed = [f'_bucket{{le="{end}"}} {n:.0f}' for end, n in zip(ends, counts, strict=True)]
        timed += [f"_sum {seconds!r}", f"_count {counts[-1]:.0f}"]
        lines: list[str] = []
        for name, kind, help, values in (
            ("requests_total", "counter", "Requests to label, by the status of the answer.",
                [f'{{status="{status}"}} {n:.0f}' for status, n in by_status]),
            ("items_total", "counter", "Items labelled.", [f" {n_items:.0f}"]),
            ("positions_total", "counter", "Positions of sequences labelled, and single items.",
                [f" {n_positions:.0f}"]),
            ("request_seconds", "histogram", "Seconds from the arrival of a request to label to its answer.", timed),
        ):  # fmt: skip
            lines += [f"# HELP crfqn_{name} {help}", f"# TYPE crfqn_{name} {kind}"]
            lines += [f"crfqn_{name}{value}" for value in values]
        return "\n".join([*lines, ""])


class Refused(Exception):
    """Raised for a request that is refused, with the status and the message of the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Encoded(NamedTuple):
    """The body of an answer, and the number of items and positions that it labels."""

    body: bytes
    n_items: int = 0
    n_positions: int = 0

    @classmethod
    def from_answer(cls, answer: Answer) -> Self:
        """Return an answer as JSON; InputError for values that JSON does not have."""
        return cls(json_bytes(answer.content), answer.n_items, answer.n_positions)


class Waiting(NamedTuple):
    """A request in the queue: its deadline, the future of its answer, and the estimated seconds of its work."""

    request: LabelRequest
    deadline: float
    answer: asyncio.Future[Answer]
    seconds: float


class Labelling:
    """The endpoint /label, which labels requests that arrive together in one batch."""

    def __init__(self, service: LabelService, limits: RequestLimits, counters: Counters) -> None:
        self.service, self.limits, self.counters = service, limits, counters
        self.one_thread = CapacityLimiter(1)
        self.waiting: list[Waiting] = []

    async def label(self, request: Request) -> Response:
        begin, encoded = monotonic(), Encoded(b"")
        try:
            encoded = await self._answer(request, begin + self.limits.timeout)
            status, response = 200, as_json(encoded.body)
        except Refused as refused:
            status, response = refused.status, as_error(refused.status, str(refused))
        except ClientDisconnect:
            status, response = 400, as_error(400, "the client left")  # the client does not read this answer
        except Exception:
            self.counters.add(500, monotonic() - begin)
            raise
        self.counters.add(status, monotonic() - begin, *encoded[1:])
        return response

    async def _answer(self, request: Request, deadline: float) -> Encoded:
        body = await self._body(request, deadline)
        try:
            to_label = LabelRequest.read(body) if len(body) <= MAX_INLINE_BYTES else None
            if to_label is not None:
                self.service.check_work(to_label, to_label.all_items)
                seconds = self.service.seconds(to_label)
                if seconds <= MAX_INLINE_SECONDS and not self.service.searches(to_label):
                    loop = asyncio.get_running_loop()
                    answer: asyncio.Future[Answer] = loop.create_future()
                    if not self.waiting:
                        loop.call_soon(self._answer_all, 1)
                    self.waiting.append(Waiting(to_label, deadline, answer, seconds))
                    # The item is labelled together with the other queued requests.
                    return Encoded.from_answer(await answer)

            def label() -> Encoded:
                return Encoded.from_answer(self.service.answer(to_label or LabelRequest.read(body), deadline))

            async with asyncio.timeout(deadline - monotonic()):
                return await to_thread.run_sync(label, limiter=self.one_thread, abandon_on_cancel=True)
        except InputError as error:
            raise Refused(422, str(error)) from error
        except (TimeoutError, Overdue):
            message = f"expected a request that is answered in {self.limits.timeout:g} seconds"
            raise Refused(503, f"{message}: send fewer or shorter items, or later") from None

    def _answer_all(self, n_before: int) -> None:
        """Answer the queued requests if none has arrived since the last turn of the event loop, which saw `n_before`.

        Requests beyond MAX_BATCH_SECONDS are answered in the next turn, so that other requests are served in between.
        """
        loop = asyncio.get_running_loop()
        if n_before < len(self.waiting) < ITEM_BATCH:
            loop.call_soon(self._answer_all, len(self.waiting))
            return
        sums = np.cumsum([one.seconds for one in self.waiting])
        n = max(int(np.searchsorted(sums, MAX_BATCH_SECONDS, side="right")), 1)
        waiting, self.waiting = self.waiting[:n], self.waiting[n:]
        if self.waiting:
            loop.call_soon(self._answer_all, len(self.waiting))
        try:
            results: list[Answer | Exception] = self.service.answer_each([one[:2] for one in waiting])
        except Exception as error:
            results = [error] * len(waiting)
        for (_, _, answer, _), result in zip(waiting, results, strict=True):
            if answer.done():  # its client has left
                continue
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)

    async def _body(self, request: Request, deadline: float) -> bytes:
        """Return the body; if it is too large, read on a little, because a client that is sending reads no answer."""
        max_bytes, size = self.limits.max_bytes, 0
        parts: list[bytes] = []
        too_large = Refused(413, f"expected a body of at most {max_bytes:,} bytes")
        declared = request.headers.get("content-length", "0")
        is_refused = declared.isdecimal() and int(declared) > max_bytes
        if is_refused and "expect" in request.headers:  # the client sends the body only after an answer
            raise too_large
        try:
            async with asyncio.timeout(deadline - monotonic()):
                async for part in request.stream():
                    size += len(part)
                    is_refused = is_refused or size > max_bytes
                    if is_refused and size > MAX_OVERREAD * max_bytes:
                        break
                    if is_refused:
                        parts.clear()
                    else:
                        parts.append(part)
        except TimeoutError:
            if not is_refused:
                message = f"expected the whole body within {self.limits.timeout:g} seconds"
                raise Refused(408, message) from None
        if is_refused:
            raise too_large
        return b"".join(parts)


def create_app(
    service: LabelService, limits: RequestLimits = RequestLimits(), counters: Counters | None = None
) -> Starlette:
    """Return the ASGI application of a service, by default with new counters."""
    counts = counters or Counters(np.zeros((1, COUNTS_PER_PROCESS)))
    page = files("crfqn.service").joinpath("page.html").read_text(encoding="utf-8")
    # The policy allows only the page's script and style, and connections to this service.
    policy = ["default-src 'none'"]
    for tag in ("script", "style"):
        content = page.split(f"<{tag}>", 1)[1].split(f"</{tag}>", 1)[0]
        policy.append(f"{tag}-src 'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'")
    policy += ["connect-src 'self'", "img-src data:"]
    policy += [f"{name} 'none'" for name in ("base-uri", "form-action", "frame-ancestors")]
    headers = SECURITY_HEADERS | {"Content-Security-Policy": "; ".join(policy)}
    answers: dict[str, Callable[[], Response]] = {
        "/model": lambda: as_json(json_bytes(service.describe())),
        "/health": lambda: as_json(json_bytes({"status": "ok"})),
        "/metrics": lambda: PlainTextResponse(
            counts.text(), media_type="text/plain; version=0.0.4", headers=SECURITY_HEADERS
        ),
        "/openapi.json": lambda: as_json(json_bytes(describe_api(limits.max_bytes, limits.timeout))),
        "/": lambda: HTMLResponse(page, headers=headers),
    }

    async def show(request: Request) -> Response:
        return answers[request.url.path]()

    routes = [Route("/label", Labelling(service, limits, counts).label, methods=["POST"])]
    routes += [Route(path, show) for path in answers]
    return Starlette(routes=routes, exception_handlers={HTTPException: _failed, Exception: _failed})


def json_bytes(content: object) -> bytes:
    """Return JSON in ASCII, so that lone surrogates can be written, too; InputError for NaN and infinity."""
    return strict_json(content, separators=(",", ":")).encode("ascii")


def as_json(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status, SECURITY_HEADERS | (headers or {}), "application/json")


def as_error(status: int, message: str) -> Response:
    # Close the connection after an unread body, whose rest would be parsed as the next request.
    more = {408: {"Connection": "close"}, 413: {"Connection": "close"}, 503: {"Retry-After": "1"}}
    return as_json(json_bytes({"error": message}), status, more.get(status))


async def _failed(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        return as_error(500, "an unexpected error; the service's log has it")
    response = as_error(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
    response.headers.update(error.headers or {})
    return response
