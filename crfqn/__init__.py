"""crfqn: sparse structured predictors with a certified distance to the optimum.

Public names load on first use, so that `import crfqn` costs next to nothing.
"""

import lazy_loader

__version__ = "0.1.0"

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
        "papers.blondel2014.svc": ["MulticlassSVC"],
        "estimators.multilabel_ranker": ["MultilabelRanker"],
        "estimators.storage": ["load"],
        "estimators.taxonomy": ["TaxonomyCRF"],
        "regularization_path": ["crf_path"],
        "data.hybrid": ["Features"],
        "data.sequences": ["Sequences"],
        "data.token_columns": ["TokenColumns"],
        "data.tokenizers": ["tokenize"],
        "data.templates.windows": ["word_features"],
        "estimators.templates": ["Templates"],
        "distributed.sources": ["Shards"],
        "report": ["write_report"],
        "model.model": ["Model"],
        "model.tagger": ["Tagger"],
    },
)


def _pyinstaller_hooks() -> list[str]:
    """Return the folder of the hook for PyInstaller, which finds it by the entry point `pyinstaller40`."""
    return [f"{__path__[0]}/_pyinstaller"]
