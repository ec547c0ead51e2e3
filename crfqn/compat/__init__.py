"""Drop-in for sklearn-crfsuite and python-crfsuite.

`CRF`, `metrics`, `scorers` and `utils` are those of sklearn-crfsuite; `Trainer`, `ItemSequence`, `TrainLogParser`,
`Tagger` and `CRFSUITE_VERSION` those of python-crfsuite. A program changes one line: `from crfqn import compat as
sklearn_crfsuite`, or `from crfqn import compat as pycrfsuite`.
"""

import lazy_loader

from crfqn import estimators  # noqa: F401, first, because it imports fewer modules of scikit-learn
from crfqn.compat import metrics, utils
from crfqn.compat.crf import CRF
from crfqn.compat.log_parser import TrainLogParser
from crfqn.compat.trainer import ItemSequence, Trainer
from crfqn.data.attributes import attributes
from crfqn.model.tagger import Tagger

CRFSUITE_VERSION = "0.12.2"  # whose names, parameters and model files these are

__getattr__, _, _ = lazy_loader.attach(__name__, submodules=["scorers"])  # they import scikit-learn's metrics
__all__ = [
    "CRF", "CRFSUITE_VERSION", "ItemSequence", "Tagger", "TrainLogParser", "Trainer", "attributes", "metrics",
    "scorers", "utils",
]  # fmt: skip
