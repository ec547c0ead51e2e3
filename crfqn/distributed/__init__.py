"""Training on the workers of a Dask cluster: shards of the items there, their sum here."""

from crfqn.distributed.objective import DistributedObjective

__all__ = ["DistributedObjective"]
