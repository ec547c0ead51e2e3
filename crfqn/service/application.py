"""The service over HTTP: an ASGI application around a `LabelService`, with limits, counts and a page to try it in.

Requests of little work are labelled where they come in, together with others: to hand them to a thread would cost more
than the labelling. Others go to a thread, one at a time, since threads of Python take turns; meanwhile the service
answers. What is too much work is refused before it begins, and all work ends at the request's deadline.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from time import monotonic
from typing import Any, NamedTuple, Self

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
from crfqn.service.labelling import TOGETHER, Answer, LabelRequest, LabelService, Overdue

SMALL = 16_384  # bytes of a request that is read where it comes in
LITTLE_WORK, MOST_WORK = 0.02, 0.05  # seconds, of a request and of all together that are labelled there
READ_ON = 8  # times the limit: what is read of a body before its client sees that it is too large
STATUSES = 200, 400, 408, 413, 422, 500, 503
# Upper ends of a histogram.
SECONDS = 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0
COUNTS = len(STATUSES) + len(SECONDS) + 1 + 3  # a bucket beyond the last end; seconds, items, positions
SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class RequestLimits:
    """Bytes of a request's body, and seconds from its arrival to its answer."""

    max_bytes: int = 1 << 20
    timeout: float = 10.0


class Counters:
    """Counts of requests, items, positions and seconds; each process of a service writes its own row of `table`,
    (processes, COUNTS), and every process reads the sums."""

    def __init__(self, table: Vector, row: int = 0) -> None:
        self._table, self._row = table, table[row]

    def add(self, status: int, seconds: float, n_items: int = 0, n_positions: int = 0) -> None:
        row = self._row
        row[STATUSES.index(status)] += 1
        row[len(STATUSES) + int(np.searchsorted(SECONDS, seconds))] += 1
        row[-3:] += seconds, n_items, n_positions

    def text(self) -> str:
        """Return the sums of all processes in the text format of Prometheus."""
        sums = self._table.sum(axis=0).tolist()
        seconds, n_items, n_positions = sums[-3:]
        ends, counts = [*map(str, SECONDS), "+Inf"], np.cumsum(sums[len(STATUSES) : -3]).tolist()
        by_status = zip(STATUSES, sums, strict=False)
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
    """A request that is refused, with the status of the answer and its message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Encoded(NamedTuple):
    """The body of an answer, and how many items and positions it labels."""

    body: bytes
    n_items: int = 0
    n_positions: int = 0

    @classmethod
    def from_answer(cls, answer: Answer) -> Self:
        """Return an answer as JSON; InputError for what JSON does not have."""
        return cls(encode(answer.content), answer.n_items, answer.n_positions)


class Waiting(NamedTuple):
    """A request to be labelled with others: its deadline, where its answer goes, and the seconds of its work."""

    request: LabelRequest
    deadline: float
    answer: asyncio.Future[Answer]
    seconds: float


class Labelling:
    """The endpoint that labels: requests that come in together are answered together."""

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
            status, response = 400, as_error(400, "the client left")  # nobody reads it
        except Exception:
            self.counters.add(500, monotonic() - begin)
            raise
        self.counters.add(status, monotonic() - begin, *encoded[1:])
        return response

    async def _answer(self, request: Request, deadline: float) -> Encoded:
        body = await self._body(request, deadline)
        try:
            to_label = LabelRequest.read(body) if len(body) <= SMALL else None
            if to_label is not None:
                self.service.check_work(to_label, to_label.all_items)
                seconds = self.service.seconds(to_label)
                if seconds <= LITTLE_WORK and not self.service.searches(to_label):
                    loop = asyncio.get_running_loop()
                    answer: asyncio.Future[Answer] = loop.create_future()
                    if not self.waiting:
                        loop.call_soon(self._answer_all, 1)
                    self.waiting.append(Waiting(to_label, deadline, answer, seconds))
                    return Encoded.from_answer(await answer)  # with all that have come in by then

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
        """Answer the requests that wait, once no others have come in beside the `n_before` of the last turn; those
        beyond MOST_WORK in the next turn, so that others are answered between."""
        loop = asyncio.get_running_loop()
        if n_before < len(self.waiting) < TOGETHER:
            loop.call_soon(self._answer_all, len(self.waiting))
            return
        sums = np.cumsum([one.seconds for one in self.waiting])
        n = max(int(np.searchsorted(sums, MOST_WORK, side="right")), 1)
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
        """Return the body. Of one that is too large some more is read: a client that still sends takes no answer."""
        most, size = self.limits.max_bytes, 0
        parts: list[bytes] = []
        too_large = Refused(413, f"expected a body of at most {most:,} bytes")
        declared = request.headers.get("content-length", "0")
        is_refused = declared.isdecimal() and int(declared) > most
        if is_refused and "expect" in request.headers:  # it waits for an answer before it sends
            raise too_large
        try:
            async with asyncio.timeout(deadline - monotonic()):
                async for part in request.stream():
                    size += len(part)
                    is_refused = is_refused or size > most
                    if is_refused and size > READ_ON * most:
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
    """Return the ASGI application of a service; `counters` by default its own."""
    counts = counters or Counters(np.zeros((1, COUNTS)))
    page = files("crfqn.service").joinpath("page.html").read_text(encoding="utf-8")
    # By the policy nothing runs but the page's own script, and nothing is asked but this service.
    policy = ["default-src 'none'"]
    for tag in ("script", "style"):
        content = page.split(f"<{tag}>", 1)[1].split(f"</{tag}>", 1)[0]
        policy.append(f"{tag}-src 'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'")
    policy += ["connect-src 'self'", "img-src data:"]
    policy += [f"{name} 'none'" for name in ("base-uri", "form-action", "frame-ancestors")]
    headers = SECURITY | {"Content-Security-Policy": "; ".join(policy)}
    answers: dict[str, Callable[[], Response]] = {
        "/model": lambda: as_json(encode(service.describe())),
        "/health": lambda: as_json(encode({"status": "ok"})),
        "/metrics": lambda: PlainTextResponse(
            counts.text(), media_type="text/plain; version=0.0.4", headers=SECURITY
        ),
        "/openapi.json": lambda: as_json(encode(describe_api(limits.max_bytes, limits.timeout))),
        "/": lambda: HTMLResponse(page, headers=headers),
    }

    async def show(request: Request) -> Response:
        return answers[request.url.path]()

    routes = [Route("/label", Labelling(service, limits, counts).label, methods=["POST"])]
    routes += [Route(path, show) for path in answers]
    return Starlette(routes=routes, exception_handlers={HTTPException: _failed, Exception: _failed})


def encode(content: Any) -> bytes:
    """Return JSON in ASCII, which halves of surrogate pairs fit into as well; InputError for NaN and the like."""
    return strict_json(content, separators=(",", ":")).encode("ascii")


def as_json(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status, SECURITY | (headers or {}), "application/json")


def as_error(status: int, message: str) -> Response:
    # A body that was not read to its end would be taken for the next request; another try may find it idle again.
    more = {408: {"Connection": "close"}, 413: {"Connection": "close"}, 503: {"Retry-After": "1"}}
    return as_json(encode({"error": message}), status, more.get(status))


async def _failed(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        return as_error(500, "an unexpected error; the service's log has it")
    response = as_error(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
    response.headers.update(error.headers or {})
    return response
