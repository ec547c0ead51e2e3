"""crfqn: sparse structured predictors with a certified distance to the optimum.

Public names load on first use, so that `import crfqn` costs next to nothing.
"""

import logging
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import lazy_loader

__version__ = "0.1.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())  # silent unless the program wants to hear

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "estimators.blocks": ["Blocks"],
        "estimators.chain": ["ChainCRF"],
        "estimators.transitions": ["Transitions"],
        "estimators.multiclass": ["MulticlassCRF", "MulticlassClassifier"],
        "papers.agarwal2014.calibrated": ["CalibratedLeastSquares"],
        "papers.agarwal2014.generalized": ["GeneralizedLeastSquares"],
        "papers.agarwal2014.stagewise": ["StagewiseRegression"],
        "estimators.svc": ["MulticlassSVC"],
        "estimators.multilabel_ranker": ["MultilabelRanker"],
        "estimators.storage": ["load"],
        "estimators.taxonomy": ["TaxonomyCRF"],
        "regularization_path": ["crf_path"],
        "data.hybrid": ["Features"],
        "data.sequences": ["Sequences"],
        "data.token_columns": ["TokenColumns"],
        "data.tokens": ["tokenize"],
        "data.templates.windows": ["word_features"],
        "estimators.templates": ["Templates"],
        "distributed.sources": ["Shards"],
        "report": ["write_report"],
        "tagging.tagger": ["Tagger"],
    },
)

# Modules that the manual has had users import from, and where they stand now: the old names stay good.
MOVED = {
    "crfqn.data.labels": "crfqn.data",
    "crfqn.data.labels.schemes": "crfqn.data.schemes",
    "crfqn.data.templates.encoding": "crfqn.data.templates",
    "crfqn.data.templates.encoding.window_features": "crfqn.data.templates.vocabulary",
    "crfqn.readers.formats": "crfqn.readers",
    "crfqn.readers.formats.conll": "crfqn.readers.conll",
}


class _MovedFinder:
    """Finder, and loader, of modules under the names that they had; `importlib.abc` would take 10 ms."""

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        loader: Any = self
        return ModuleSpec(fullname, loader, is_package=True) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to Python."""

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = import_module(MOVED[module.__name__])


sys.meta_path.insert(0, _MovedFinder())  # before the one that looks into folders
