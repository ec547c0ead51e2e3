"""Training on a Dask cluster: workers hold shards of the items, and the client adds up their objectives."""

from crfqn.distributed.objective import distributed_objective

__all__ = ["distributed_objective"]
