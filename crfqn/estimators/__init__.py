"""What users fit: estimators, and what they are made of."""

from crfqn.estimators.light_imports import import_scikit_learn

import_scikit_learn()
