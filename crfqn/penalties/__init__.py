"""Penalties: l1 |w_j| + l2/2 w_j^2 and norms of whole rows, with some coordinates unpenalised.

`violation`, the distance of -g to the subdifferential, is the only measure of optimality: of stopping, shrinking, tests
and reports. A penalty also has a conjugate, for certificates, and minimises quadratic models plus itself, so that
solvers do not depend on its class.
"""

from crfqn.penalties.elastic_net import ElasticNet
from crfqn.penalties.group_lasso import NORMS, GroupLasso
from crfqn.penalties.penalty import Ridge

__all__ = ["NORMS", "ElasticNet", "GroupLasso", "Ridge"]
