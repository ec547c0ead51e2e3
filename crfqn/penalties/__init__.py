"""Penalties: l1 |w_j| + l2/2 w_j^2 and norms of whole rows, with some coordinates unpenalised.

The one definition of optimality lives here: `violation`, the distance of -g to the subdifferential, serves
stopping, shrinking, tests and reports. A penalty also knows its conjugate, for certificates, and how to minimise a
quadratic model under itself: a solver need not know which penalty it has.
"""

from crfqn.penalties.elastic_net import ElasticNet
from crfqn.penalties.group_lasso import NORMS, GroupLasso
from crfqn.penalties.penalty import Ridge

__all__ = ["NORMS", "ElasticNet", "GroupLasso", "Ridge"]
