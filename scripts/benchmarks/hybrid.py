"""Words beside vectors: a dense block under L2 and a sparse one under L1 in one model, against each of them alone.

The vectors are made of all words of the training part, also where few of its items have labels: a truncated SVD of how
often words meet, in the same text (which is that of the matrix of texts and words) or, in sentences, within two words
(positive pointwise mutual information). A text has the weighted sum of its words' vectors, a position those of the
word, the one before and the one behind, of length 1 each.

All of crfqn's models have its defaults; scikit-learn's `LogisticRegression` has the stacked matrix under L2 alone, of
sentences position by position, without transitions. Processor seconds after a fit of a few items, medians by turns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import scipy.sparse as sp
from harness import data
from harness.comparing import Comparison, Section
from harness.data import Texts
from harness.measuring import fit_seconds, quietly
from harness.options import Output, Repeats, some_of
from harness.problems import Problem
from harness.report import Record, Table, median

N_DENSE, N_OF_WORD, WINDOW, FEW, SEED = 100, 50, 2, 300, 0


@dataclass(frozen=True, eq=False)
class Blocks:
    """Training and test part of the sparse block, the dense one, and labels; lists of labels for sentences."""

    sparse: tuple[Any, Any]
    dense: tuple[Any, Any]
    labels: tuple[Any, Any]
    is_chain: bool

    def part(self, number: int, which: str) -> Any:
        """Return the items of the training (0) or test part (1): "words", "vectors" or "both"."""
        from crfqn import Features

        sparse, dense = self.sparse[number], self.dense[number]
        if which != "both":
            return sparse if which == "words" else dense
        return Features(dense.matrix if self.is_chain else dense, sparse)

    def stacked(self, number: int) -> tuple[Any, Any]:
        """Return one matrix of both blocks, positions of sentences as rows, and the label of each row."""
        rows = self.sparse[number].matrix if self.is_chain else self.sparse[number]
        dense = self.dense[number].matrix if self.is_chain else self.dense[number]
        labels = np.concatenate(self.labels[number]) if self.is_chain else self.labels[number]
        return sp.hstack([sp.csr_matrix(dense), sp.csr_matrix(rows)]).tocsr(), labels


def of_texts(name: str, n_labelled: int | None = None) -> Blocks:
    """Texts of one label each, of which so many of the training part have one, drawn at random."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = data.vectorised(data.split_of(name), TfidfVectorizer(sublinear_tf=True))
    svd = TruncatedSVD(N_DENSE, random_state=SEED).fit(words.X_train)
    sparse = sp.csr_matrix(words.X_train), sp.csr_matrix(words.X_test)
    dense = [svd.transform(X).astype(np.float32) for X in sparse]
    few = np.random.RandomState(SEED).permutation(len(words.y_train))[:n_labelled]
    labels = words.y_train[few], words.y_test
    return Blocks((sparse[0][few], sparse[1]), (dense[0][few], dense[1]), labels, is_chain=False)


def of_sentences(name: str, corpus: str) -> Blocks:
    """Sentences, a label a word, and vectors of the words of a corpus."""
    from crfqn import Sequences

    texts = Texts.load(name)
    vectors = vectors_of([[word.lower() for word in item] for item in Texts.load(corpus).train])
    problem = texts.problem()
    nothing = np.zeros(N_OF_WORD, np.float32)
    dense = []
    for words, items in ((texts.train, problem.X_train), (texts.test, problem.X_test)):
        rows = []
        for item in words:
            table = np.stack([nothing, *(vectors.get(word.lower(), nothing) for word in item), nothing])
            rows.append(np.hstack([table[:-2], table[1:-1], table[2:]]))
        dense.append(Sequences(np.concatenate(rows), items.offsets))
    sparse, labels = (problem.X_train, problem.X_test), (texts.y_train, texts.y_test)
    return Blocks(sparse, (dense[0], dense[1]), labels, is_chain=True)


def vectors_of(items: list[list[str]]) -> dict[str, Any]:
    """Return a vector of length 1 for each word: the SVD of positive pointwise mutual information."""
    from scipy.sparse.linalg import svds
    from sklearn.preprocessing import normalize

    number = {word: n for n, word in enumerate(sorted({word for item in items for word in item}))}
    pairs = [
        (number[item[t]], number[item[t + step]])
        for item in items
        for step in range(1, WINDOW + 1)
        for t in range(len(item) - step)
    ]
    first, second = np.array(pairs).T
    counts = sp.coo_array((np.ones(first.size), (first, second)), (len(number), len(number))).tocsr()
    counts = (counts + counts.T).tocoo()
    totals = np.asarray(counts.sum(axis=0)).ravel()
    mutual = np.log(counts.data * totals.sum() / (totals[counts.row] * totals[counts.col]))
    table = sp.coo_array((np.maximum(mutual, 0.0), (counts.row, counts.col)), counts.shape).tocsr()
    left, sizes, _ = svds(table, N_OF_WORD, random_state=SEED)
    return dict(zip(number, normalize(left * np.sqrt(sizes)).astype(np.float32), strict=True))


SETS: dict[str, Callable[[], Blocks]] = {
    "banking77": partial(of_texts, "banking77"),
    "banking77-1000": partial(of_texts, "banking77", 1000),
    "newsgroups": partial(of_texts, "newsgroups"),
    "newsgroups-1000": partial(of_texts, "newsgroups", 1000),
    "conll2000-500": partial(of_sentences, "conll2000-500", "conll2000"),
    "conll2000-2000": partial(of_sentences, "conll2000-2000", "conll2000"),
    "btc": partial(of_sentences, "btc", "btc"),
}
HEAD = ["model", "accuracy", "weights", "of them dense", "certified gap", "processor, s"]


def measure(name: str, repeats: int) -> Record:
    blocks = SETS[name]()
    runs = [measured(blocks) for _ in range(repeats)]
    rows = [[*run[:-1], [turn[row][-1] for turn in runs]] for row, run in enumerate(runs[0])]
    n_dense = blocks.part(0, "both").n_dense
    n_sparse = blocks.stacked(0)[0].shape[1] - n_dense
    about = f"{len(blocks.labels[0]):,} items, {n_sparse:,} sparse and {n_dense} dense columns"
    return {"data": Problem(None, blocks.labels[0], None, None).fingerprint, "about": about, "rows": rows}


def section(records: list[Record]) -> Section:
    return Section([
        Table(f"{each['set']}: {each['about']}", HEAD, [[*row[:-1], median(row[-1])] for row in each["rows"]])
        for each in records
    ])  # fmt: skip


HYBRID = Comparison(
    "hybrid", "Dense beside sparse",
    "Words under L1 beside vectors under L2 in one model, against each of them alone and scikit-learn on the stacked "
    "matrix. The vectors are made of the training part's words.",
    ["crfqn", "scikit-learn", "numba", "numpy"], section,
)  # fmt: skip


def hybrid(
    problem: Annotated[list[str] | None, some_of([*SETS])] = None, repeats: Repeats = 3, output: Output = None
) -> None:
    """Words beside vectors in one model: against each alone, and scikit-learn on the stacked matrix."""
    HYBRID.measure(measure, [{"set": name, "repeats": repeats} for name in problem or SETS], output)


def measured(blocks: Blocks) -> list[list[Any]]:
    """Return a row a model; the last cell are its seconds."""
    from sklearn.linear_model import LogisticRegression

    from crfqn import ChainCRF, MulticlassCRF

    rows = []
    for which in ("words", "vectors", "both"):
        l2_alone = {"l1": 0.0, "l2": 1.0} if which == "vectors" else {}
        settings: dict[str, Any] = {"n_threads": 1} | l2_alone
        if which == "vectors" and not blocks.is_chain:
            settings["penalty"] = "elastic-net"
        model: Any = (ChainCRF if blocks.is_chain else MulticlassCRF)(**settings)
        seconds = fitted(model, blocks.part(0, which), blocks.labels[0])
        accuracy = model.score(blocks.part(1, which), blocks.labels[1])
        dense = np.count_nonzero(model.dense_coef_) if which == "both" else 0
        n_weights = f"{model.result_.n_nonzero:,}"
        cells = [f"{accuracy:.4f}", n_weights, f"{dense:,}", f"{model.result_.gap:.1e}"]
        rows.append([f"crfqn, {which}", *cells, seconds])
    X, y = blocks.stacked(0)
    peer = LogisticRegression(max_iter=1000)
    seconds = fitted(peer, X, y)
    accuracy = peer.score(*blocks.stacked(1))
    rows.append(["scikit-learn, stacked, L2", f"{accuracy:.4f}", f"{peer.coef_.size:,}", "", "", seconds])
    return rows


def fitted(model: Any, X: Any, y: Any) -> float:
    """Fit, after a few items for what is compiled and loaded; return processor seconds."""
    with quietly():
        few = np.arange(min(FEW, len(y)))
        model.fit(X[few], [y[i] for i in few])
    return fit_seconds(model, X, y)
