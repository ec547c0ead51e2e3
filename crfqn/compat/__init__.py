"""Drop-in for sklearn-crfsuite: `CRF` with its constructor and methods, its `metrics`, `scorers` and `utils`.

`from crfqn import compat as sklearn_crfsuite` is the one line of a program that changes.
"""

from crfqn.compat import metrics, scorers, utils
from crfqn.compat.crf import CRF
from crfqn.data.attributes import attributes

__all__ = ["CRF", "attributes", "metrics", "scorers", "utils"]
