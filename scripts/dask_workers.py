"""Measure training on the workers of a Dask cluster: what docs/distributed.md says.

    python scripts/dask_workers.py compare models/ocr --l1 100     worker processes against one process with threads
    sudo python scripts/dask_workers.py hosts models/ocr --l1 100 --rate 1gbit --delay 0.5
                                                                 the same, each worker on a host of its own
    python scripts/dask_workers.py simulate                       the arithmetic of the plan, at a thousandth

A host is a network namespace with a cable (veth) of its own to the scheduler's, of so many bits a second (`tc`, token
bucket). Delay, where the kernel has no `netem`, is that of a relay on the cable, in milliseconds each way.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from harness.options import command

from crfqn.data.features import FeatureStore
from crfqn.distributed import distributed_objective
from crfqn.distributed.objective import WorkerParts
from crfqn.errors import UnsupportedObjectiveError
from crfqn.objectives.executors import LocalParts
from crfqn.objectives.linear.sparse_map import SparseMap
from crfqn.objectives.losses.likelihood import Likelihood
from crfqn.objectives.objective import Objective
from crfqn.objectives.part import Part
from crfqn.penalties import ElasticNet
from crfqn.recipes import build_estimator, load_recipe, prepare_data
from crfqn.result import Result
from crfqn.solvers.minimize import minimize
from crfqn.solvers.prox_qn import ProxQN
from crfqn.solvers.stopping import Run
from crfqn.structures.chain import Chain
from crfqn.threads import Pool, single_threaded_blas

ARRAYS = ("indptr", "indices", "values", "offsets")
SCHEDULER = 8786
N_SHARDS = 64  # of the simulation


@dataclass(frozen=True)
class StoredShard:
    """A shard of a chain in a file of numpy's."""

    path: str

    def __call__(self) -> Part:
        with np.load(self.path) as file:
            store = FeatureStore(*(file[name] for name in ARRAYS))
            chain = Chain(store.offsets, int(file["n_states"]))
            return Part(SparseMap(store, Pool(1)), Likelihood(chain, file["targets"]))


class ItemsElsewhere(Objective):
    """Blocks that refuse what shards on workers refuse, so that the same solver takes the same steps."""

    def check_state(self, kind: Any) -> None:
        """Refuse every state."""
        raise UnsupportedObjectiveError(f"no {kind.__name__}, as if the items were on workers")


def write_shards(recipe: str, folder: str, n_shards: int) -> list[StoredShard]:
    """Write the training part of a recipe of sequences as shards of about as many items."""
    loaded = load_recipe(recipe)
    data = prepare_data(loaded)
    whole = build_estimator(loaded, l1=1.0).prepare(data.X_train, data.y_train).objective.whole
    cuts = [number * whole.n_items // n_shards for number in range(n_shards + 1)]
    return [
        write_shard(whole.take(np.arange(first, last)), Path(folder) / f"{first}.npz")
        for first, last in pairwise(cuts)
    ]


def write_shard(part: Any, path: Path) -> StoredShard:
    """Write a part of the items of a chain."""
    arrays = {name: getattr(part.map.store, name) for name in ARRAYS}
    np.savez(path, **arrays, targets=part.loss.targets, n_states=part.n_states)
    return StoredShard(str(path))


@dataclass
class TimedRun:
    """A training: its result, clock and processor seconds, bytes and rounds of questions."""

    result: Result
    seconds: float
    processor: float
    n_bytes: int = 0
    n_rounds: float = 0.0


def own_processor_seconds() -> float:
    """Seconds of this process, in user and system mode."""
    return sum(os.times()[:2])


def train(objective: Any, l1: float, processor: Callable[[], float]) -> TimedRun:
    """Train to 1e-3 by Prox-QN with its defaults."""
    clock, before, n_bytes = time.perf_counter(), processor(), objective.executor.n_bytes
    with single_threaded_blas():
        result = minimize(objective, ElasticNet(l1), ProxQN(), Run(tol=1e-3))
    run = TimedRun(result, time.perf_counter() - clock, processor() - before)
    if isinstance(objective.executor, WorkerParts):
        tally = objective.executor.workers.tally
        run.n_bytes = tally.sent + tally.received - n_bytes
        run.n_rounds = tally.n_questions / len(objective.parts)
    return run


def made(name: str, client: Any, shards: list[StoredShard], parts: list[Part]) -> Any:
    """Return the objective of a kind of run, read already."""
    if name != "workers":
        return (ItemsElsewhere if name == "process" else Objective)(LocalParts(parts))
    shared = distributed_objective(client, shards)
    assert shared.n_items == sum(part.n_items for part in parts)
    return shared


def show(name: str, run: TimedRun) -> None:
    print(
        f"{name:<10} {run.seconds:8.2f} s clock {run.processor:8.2f} s processor {run.result.n_iter:4d} steps "
        f"{run.result.passes:7.2f} passes {run.n_bytes / 1e6:9.2f} MB {run.n_rounds:6.0f} rounds "
        f"value {run.result.value:.6f}",
        flush=True,
    )


def compare(client: Any, shards: list[StoredShard], l1: float, n_times: int) -> None:
    """Train by turns on workers and in one process with as many threads, the first time for compilation."""

    def of_all() -> float:
        return own_processor_seconds() + sum(client.run(own_processor_seconds).values())

    n_threads = sum(client.nthreads().values())
    parts = [shard() for shard in shards]
    runs: dict[str, list[TimedRun]] = {"workers": [], "process": [], "own start": []}
    with Pool(n_threads) as pool:
        for turn in range(1 + n_times):
            for name in runs:
                objective = made(name, client, shards, parts)
                objective.pool = pool
                processor = of_all if name == "workers" else own_processor_seconds
                runs[name].append(train(objective, l1, processor))
                if turn:
                    show(name, runs[name][-1])
    one, other = runs["workers"][-1].result, runs["process"][-1].result
    same = np.array_equal(one.coords, other.coords) and np.array_equal(one.weights, other.weights)
    best = {name: min(run.seconds for run in all_runs[1:]) for name, all_runs in runs.items()}
    ratio = best["workers"] / best["process"]
    print(f"same weights to the bit: {same}; clock {ratio:.2f} times that of one process")


# ---- hosts of their own


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command; its output where it fails."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done


@contextmanager
def host(number: int, rate: str) -> Iterator[str]:
    """Open a host (network namespace) with a cable to here, 10.77.number.1 there .2; yields its name."""
    name, near, far = f"crfqn-{number}", f"crfqn-n{number}", f"crfqn-f{number}"
    run("ip", "netns", "add", name)
    try:
        run("ip", "link", "add", near, "type", "veth", "peer", "name", far)
        run("ip", "link", "set", far, "netns", name)
        there = ("ip", "netns", "exec", name)
        run("ip", "addr", "add", f"10.77.{number}.1/24", "dev", near)
        run(*there, "ip", "addr", "add", f"10.77.{number}.2/24", "dev", far)
        for prefix, device in (((), near), (there, far)):
            run(*prefix, "ip", "link", "set", device, "up")
            shaped = ("rate", rate, "burst", "256kb", "latency", "200ms")
            run(*prefix, "tc", "qdisc", "add", "dev", device, "root", "tbf", *shaped)
        run(*there, "ip", "link", "set", "lo", "up")
        run(*there, "ip", "route", "add", "default", "via", f"10.77.{number}.1")
        yield name
    finally:
        run("ip", "netns", "del", name)


async def relay(listen: tuple[str, int], target: tuple[str, int], delay: float) -> None:
    """Forward connections, each piece `delay` seconds later."""

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                due, piece = await pieces.get()
                await asyncio.sleep(max(due - time.monotonic(), 0.0))
                if not piece:
                    writer.close()
                    return
                writer.write(piece)
                await writer.drain()

        delivery = asyncio.ensure_future(deliver())
        try:
            while True:
                piece = await reader.read(1 << 16)
                pieces.put_nowait((time.monotonic() + delay, piece))
                if not piece:
                    break
        except OSError:
            pieces.put_nowait((0.0, b""))
        await delivery

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(*target)
        await asyncio.gather(forward(reader, there[1]), forward(there[0], writer), return_exceptions=True)

    server = await asyncio.start_server(accept, *listen)
    async with server:
        await server.serve_forever()


@contextmanager
def process(*command: str) -> Iterator[None]:
    """Run a process as long as the context is open."""
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        started.terminate()
        started.wait(10)


@contextmanager
def cluster_of_hosts(n_workers: int, rate: str, delay: float) -> Iterator[Any]:
    """Open a client of a scheduler here and workers on hosts; with a delay, each worker is met through a relay."""
    from distributed import Client

    with ExitStack() as stack:
        here = (sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard")
        stack.enter_context(process(*here, "--host", "0.0.0.0", "--port", str(SCHEDULER)))
        for number in range(1, n_workers + 1):
            name = stack.enter_context(host(number, rate))
            contact = ["--contact-address", f"tcp://10.77.{number}.2:9000"]
            if delay:
                contact = ["--contact-address", f"tcp://10.77.{number}.1:9000"]
                relayed = f"10.77.{number}", str(delay / 1000)
                stack.enter_context(process(sys.executable, __file__, "relay", *relayed))
            module, scheduler = "distributed.cli.dask_worker", f"tcp://10.77.{number}.1:{SCHEDULER}"
            worker = (
                f"{sys.executable} -m {module} {scheduler} --no-nanny --nthreads 1 --no-dashboard".split()
            )
            options = ("--listen-address", "tcp://0.0.0.0:9000", *contact)
            stack.enter_context(process("ip", "netns", "exec", name, *worker, *options))
        client = stack.enter_context(Client(f"tcp://127.0.0.1:{SCHEDULER}", timeout=60))
        client.wait_for_workers(n_workers, timeout=120)
        yield client


# ---- the plan


def show_screening(shared: Any, threshold: float) -> None:
    """Print what a look at all coordinates at zero weights sends, with all shards and with one in sixteen."""
    for some in (shared, Objective(WorkerParts(shared.executor.workers, shared.parts[::16]))):
        before, clock = some.executor.n_bytes, time.perf_counter()
        found = some.at(np.empty(0, np.int64), np.empty(0)).screen(threshold).coords.size
        per_shard = (some.executor.n_bytes - before) / len(some.parts)
        print(
            f"screening at {threshold:g}, {len(some.parts):2d} shards: {found:,} coordinates, "
            f"{per_shard / 1e6:.3f} MB a shard, {time.perf_counter() - clock:.3f} s"
        )


def ask(shared: Any, point: Any, coords: Any, what: str) -> Any:
    """Ask a question, and print its bytes for a shard and an active weight, and its seconds; return the point."""
    before, clock = shared.executor.n_bytes, time.perf_counter()
    if what == "step":
        point = point.along(coords, np.ones(coords.size)).at(1.0)
    if what in ("value", "step"):
        _ = point.value
    else:
        point.gradient(coords)
    per_weight = (shared.executor.n_bytes - before) / len(shared.parts) / coords.size
    seconds = time.perf_counter() - clock
    print(f"{coords.size:8,} active  {what:<15} {per_weight:6.2f} bytes {seconds:8.3f} s", flush=True)
    return point


def random_text(
    seed: int, n_positions: int, n_features: int, per_position: int = 20, n_states: int = 9
) -> Any:
    """Items of 20 positions with features as rare as words (Zipf), labels at random."""
    import scipy.sparse

    random = np.random.default_rng(seed)
    n_positions -= n_positions % 20
    ranks = (n_features ** random.random((n_positions, per_position))).astype(np.int64)
    columns = np.minimum(ranks - 1, n_features - 1)
    rows = np.repeat(np.arange(n_positions), per_position)
    ones = np.ones(columns.size, np.float32)
    matrix = scipy.sparse.csr_array((ones, (rows, columns.reshape(-1))), shape=(n_positions, n_features))
    matrix.data[:] = 1.0  # a feature twice at a position counts once
    offsets = np.arange(0, n_positions + 1, 20)
    store = FeatureStore.from_matrix(matrix, offsets)
    targets = random.integers(0, n_states, n_positions).astype(np.int32)
    return Part(SparseMap(store, Pool(1)), Likelihood(Chain(offsets, n_states), targets))


app = command()
Recipe = Annotated[str, typer.Argument(help="A recipe of sequences.")]
L1 = Annotated[float, typer.Option("--l1", min=0, help="The penalty.")]
NWorkers = Annotated[int, typer.Option("--workers", min=1, help="Worker processes, of a thread each.")]
Shards = Annotated[int, typer.Option(min=1, help="Shards of the items.")]
Times = Annotated[int, typer.Option(min=1, help="Trainings of each, by turns.")]


@app.command("compare")
def on_this_machine(
    recipe: Recipe = "models/ocr", l1: L1 = 100.0, workers: NWorkers = 2, shards: Shards = 4, times: Times = 3
) -> None:
    """Worker processes of this machine beside one process with as many threads."""
    from distributed import Client, LocalCluster

    cluster = LocalCluster(workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50)
    with tempfile.TemporaryDirectory() as folder, cluster, Client(cluster) as client:
        compare(client, write_shards(recipe, folder, shards), l1, times)


@app.command("hosts")
def on_hosts(
    recipe: Recipe = "models/ocr",
    l1: L1 = 100.0,
    workers: NWorkers = 2,
    shards: Shards = 4,
    times: Times = 3,
    rate: Annotated[str, typer.Option(help="Of each host's cable, as tc has it.")] = "1gbit",
    delay: Annotated[float, typer.Option(min=0, help="Seconds that each piece takes longer.")] = 0.0,
) -> None:
    """The same on hosts of their own: network namespaces, which takes root."""
    with tempfile.TemporaryDirectory() as folder, cluster_of_hosts(workers, rate, delay) as client:
        compare(client, write_shards(recipe, folder, shards), l1, times)


@app.command("simulate")
def simulate(
    positions: Annotated[int, typer.Option(min=1, help="Of random text.")] = 1_000_000,
    features: Annotated[int, typer.Option(min=1, help="Of random text.")] = 100_000,
) -> None:
    """Compare the bytes and the memory of a shard of random text with what the plan counts, and time a pass."""
    with tempfile.TemporaryDirectory() as folder:
        texts = (random_text(number, positions // N_SHARDS, features) for number in range(N_SHARDS))
        shards = [write_shard(text, Path(folder) / f"{number}.npz") for number, text in enumerate(texts)]
        from distributed import Client, LocalCluster

        cluster = LocalCluster(2, threads_per_worker=1, dashboard_address=":0")
        with cluster, Client(cluster) as client:
            shared = distributed_objective(client, shards)
            print(f"{shared.n_positions:,} positions, {shared.n_features:,} features, {N_SHARDS} shards")
            store = sum(Path(shard.path).stat().st_size for shard in shards) / N_SHARDS
            per_shard = positions / N_SHARDS
            # 4 bytes an entry, of which a position has 20, 8 a feature, 4 a label, 8 an item of 20 positions
            counted = 4 * 20 * per_shard + 8 * features + 4 * per_shard + 8 * per_shard / 20
            print(f"store of a shard: {store / 1e6:.2f} MB, planned {counted / 1e6:.2f} MB")
            for threshold in (100.0, 10.0):
                show_screening(shared, threshold)
            random = np.random.default_rng(0)
            for n_active in (1_000, 10_000, 100_000):
                coords = np.sort(random.choice(shared.n_coords, n_active, replace=False))
                weights = 0.1 * random.standard_normal(n_active)
                point = shared.at(coords, weights)
                for what in ("value", "gradient", "step", "gradient again"):
                    point = ask(shared, point, coords, what)


@app.command("relay", hidden=True)
def forward_with_delay(network: str, delay: float) -> None:
    """Forward what comes from another network."""
    asyncio.run(relay((f"{network}.1", 9000), (f"{network}.2", 9000), delay))


if __name__ == "__main__":
    app()
