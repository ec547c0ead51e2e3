"""crfqn: sparse structured predictors with a certified distance to the optimum.

Public names load on first use, so that `import crfqn` costs next to nothing.
"""

import logging

import lazy_loader

__version__ = "0.1.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())  # silent unless the program wants to hear

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "estimators.chain": ["ChainCRF"],
        "estimators.transitions": ["Transitions"],
        "estimators.multiclass_crf": ["MulticlassCRF"],
        "estimators.multiclass": ["MulticlassClassifier"],
        "estimators.least_squares.calibrated": ["CalibratedLeastSquares"],
        "estimators.least_squares.generalized": ["GeneralizedLeastSquares"],
        "estimators.least_squares.stagewise": ["StagewiseRegression"],
        "estimators.svc": ["MulticlassSVC"],
        "estimators.multilabel_ranker": ["MultilabelRanker"],
        "estimators.persistence": ["load"],
        "estimators.taxonomy": ["TaxonomyCRF"],
        "regularization_path": ["crf_path"],
        "data.sequences": ["Sequences"],
        "data.token_columns": ["TokenColumns"],
        "data.templates.windows": ["word_features"],
        "estimators.templates": ["Templates"],
        "report": ["write_report"],
    },
)
