"""Draw the picture of the first page from the benchmarks page's table of default fits.

`python docs/draw_defaults.py` reads the table below "From dicts, with the
defaults" in `docs/benchmarks.md` and writes `pictures/defaults.svg` and
`pictures/defaults-dark.svg`.
"""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt

DOCS = Path(__file__).resolve().parent
NAMES = {
    "company": "company names",
    "person": "names of people",
    "conll2000-500": "chunks",
    "dutch-upos": "Dutch tags",
}
ROW = re.compile(
    r"^\| ([\w-]+) \| ([\d.]+) \| ([\d.]+) \| [\d.]+ \| ([\d.]+), ([\d.]+) \|"
)


def read_rows() -> list[tuple[str, float, float, float, float]]:
    """Per data set: name, seconds of CRFsuite and crfqn, accuracies of both."""
    text = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    table = text.partition("### From dicts, with the defaults")[2]
    rows = [
        (match[1], *map(float, match.groups()[1:]))
        for line in table.splitlines()
        if (match := ROW.match(line))
    ]
    return rows[: len(NAMES)]


def draw(path: Path, ink: str, theirs: str, ours: str) -> None:
    """Draw accuracy against seconds, a line from CRFsuite's to crfqn's fit."""
    plt.rcParams.update(
        {"svg.hashsalt": "crfqn", "svg.fonttype": "none", "font.size": 11}
    )
    figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
    for name, their_time, our_time, their_score, our_score in read_rows():
        their_score, our_score = 100 * their_score, 100 * our_score
        axes.plot(
            [their_time, our_time], [their_score, our_score], color=ink, lw=1
        )
        axes.plot(their_time, their_score, "s", color=theirs, ms=8)
        axes.plot(our_time, our_score, "o", color=ours, ms=9)
        axes.annotate(
            f"{NAMES[name]}: {their_time / our_time:.1f} times",
            (our_time, our_score),
            xytext=(0, -18 if name == "conll2000-500" else 10),
            textcoords="offset points",
            color=ink,
        )
    axes.plot([], [], "o", color=ours, ms=9, label="ChainCRF()")
    axes.plot(
        [],
        [],
        "s",
        color=theirs,
        ms=8,
        label="sklearn_crfsuite.CRF(c1=.1, c2=.1)",
    )
    axes.set_xscale("log")
    axes.set_ylim(82, 100)
    axes.set_xlim(0.35, 30)
    ticks = [0.5, 1, 2, 5, 10, 20]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("training, processor seconds of one core", color=ink)
    axes.set_ylabel("test accuracy, %", color=ink)
    axes.tick_params(colors=ink)
    for side in axes.spines.values():
        side.set_color(ink)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper right", frameon=False, labelcolor=ink)
    figure.savefig(path, transparent=True, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    (DOCS / "pictures").mkdir(exist_ok=True)
    draw(DOCS / "pictures" / "defaults.svg", "#333333", "#d9822b", "#2066a8")
    draw(
        DOCS / "pictures" / "defaults-dark.svg",
        "#dddddd",
        "#f0a860",
        "#7ab8f5",
    )
