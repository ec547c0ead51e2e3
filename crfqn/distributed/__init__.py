"""Training on the workers of a Dask cluster: shards of the items there, their sum here."""

from crfqn.distributed.objective import distributed_objective

__all__ = ["distributed_objective"]
