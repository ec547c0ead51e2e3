"""scikit-learn's own checks of the estimators by least squares, all of them."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from crfqn import CalibratedLeastSquares, GeneralizedLeastSquares, StagewiseRegression

SMALL = {"batch_size": 40, "max_iter": 4}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.*requires.*:sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        GeneralizedLeastSquares(),
        GeneralizedLeastSquares(link="identity", fit_intercept=False),
        CalibratedLeastSquares(max_iter=20),
        *(StagewiseRegression(update=update, **SMALL) for update in ("calibrated", "linear")),
        StagewiseRegression(update="logistic", inner_iter=1, **SMALL),  # a check sets max_iter to 1000
        StagewiseRegression(generator="subsets", **SMALL),
    ]
)
@pytest.mark.filterwarnings("ignore::crfqn.errors.UnknownFeaturesWarning")
def test_all_checks(estimator, check):
    check(estimator)
