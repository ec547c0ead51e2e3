"""crfqn: sparse structured predictors with a certified distance to the optimum.

Public names are imported on first use, so that `import crfqn` is fast.
"""

import lazy_loader

from crfqn.registry import register

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
        "estimators.taxonomy_crf": ["TaxonomyCRF"],
        "regularization_path": ["crf_path"],
        "data.hybrid": ["Features"],
        "data.encoding": ["Sequences"],
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

# Classes and functions that tables name: losses, penalties, solvers, kinds of models.
_find, _, _names = lazy_loader.attach(
    __name__,
    submod_attrs={
        "model.item_model": ["ItemModel"],
        "model.opening": ["open_model"],
        "model.sequences": ["SequenceModel"],
        "objectives.losses.hinges": ["MulticlassHinge", "MulticlassSquaredHinge", "MultitaskSquaredHinge"],
        "objectives.losses.likelihood": ["Likelihood", "MultinomialLogistic"],
        "objectives.losses.score_loss": ["ScoreLoss", "StructuralHinge"],
        "papers.agarwal2014.gls": ["GLS"],
        "papers.blondel2013.fobos": ["FOBOS"],
        "papers.blondel2014.gram_map": ["make_sub_solver"],
        "papers.blondel2014.sub_solver_kernels": ["sweep_items_by"],
        "papers.chierchia2015.bounded_loss": ["BoundedLoss"],
        "papers.chierchia2015.constrained": ["ConstrainedFBPD"],
        "papers.chierchia2015.epigraphs": ["project_epigraph"],
        "papers.chierchia2015.norms": [
            "FeatureBlocks", "LocalLargestSizes", "blocks_by_column", "with_constant",
        ],
        "papers.chierchia2015.regularised": ["FBPD"],
        "papers.zhong2014.feature_bcd": ["FeatureBCD"],
        "papers.zhong2014.prox_gd": ["FISTA", "ProxGD"],
        "parameters": ["read_factor_file"],
        "penalties.elastic_net": ["ElasticNet"],
        "penalties.factors": ["factors_by_column", "feature_factors"],
        "penalties.group_lasso": ["GroupLasso", "LocalGroupLasso"],
    },
)  # fmt: skip
register(__all__, __getattr__)
register(_names, _find)


def _pyinstaller_hooks() -> list[str]:
    """Return the folder of the hook for PyInstaller, which finds it by the entry point `pyinstaller40`."""
    return [f"{__path__[0]}/_pyinstaller"]
