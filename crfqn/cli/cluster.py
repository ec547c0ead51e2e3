"""The Dask cluster that `crfqn train` is told to use: one that runs, or worker processes of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from crfqn.cli.options import ClusterOptions
from crfqn.errors import InputError
from crfqn.threads import available_cores


@contextmanager
def cluster_of(options: ClusterOptions) -> Iterator[Any]:
    """Open a client of the cluster, None without one; InputError where dask is missing or there is no scheduler."""
    if options.scheduler is None and options.workers is None:
        yield None
        return
    if options.scheduler is not None and options.workers is not None:
        raise InputError("--workers: they are started here; expected it or --scheduler, got both")
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise InputError("clusters need Dask: pip install crfqn[dask]") from None
    from crfqn.distributed.workers import connected

    if options.scheduler is not None:
        with connected(options.scheduler) as client:
            yield client
        return
    n_threads = max(available_cores() // (options.workers or 1), 1)
    here: dict[str, Any] = {"dashboard_address": ":0", "silence_logs": 50}
    with (
        LocalCluster(n_workers=options.workers, threads_per_worker=n_threads, **here) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client
