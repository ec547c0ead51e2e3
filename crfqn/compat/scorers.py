"""Scorers of sklearn-crfsuite for `cross_validate` and `GridSearchCV`."""

from sklearn.metrics import make_scorer

from crfqn.compat.metrics import flat_accuracy_score, sequence_accuracy_score

flat_accuracy = make_scorer(flat_accuracy_score)
sequence_accuracy = make_scorer(sequence_accuracy_score)
