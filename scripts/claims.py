"""What the statuses claim, against optima known from elsewhere: the worst true distance of each claim.

    python scripts/claims.py --fits 2000 --seed 0 --results claims.jsonl

Each fit is an estimator with a solver on a generated problem with a difficulty: features far from the origin or of
scales 1e-6 to 1e6, one or more items of a scale up to 1e6, columns that are constant or twice there, data that can be
separated, one class that dominates, one item of each class, item weights of 1e-6 to 1e6, up to 40 classes, strengths of
1e-6 to 1e4. Six in ten have one more, of `EXTRAS`. A third start from zero, a third at a model of another strength, a
third at the end of a row of strengths that are walked down with `warm_start`. A loss that is not convex (weights of
positions, unknown labels) has no optimum to be judged by, and any claim of its distance counts as infinitely wrong.
Fits that end at a limit claim nothing and are not judged. The objective is computed anew from what the manual says,
with numpy and all label sequences written out, and its optimum is found by an interior-point method, whose distance to
it is bounded. Where that bound is above a tenth of the tolerance the optimum counts as not known, and the distance is a
lower bound. Half of the fits go without the Newton steps that solve small problems: they are judged as those are that
are too large for them.

The interior-point method (Boyd and Vandenberghe, Convex Optimization, 2004, sections 11.2 and 11.3) shares nothing with
the library: Newton's method on

    sharpness * objective - sum of the logarithms of all slacks

for a sharpness that grows; at its minimum the objective is no more than (degree of the barrier) / sharpness above the
optimum. All is dense and in double precision, for a few hundred numbers at most.

Shapes: n weights, I items, P candidates of an item.
"""

from __future__ import annotations

import json
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Annotated, Any
from unittest.mock import patch

import numpy as np
import scipy.sparse
import typer
from harness.options import command
from harness.report import Table
from numpy.typing import NDArray
from sklearn.base import clone

from crfqn import (
    Blocks,
    ChainCRF,
    MulticlassClassifier,
    MulticlassCRF,
    MulticlassSVC,
    MultilabelRanker,
    TaxonomyCRF,
)
from crfqn.solvers.minimize import minimize
from crfqn.solvers.stopping import Run

Array = NDArray[np.float64]
Places = NDArray[np.integer]
MAX_ITER = 300
TOLERANCES = (0.1, 0.03, 1e-2, 1e-3, 1e-4)
TROUBLES = (
    "none", "shift", "scale", "scales", "constant", "twice", "separable", "one class", "single items", "weights",
    "sparse", "huge item", "huge items",
)  # fmt: skip
# Besides the difficulty of the data: factors of the penalty, half of them 0, weights of classes or positions, positions
# without a label, items out of core, items that are held out, and groups of features.
EXTRAS = ("factors", "class weights", "position weights", "unknown labels", "blocks", "held out",
          "feature groups")  # fmt: skip
NO_CLAIM = ("HELD_OUT", "MAX_ITER", "STALLED", "STATIONARY", "LINE_SEARCH_FAILED")
MARGINS = ("squared-hinge", "multitask-squared-hinge")
KINKED = ("auto", "prox-qn", "owl-qn", "spa-rsa", "fista", "prox-gd", "feature-bcd")
SMOOTH = ("auto", "l-bfgs", "prox-qn", "spa-rsa")
ROWS = ("auto", "prox-qn", "bcd", "spa-rsa", "fista")
FLAT_PENALTIES = {
    "l1": ("auto", "prox-qn", "owl-qn", "spa-rsa", "fista"),
    "elastic-net": ("auto", "prox-qn", "owl-qn", "spa-rsa"), "l2": SMOOTH, "l1/l2": ROWS,
    "l1/linf": ("auto", "spa-rsa"), "sparse-group": ("auto", "prox-qn"),
}  # fmt: skip
TREE = {"a1": "a", "a2": "a", "b1": "b", "b2": "b"}  # child -> parent
LEAVES, LENGTH, CLASSES = tuple(TREE), 3, 3  # of sequences, and the classes of most but taxonomies
# Of the others, one in eight: pairs of labels, and slacks, are what the judge can bear.
MANY_CLASSES = {"crf": 40, **dict.fromkeys(MARGINS, 40), "ranker": 10, "hinge": 10, "svc": 10}
FROM_ZERO = ("svc", "hinge")
STARTS = ("zero", "other", "walk")
STRENGTHS = ("l1", "l2", "group_l1")


@dataclass
class Loss:
    """A sum over items of a function of candidates' scores: differences D (I, P, n), D w being linear in the weights.

    kind : "likelihood" (log sum exp D w, one of the P being the observed one with D = 0), "squares" (sum of squares of
        max(1 + D w, 0), where `counts`) or "hinge" (the largest of counts + D w)
    """

    kind: str
    differences: Array
    weights: Array
    counts: Array = field(default_factory=lambda: np.ones(()))

    def __call__(self, w: Array) -> tuple[float, Array, Array]:
        """Value, gradient and Hessian, those of "hinge" 0: its slacks are variables."""
        c, d = self.weights, self.differences
        s = d @ w
        if self.kind == "hinge":
            return float(c @ (self.counts + s).max(axis=1)), np.zeros(w.size), np.zeros((w.size, w.size))
        if self.kind == "squares":
            left = np.maximum(1.0 + s, 0.0) * self.counts
            first, second = c[:, None] * 2.0 * left, c[:, None] * 2.0 * (left > 0)
            value, extra = float(c @ (left**2).sum(axis=1)), 0.0
        else:
            top = s.max(axis=1, keepdims=True)
            p = np.exp(s - top)
            z = p.sum(axis=1, keepdims=True)
            p /= z
            first = second = c[:, None] * p
            value = float(c @ (top + np.log(z))[:, 0])
            means = np.einsum("ip,ipn->in", p, d)
            extra = (c[:, None] * means).T @ means
        flat = d.reshape(-1, w.size)
        return value, flat.T @ first.ravel(), (flat * second.reshape(-1, 1)).T @ flat - extra


@dataclass
class Problem:
    """A loss, the strengths of all weights, l2 (n,), and cones: |w[members]| <= t at a price for t.

    members : (cones, size) places in w; owners : (cones,) places in t, which cones may share
    """

    loss: Loss
    l2: Array
    prices: list[float] = field(default_factory=list)
    cones: list[tuple[Places, Places]] = field(default_factory=list)

    def add(self, strength: Array | float, members: Places, shared: bool = False) -> None:
        """Charge the length of each row of members; `shared`: the largest size in it."""
        if not np.any(strength):
            return
        owners = len(self.prices) + np.arange(len(members))
        self.prices += np.broadcast_to(strength, len(members)).tolist()
        if shared:
            members, owners = members.reshape(-1, 1), np.repeat(owners, members.shape[1])
        self.cones.append((members, owners))

    def least_t(self, w: Array) -> Array:
        """What t has to be, at least."""
        t = np.zeros(len(self.prices))
        for members, owners in self.cones:
            np.maximum.at(t, owners, np.linalg.norm(w[members], axis=1))
        return t

    def value(self, w: Array) -> float:
        """The objective."""
        return self.loss(w)[0] + 0.5 * float(self.l2 @ w**2) + float(np.dot(self.prices, self.least_t(w)))

    def optimum(self) -> tuple[float, float]:
        """Return the least value found and a bound on its distance to the optimum, infinite where Newton got stuck."""
        size = np.sqrt(np.einsum("i,ipn->n", self.loss.weights, self.loss.differences**2) + self.l2)
        unit = np.where(size > 0, 1.0 / np.where(size > 0, size, 1.0), 1.0)  # of each weight
        barrier = Barrier(self, unit)
        z, sharpness = barrier.start(), max(barrier.degree, 1.0) / self.value(np.zeros(unit.size))
        best, is_centered = self.value(np.zeros(unit.size)), True
        for _ in range(40):
            z, is_centered = barrier.centered(z, sharpness)
            best = min(best, self.value(unit * z[: unit.size]))
            if barrier.degree / sharpness <= 1e-7 * best:
                break
            sharpness *= 10.0
        return best, barrier.degree / sharpness if is_centered else np.inf


class Barrier:
    """sharpness * objective - sum log of all slacks, over z = (weights / unit, t / t's unit, slacks of a hinge)."""

    def __init__(self, problem: Problem, unit: Array) -> None:
        self.problem, self.unit, self.n, self.m = problem, unit, unit.size, len(problem.prices)
        loss = problem.loss
        self.n_slacks = loss.weights.size if loss.kind == "hinge" else 0
        self.t_unit = np.ones(self.m)
        for members, owners in problem.cones:
            self.t_unit[owners] = unit[members].max(axis=1)
        self.degree = float(sum(2 * owners.size for _, owners in problem.cones))
        if self.n_slacks:  # 1 + D w - slack <= 0 and slack >= 0
            n_items, width, _ = loss.differences.shape
            rows = (loss.differences * unit).reshape(n_items * width, self.n)
            slack = np.repeat(np.eye(n_items), width, axis=0)
            above = np.hstack([np.zeros((n_items, self.n + self.m)), np.eye(n_items)])
            self.rows = np.vstack([np.hstack([-rows, np.zeros((len(rows), self.m)), slack]), above])
            self.offsets = np.concatenate([loss.counts.ravel(), np.zeros(n_items)])
            self.degree += len(self.rows)
        costs = loss.weights if self.n_slacks else np.zeros(0)
        self.linear = np.concatenate([np.zeros(self.n), self.t_unit * problem.prices, costs])

    def start(self) -> Array:
        """All weights 0."""
        return np.concatenate([np.zeros(self.n), np.ones(self.m), np.full(self.n_slacks, 2.0)])

    def __call__(self, z: Array, sharpness: float, with_slopes: bool = True) -> tuple[float, Array, Array]:
        """Value, infinite outside of the cones, gradient and Hessian."""
        w, t, n = self.unit * z[: self.n], self.t_unit * z[self.n : self.n + self.m], self.n
        value, g, h = self.problem.loss(w)
        value = 0.0 if self.n_slacks else value
        l2 = self.problem.l2
        total = sharpness * (value + 0.5 * float(l2 @ w**2) + float(self.linear @ z))
        slopes, bent = sharpness * self.linear, np.zeros((z.size, z.size))
        slopes[:n] += sharpness * self.unit * (g + l2 * w)
        bent[:n, :n] = sharpness * self.unit[:, None] * (h + np.diag(l2)) * self.unit
        for members, owners in self.problem.cones:
            v, u, s, r = w[members], t[owners], self.unit[members], self.t_unit[owners]
            left = u**2 - (v**2).sum(axis=1)
            if not ((left > 0) & (u > 0)).all():
                return np.inf, slopes, bent
            total -= float(np.log(left / r**2).sum())
            dv, du = 2 * v * s / left[:, None], -2 * u * r / left
            places = np.concatenate([members, n + owners[:, None]], axis=1)
            d = np.concatenate([dv, du[:, None]], axis=1)
            np.add.at(slopes, places, d)
            own = d[:, :, None] * d[:, None]
            sizes = np.concatenate([2 * s**2 / left[:, None], (-2 * r**2 / left)[:, None]], axis=1)
            own[:, np.arange(d.shape[1]), np.arange(d.shape[1])] += sizes
            np.add.at(bent, (places[:, :, None], places[:, None]), own)
        if self.n_slacks:
            left = self.rows @ z - self.offsets
            if not (left > 0).all():
                return np.inf, slopes, bent
            total -= float(np.log(left).sum())
            slopes -= self.rows.T @ (1.0 / left)
            bent += (self.rows / left[:, None] ** 2).T @ self.rows
        return total, slopes, bent

    def centered(self, z: Array, sharpness: float) -> tuple[Array, bool]:
        """Newton's method from z; whether it came to its end."""
        total, slopes, bent = self(z, sharpness)
        for _ in range(100):
            scale = 1.0 / np.sqrt(np.maximum(np.diagonal(bent), 1e-300))
            scaled = scale[:, None] * bent * scale + 1e-14 * np.eye(z.size)
            d = -scale * np.linalg.solve(scaled, scale * slopes)
            decrease = -float(slopes @ d)
            if not decrease > 1e-9 * max(1.0, 1e-5 * abs(total)):
                return z, True
            length = 1.0
            while not self(z + length * d, sharpness)[0] <= total - 1e-4 * length * decrease:
                length *= 0.5
                if length < 1e-12:
                    return z, decrease < 1e-3
            z = z + length * d
            total, slopes, bent = self(z, sharpness)
        return z, False


@dataclass
class Case:
    """A fit to make: the estimator, what it is given, the problem, and how the weights are read (n,)."""

    name: str
    model: Any
    data: tuple[Any, Any]
    weights: Array
    problem: Problem
    read: Any
    is_solved_on: bool = True
    before: list[dict[str, float]] = field(default_factory=list)  # strengths of fits that lead to the start
    is_walk: bool = False
    extra: str = "none"
    sample_weight: Any = None  # if not `weights`
    is_convex: bool = True

    def fit(self) -> Any:
        """The fitted model, after the fits that lead to its start."""
        X, y = self.data
        weights = self.weights if self.sample_weight is None else self.sample_weight
        given: dict[str, Any] = {"validation": (X, y)} if self.extra == "held out" else {}
        with TemporaryDirectory() as folder:
            if self.extra == "blocks":
                half = len(y) // 2
                batches = [(X[:half], y[:half], weights[:half]), (X[half:], y[half:], weights[half:])]
                n_positions = 5 * (LENGTH if isinstance(X, list) else 1)
                written = Blocks.write(Path(folder) / "blocks", batches, n_positions=n_positions)
                arguments: tuple[Any, ...] = (written,)
            else:
                arguments = X, y, weights
            if self.is_walk:
                last = {name: getattr(self.model, name) for name in self.before[0]}
                self.model.set_params(warm_start=True)
                for strengths in self.before:
                    self.model.set_params(**strengths).fit(*arguments, **given)
                return self.model.set_params(**last).fit(*arguments, **given)
            for strengths in self.before:
                given["start"] = clone(self.model).set_params(**strengths).fit(*arguments, **given)
            return self.model.fit(*arguments, **given)

    def minimize(self, objective: Any, penalty: Any, solver: Any, run: Run) -> Any:
        """The library's, with or without the steps that solve small problems."""
        return minimize(objective, penalty, solver, replace(run, to_rounding=self.is_solved_on))


def features(random: np.random.Generator, trouble: str, n_items: int, n_features: int) -> Array:
    """Rows of the features, with what is wrong with them."""
    x = random.normal(size=(n_items, n_features))
    if trouble == "shift":
        x += 10.0 ** random.uniform(0, 6)
    elif trouble == "scale":
        x *= 10.0 ** random.uniform(-6, 6)
    elif trouble == "scales":
        x *= 10.0 ** random.uniform(-6, 6, n_features)
    elif trouble == "huge item":
        x[0] *= 10.0 ** random.uniform(1, 6)
    elif trouble == "huge items":
        x[: 1 + n_items // 5] *= 10.0 ** random.uniform(1, 6)
    elif trouble == "constant":
        x[:, 0] = 10.0 ** random.uniform(-3, 3)
    elif trouble == "twice":
        x[:, 1] = x[:, 0]
    elif trouble == "sparse":
        x *= random.random(x.shape) < 0.3
    return x


def labels_of(random: np.random.Generator, trouble: str, x: Array, n_classes: int) -> Places:
    """A class for each row, each class at least once."""
    scores = ((x - x.mean(axis=0)) / (x.std(axis=0) + 1e-12)) @ random.normal(size=(x.shape[1], n_classes))
    if trouble != "separable":
        scores += random.gumbel(size=scores.shape)
    y = scores.argmax(axis=1)
    if trouble == "one class":
        y = np.where(random.random(len(y)) < 0.95, 0, y)
    y[random.permutation(len(y))[:n_classes]] = np.arange(n_classes)
    return y


def strengths_of(random: np.random.Generator, penalty: str) -> dict[str, float]:
    """Strengths of 1e-6 to 1e4, in most cases some that a user might take."""
    spread = (-6, 4) if random.random() < 0.3 else (-2, 1.5)
    names = {"l1": ["l1"], "elastic-net": ["l1", "l2"], "l2": ["l2"], "sparse-group": ["group_l1", "l1"]}
    return {name: float(10.0 ** random.uniform(*spread)) for name in names.get(penalty, ["group_l1"])}


def problem_of(
    loss: Loss, strengths: dict[str, float], factors: Array, groups: list[Places], linf: bool
) -> Problem:
    """The documented penalty times the factor of each weight (n,), 0 of free ones; groups of places, the others each
    alone."""
    penalised = np.flatnonzero(factors)
    problem = Problem(loss, factors * strengths.get("l2", 0.0))
    problem.add(factors[penalised] * strengths.get("l1", 0.0), penalised[:, None])
    group = strengths.get("group_l1", 0.0)
    for members in groups:
        if factors[members[0]] > 0:
            problem.add(factors[members[0]] * group, members[None], shared=linf)
    alone = np.setdiff1d(penalised, np.concatenate(groups)) if groups else penalised
    problem.add(factors[alone] * group, alone[:, None])
    return problem


def factors_of(random: np.random.Generator, n_features: int) -> Array:
    """Factors of features, about half of them 0 but not all."""
    factors = np.where(random.random(n_features) < 0.5, 0.0, 10.0 ** random.uniform(-1, 1, n_features))
    factors[random.integers(n_features)] = 1.0
    return factors


def extra_of(random: np.random.Generator, able: tuple[str, ...]) -> str:
    """Return one of the extras that a model is able to have, in six of ten cases."""
    return str(random.choice(able)) if able and random.random() < 0.6 else "none"


def flat_case(random: np.random.Generator, kind: str) -> Case:
    """One label an item, or sets of them, or leaves of a tree."""
    trouble, n_classes = str(random.choice(TROUBLES)), len(LEAVES) if kind == "taxonomy" else CLASSES
    n_classes = MANY_CLASSES.get(kind, n_classes) if random.random() < 1 / 8 else n_classes
    n_items = n_classes if trouble == "single items" else n_classes + int(random.integers(20, 60))
    x = features(random, trouble, n_items, int(random.integers(2, 6)))
    y = labels_of(random, trouble, x, n_classes)
    c = 10.0 ** random.uniform(-6, 6, n_items) if trouble == "weights" else np.ones(n_items)
    has_intercept = kind not in ("taxonomy", "svc")
    intercept = str(random.choice(["free", "penalised", "none"])) if has_intercept else "none"
    settings: dict[str, Any] = {"tol": float(random.choice(TOLERANCES)), "max_iter": MAX_ITER}
    given: Any = scipy.sparse.csr_array(x) if trouble == "sparse" or random.random() < 0.2 else x
    full = x if intercept == "none" else np.hstack([x, np.ones((n_items, 1))])
    others = (np.arange(n_classes) != y[:, None]).astype(float)
    if kind == "svc":
        strength = float(10.0 ** random.uniform(-3, 3))
        loss = Loss("hinge", differences_of(full, np.eye(n_classes), y), strength * c, others)
        model = MulticlassSVC(C=strength, kernel="linear", **settings)
        problem = problem_of(loss, {"l2": 1.0}, np.ones(full.shape[1] * n_classes), [], False)

        def decisions(m: Any) -> Array:
            return m.decision_function(np.eye(x.shape[1])).T.ravel()

        return Case(f"svc, {trouble}", model, (x, y), c, problem, decisions)
    settings["stop"] = str(random.choice(["estimate", "estimate", "certificate"]))
    penalty = str(random.choice([*FLAT_PENALTIES] if kind != "taxonomy" else ["l1", "elastic-net", "l2"]))
    solvers = KINKED[:4] if kind == "taxonomy" and penalty != "l2" else FLAT_PENALTIES[penalty]
    solvers = {"l2": ("auto", "dual")}.get(penalty, ("fbpd",)) if kind == "hinge" else solvers
    strengths = strengths_of(random, penalty)
    settings |= strengths | {"solver": str(random.choice(solvers))}
    extra = extra_of(random, extras_of(kind, penalty))
    if extra == "blocks" or (extra in ("factors", "feature groups") and settings["solver"] == "bcd"):
        settings["solver"] = "auto"
    factors, weights = np.ones(full.shape[1]), c
    if extra == "factors":
        factors[: x.shape[1]] = factors_of(random, x.shape[1])
        settings["penalty_factors"] = factors[: x.shape[1]]
    elif extra == "class weights":
        of_class = 10.0 ** random.uniform(-2, 2, n_classes)
        names = LEAVES if kind == "taxonomy" else range(n_classes)
        settings["class_weight"] = dict(zip(names, of_class.tolist(), strict=True))
        c = c * of_class[y]
    n_rows = n_classes
    if kind == "taxonomy":
        settings |= {name: 0.0 for name in ("l1", "l2") if name not in strengths}
        nodes = list(TaxonomyCRF(taxonomy=TREE).fit(x, np.array(LEAVES)[y]).tree_.names)
        above = np.array([[node in (leaf, TREE[leaf]) for node in nodes] for leaf in LEAVES], float)
        n_rows, y_given = len(nodes), np.array(LEAVES)[y]
        loss = Loss("likelihood", differences_of(full, above, y), c)
        model = TaxonomyCRF(taxonomy=TREE, **settings)
    else:
        settings |= {"penalty": penalty, "fit_intercept": intercept != "none"}
        settings |= {"penalize_intercept": intercept == "penalised"}
        d, y_given = differences_of(full, np.eye(n_classes), y), y
        if kind == "crf":
            loss, model = Loss("likelihood", d, c), MulticlassCRF(**settings)
        elif kind == "hinge":
            loss, model = Loss("hinge", d, c, others), MulticlassClassifier(loss="hinge", **settings)
        elif kind == "ranker":
            sets = np.eye(n_classes)[y]
            sets[random.random(n_items) < 0.3, 0] = 1.0
            d, counts = pairs_of(full, sets)
            loss, y_given = Loss("squares", d, c, counts), sets.astype(int)
            model = MultilabelRanker(**settings)
        elif kind == MARGINS[0]:
            loss, model = Loss("squares", d, c, others), MulticlassClassifier(loss=kind, **settings)
        else:
            signs = 1.0 - 2.0 * np.eye(n_classes)[y]
            each = np.einsum("ik,kl,if->iklf", signs, np.eye(n_classes), full).reshape(n_items, n_classes, -1)
            loss, model = Loss("squares", each, c), MulticlassClassifier(loss=kind, **settings)
    places = np.arange(n_rows * full.shape[1]).reshape(n_rows, -1)
    if intercept == "free":
        factors[-1] = 0.0
    groups = [*places.T]
    if extra == "feature groups":  # of each class
        labels = random.integers(2, size=x.shape[1])
        model.set_params(feature_groups=labels)
        blocks = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        groups = [row[block] for row in places for block in blocks]
    problem = problem_of(loss, strengths, np.tile(factors, n_rows), groups, penalty == "l1/linf")

    def read(m: Any) -> Array:
        return np.hstack([m.coef_.toarray(), m.intercept_[:, None]])[:, : full.shape[1]].ravel()

    name = f"{kind} {penalty} {settings['solver']} {settings['stop']}, {trouble}, {intercept}"
    name += f", {n_classes} classes" if n_classes > len(LEAVES) else ""
    return Case(name, model, (given, y_given), weights, problem, read, extra=extra)


def extras_of(kind: str, penalty: str) -> tuple[str, ...]:
    """Return the extras that a model with one label an item can have."""
    if kind == "ranker":
        return ("factors",)
    if kind == "hinge":
        return () if penalty == "l2" else ("factors", "class weights")
    has_groups = kind != "taxonomy" and penalty in ("l1/l2", "sparse-group")
    others = ("factors", "factors", "class weights", "blocks", "held out")
    return (*others, *["feature groups"] * has_groups)


def differences_of(x: Array, above: Array, y: Places) -> Array:
    """Features of candidate k less those of the observed one, (I, P, rows F): rows `above` (P, rows) add up to it."""
    return np.einsum("ipr,if->iprf", above[None] - above[y][:, None], x).reshape(len(x), len(above), -1)


def pairs_of(x: Array, sets: Array) -> tuple[Array, Array]:
    """Features of r' less those of r for all pairs of labels, and which of them have r in the set and r' not."""
    eye, pairs = np.eye(sets.shape[1]), np.array([*product(range(sets.shape[1]), repeat=2)])
    d = np.einsum("pr,if->iprf", eye[pairs[:, 1]] - eye[pairs[:, 0]], x)
    counts = sets[:, pairs[:, 0]] * (1.0 - sets[:, pairs[:, 1]])
    return d.reshape(len(x), len(pairs), -1), counts


def chain_case(random: np.random.Generator) -> Case:
    """Sequences of three positions and three labels: 27 labellings, all of them written out."""
    trouble = str(random.choice(TROUBLES))
    n_items = 1 if trouble == "single items" else int(random.integers(8, 25))
    x = features(random, trouble, n_items * LENGTH, int(random.integers(2, 5)))
    y = labels_of(random, trouble, x, CLASSES).reshape(n_items, LENGTH)
    c = 10.0 ** random.uniform(-6, 6, n_items) if trouble == "weights" else np.ones(n_items)
    penalty = str(random.choice(["l1", "elastic-net", "l2", "l1/l2"]))
    solvers = {"l2": SMOOTH, "l1/l2": ("auto", "spa-rsa")}.get(penalty, KINKED)
    strengths = strengths_of(random, penalty)
    settings: dict[str, Any] = {"l1": 0.0, "l2": 0.0, **strengths}
    settings |= {"solver": str(random.choice(solvers)), "max_iter": MAX_ITER}
    settings |= {"stop": str(random.choice(["estimate", "estimate", "certificate"]))}
    settings |= {"tol": float(random.choice(TOLERANCES))}
    is_limited = penalty == "l1/l2" or settings["solver"] == "feature-bcd"
    able = ("factors", "blocks") if is_limited else EXTRAS[:-1]
    extra, is_convex, labels, sample_weight = extra_of(random, able), True, [*y], None
    settings["solver"] = "auto" if extra == "blocks" else settings["solver"]
    factors = np.ones(x.shape[1])
    if extra == "factors":
        factors = settings["penalty_factors"] = factors_of(random, x.shape[1])
    elif extra in ("class weights", "position weights", "unknown labels"):
        is_convex = False
    if extra == "class weights":
        settings["class_weight"] = dict(enumerate((10.0 ** random.uniform(-2, 2, CLASSES)).tolist()))
        is_convex = bool((y == y[:, :1]).all())
    elif extra == "position weights":
        sample_weight = [each * 10.0 ** random.uniform(-2, 2, LENGTH) for each in c]
    elif extra == "unknown labels":
        labels = [[k if random.random() < 0.7 else None for k in item] for item in y.tolist()]
        labels[0] = [*y[0, :-1].tolist(), None]
    paths = np.array([*product(range(CLASSES), repeat=LENGTH)])
    states = np.eye(CLASSES)[paths]
    x = x.reshape(n_items, LENGTH, -1)
    nodes = np.einsum("ptk,itf->ipkf", states, x).reshape(n_items, len(paths), -1)
    edges = np.einsum("ptk,ptl->pkl", states[:, :-1], states[:, 1:]).reshape(len(paths), -1)
    whole = np.concatenate([nodes, np.broadcast_to(edges, (n_items, *edges.shape))], axis=2)
    observed = (paths[None] == y[:, None]).all(axis=2).argmax(axis=1)
    loss = Loss("likelihood", whole - whole[np.arange(n_items), observed][:, None], c)
    groups = [*np.arange(CLASSES * x.shape[2]).reshape(CLASSES, -1).T]
    of_weights = np.concatenate([np.tile(factors, CLASSES), np.ones(CLASSES**2)])
    problem = problem_of(loss, strengths, of_weights, groups, False)

    def read(m: Any) -> Array:
        return np.concatenate([m.coef_.toarray().ravel(), m.transition_coef_.toarray().ravel()])

    name = f"chain {penalty} {settings['solver']} {settings['stop']}, {trouble}"
    more: dict[str, Any] = {"extra": extra, "sample_weight": sample_weight, "is_convex": is_convex}
    return Case(name, ChainCRF(**settings), ([*x], labels), c, problem, read, **more)


def cases(n_fits: int, seed: int, first: int = 0) -> Iterator[Case]:
    """The cases of a seed from a first one on: they are the same, however many are asked for."""
    kinds = ("crf", "chain", "taxonomy", "ranker", *MARGINS, "hinge", "svc")
    for i in range(first, n_fits):
        random, kind = np.random.default_rng([seed, i]), kinds[i % len(kinds)]
        case = chain_case(random) if kind == "chain" else flat_case(random, kind)
        case.is_solved_on = bool(random.random() < 0.5)
        yield case if kind in FROM_ZERO else started(random, case)


def started(random: np.random.Generator, case: Case) -> Case:
    """The case with its start: zero, a model of other strengths, or the last of strengths that are walked down."""
    name = str(random.choice(STARTS))
    given = {name: value for name in STRENGTHS if (value := getattr(case.model, name, None))}
    if name == "other":
        case.before = [{name: value * 10.0 ** random.uniform(-2, 2) for name, value in given.items()}]
    elif name == "walk":
        steps = 10.0 ** np.linspace(random.uniform(0.3, 2), 0, int(random.integers(2, 6)))[:-1]
        case.before = [{name: float(value * step) for name, value in given.items()} for step in steps]
        case.is_walk = True
    case.name += "" if case.extra == "none" else f", {case.extra}"
    case.name += "" if name == "zero" else f", start {name}"
    return case


@dataclass
class Judged:
    """How a fit ended: its status, the true distance in units of the tolerance, and what is known of it."""

    name: str
    status: str
    ratio: float
    is_known: bool
    n_warnings: int


def judged(case: Case) -> Judged:
    """Fit, and compare the objective of the weights that came back with the optimum."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if "n_threads" in case.model.get_params():
            case.model.set_params(n_threads=1)
        with patch("crfqn.estimators.problem.minimize", case.minimize):
            model = case.fit()
    status = model.result_.status.name
    if case.is_convex and (status not in NO_CLAIM or status == "STATIONARY"):
        found = case.problem.value(case.read(model))
        with np.errstate(all="ignore"):
            best, bound = case.problem.optimum()
    else:
        found, best, bound = 0.0, 0.0, np.inf
    is_above = found > 1e-12 * case.problem.value(np.zeros_like(case.problem.l2))  # and no rounding of 0
    ratio = max(found - best, 0.0) / (found * model.tol) if is_above else 0.0
    if not case.is_convex and status not in NO_CLAIM:
        ratio = np.inf
    name = f"{case.name}{'' if case.is_solved_on else ', by its steps'}, tol {model.tol:g}, {model.result_!r}"
    return Judged(name, status, ratio, bool(bound <= 0.1 * model.tol * best), len(caught))


def table_of(found: list[Judged]) -> Table:
    """A row for each status: fits, warnings, the worst distance, and where nothing is known for certain."""
    by_status: dict[str, list[Judged]] = defaultdict(list)
    for each in found:
        by_status[each.status].append(each)
    columns: dict[str, Callable[[tuple[str, list[Judged]]], str]] = {
        "status": lambda entry: entry[0],
        "fits": lambda entry: str(len(entry[1])),
        "warned": lambda entry: str(sum(each.n_warnings > 0 for each in entry[1])),
        "worst true distance / tol": lambda entry: f"{max(each.ratio for each in entry[1]):.2g}",
        "above 1": lambda entry: str(sum(each.ratio > 1 for each in entry[1])),
        "above 2": lambda entry: str(sum(each.ratio > 2 for each in entry[1])),
        "optimum not known": lambda entry: str(sum(not each.is_known for each in entry[1])),
    }
    return Table.from_rows("Claims", columns, sorted(by_status.items()))


app = command()


@app.command()
def main(
    fits: Annotated[int, typer.Option(min=1, help="How many.")] = 2000,
    seed: Annotated[int, typer.Option(help="Of the cases.")] = 0,
    worst: Annotated[int, typer.Option(min=0, help="Fits to name, of those that claim something.")] = 10,
    results: Annotated[
        Path | None, typer.Option(help="File of a line a fit; its fits of this seed are not made again.")
    ] = None,
) -> None:
    """Print the table of the claims, and the fits furthest from what they claim."""
    began, found, lines = process_time(), [], []
    if results is not None and results.exists():
        lines = [json.loads(line) for line in results.read_text().splitlines()]
        found = [Judged(**line["judged"]) for line in lines if line["seed"] == seed][:fits]
    n_before = len(found)
    for case in cases(fits, seed, n_before):
        found.append(judged(case))
        if results is not None:
            with results.open("a") as file:
                file.write(json.dumps({"seed": seed, "judged": asdict(found[-1])}) + "\n")
    print(table_of(found).markdown())
    seconds = f"{process_time() - began:.0f} s of the processor's time"
    print(f"\n{len(found)} fits, {len(found) - n_before} of them now in {seconds}\n")
    claims = [each for each in found if each.status not in NO_CLAIM or each.status == "STATIONARY"]
    for each in sorted(claims, key=lambda each: -each.ratio)[:worst]:
        print(f"{each.ratio:8.2g} {'' if each.is_known else '(at least) '}{each.name}")


if __name__ == "__main__":
    app()
