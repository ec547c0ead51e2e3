"""crfqn: sparse structured predictors with a certified distance to the optimum.

Public names load on first use, so that `import crfqn` costs next to nothing.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "estimators.chain": ["ChainCRF"],
        "estimators.multiclass": ["MulticlassCRF"],
        "estimators.multiclass_classifier": ["MulticlassClassifier"],
        "estimators.multilabel_ranker": ["MultilabelRanker"],
        "estimators.persistence": ["load"],
        "estimators.taxonomy": ["TaxonomyCRF"],
        "paths": ["crf_path"],
        "sequences": ["Sequences"],
    },
)
