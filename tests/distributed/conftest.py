"""Clusters that the tests of a file share: one of worker processes, and workers within this process.

They end with the file: their clocks and monitors take time of the core from all tests after them.
"""

from __future__ import annotations

import dask
import pytest
from distributed import Client
from sharded_problems import connected

QUIET = {
    "distributed.comm.timeouts.connect": "10s",
    "distributed.deploy.lost-worker-timeout": "1h",  # on a busy machine it takes a killed process long to come back
    "distributed.worker.profile.enabled": False,  # a hundred times a second
}


@pytest.fixture(scope="module")
def threads():
    """A client of two workers that are threads of this process."""
    with (
        dask.config.set(QUIET),
        connected(n_workers=2, processes=False) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def processes():
    """A client of two worker processes."""
    with dask.config.set(QUIET), connected(n_workers=2, processes=True) as cluster, Client(cluster) as client:
        yield client
