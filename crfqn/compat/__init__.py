"""Drop-in for sklearn-crfsuite: `CRF` with its constructor and methods, its `metrics`, `scorers` and `utils`.

A program changes one line: `from crfqn import compat as sklearn_crfsuite`.
"""

import lazy_loader

from crfqn import estimators  # noqa: F401, first, because it imports fewer modules of scikit-learn
from crfqn.compat import metrics, utils
from crfqn.compat.crf import CRF
from crfqn.data.attributes import attributes

__getattr__, _, _ = lazy_loader.attach(__name__, submodules=["scorers"])  # they import scikit-learn's metrics
__all__ = ["CRF", "attributes", "metrics", "scorers", "utils"]
