"""Labels without a taxonomy: the part of an estimator that reads, keeps and stores them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crfqn.data.model_file import ModelFile
from crfqn.errors import InputError
from crfqn.estimators.content import Content, add_labels, read_labels
from crfqn.estimators.items import ItemModel
from crfqn.estimators.label_space import LabelSpace


class FlatLabels(ItemModel):
    """An estimator whose classes are the labels that occur, none above another."""

    def _label_names(self, y: Any) -> tuple[Any, int]:
        shape: tuple[int, ...] = getattr(y, "shape", ())
        is_plain = isinstance(y, np.ndarray) and y.dtype.kind != "O"
        labels = y if not is_plain and (isinstance(y, (list, tuple)) or len(shape) == 1) else ()
        is_row = (isinstance(label, (list, tuple)) and len(label) > 1 for label in labels)
        if (len(shape) == 2 and shape[1] > 1) or any(is_row):
            raise InputError(
                "expected one label an item, got rows of several; rows of parts are for TaxonomyCRF, "
                "label sets for MultilabelRanker"
            )
        return y, 0

    def _learn_labels(self, classes: NDArray, n_levels: int) -> tuple[LabelSpace, NDArray[np.int32]]:
        space = LabelSpace.flat(classes)
        return space, space.nodes

    def _adopt_labels(self, space: LabelSpace) -> None:
        self.classes_ = space.classes

    @property
    def _space(self) -> LabelSpace:
        return LabelSpace.flat(self.classes_)

    def _content(self) -> Content:
        content = super()._content()
        add_labels(content, self.classes_)
        return content

    def _restore(self, file: ModelFile) -> None:
        self.classes_ = read_labels(file, file.count("n_classes", 1))
        super()._restore(file)
