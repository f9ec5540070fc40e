"""The picture of docs/entities.md: which words speak for an entity, and how honest its score is out of domain.

    python benchmarks/entity_figure.py --work DIR --out docs/entities.svg

DIR is where benchmarks/entities.py keeps its scores; those of all seeds are pooled.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from knn_ue import metrics

SENTENCE = (("The", "O"), ("University", "B-ORG"), ("of", "I-ORG"), ("Oslo", "I-ORG"), ("opened", "O"))
CURVES = (
    ("softmax", "product", "softmax, product", "#999999"),
    ("knn-ue-no-label", "product", "kNN-UE, product", "#4477aa"),
    ("knn-ue-entity", "own", "knn-ue-entity", "#cc3311"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--domain", default="wikineural")
    parser.add_argument("--set", default="politics")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    matplotlib.rcParams["svg.hashsalt"] = "knn-ue"
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.5, 1])
    draw_sentence(left)
    draw_reliability(right, arguments)
    figure.savefig(arguments.out, metadata={"Date": None, "Creator": None} if arguments.out.suffix == ".svg" else None)


def draw_sentence(axes: Any) -> None:
    """Draw the words, what each says of the entity, and the neighbors."""
    axes.set(xlim=(-0.1, 5.1), ylim=(-2.3, 2.2))
    axes.axis("off")
    for place, (word, tag) in enumerate(SENTENCE):
        inside = tag != "O"
        color = "#f4c7b8" if inside else "#d9e4f0" if place in (0, 4) else "#ffffff"
        axes.add_patch(FancyBboxPatch((place + 0.05, 0), 0.9, 0.6, boxstyle="round,pad=0.02", fc=color, ec="#555555"))
        axes.text(place + 0.5, 0.38, word, ha="center", va="center", fontsize=11)
        axes.text(place + 0.5, 0.13, tag, ha="center", va="center", fontsize=8, color="#555555")
    said = [
        ((1.5, 0.65), (0.75, 1.8), "link: does it begin here?"),
        ((2.5, 0.65), (2.5, 1.35), "type: is every word an ORG?"),
        ((4.5, 0.65), (4.2, 1.8), "link, beside: does it end here?\nis this word surely outside?"),
        ((0.5, -0.05), (0.6, -0.85), "beside: is this word\nsurely outside?"),
        (
            (2.5, -0.05),
            (2.9, -0.85),
            "distance: how far is the nearest training word?\nagreement: are the neighbors ORG too?",
        ),
    ]
    for point, text, words in said:
        axes.annotate(
            words, point, text, ha="center", va="center", fontsize=9, arrowprops={"arrowstyle": "-", "color": "#888888"}
        )
    others = "company: are the other entities of the sentence clear?   apart: does none of them touch it?"
    axes.text(2.5, -1.5, others, ha="center", fontsize=9)
    axes.text(
        2.5, -2.1, "seven numbers, fixed signs  →  P(type and span are right)", ha="center", fontsize=11, weight="bold"
    )


def draw_reliability(axes: Any, arguments: argparse.Namespace) -> None:
    """Draw precision against confidence, ten bins, on a set the model was not made for."""
    axes.plot([0, 1], [0, 1], color="#bbbbbb", linewidth=1, linestyle="--")
    n_seeds = 0
    for method, key, label, color in CURVES:
        cells = [
            json.loads(f.read_text())[arguments.set]
            for f in arguments.work.glob(f"{arguments.domain}-[0-9]*/{method}.json")
        ]
        n_seeds = len(cells)
        confidence = np.concatenate([np.array(cell[key]) for cell in cells])
        correct = np.concatenate([np.array(cell["correct"], dtype=bool) for cell in cells])
        bins = np.minimum((confidence * 10).astype(int), 9)
        shown = [number for number in range(10) if (bins == number).sum() >= 20]
        ece = 100 * metrics.expected_calibration_error(confidence=confidence, correct=correct)
        points = [(confidence[bins == number].mean(), correct[bins == number].mean()) for number in shown]
        axes.plot(*zip(*points, strict=True), marker="o", markersize=4, color=color, label=f"{label} (ECE {ece:.1f} %)")
    axes.set(xlabel="confidence in the entity", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1))
    axes.set_title(f"{arguments.domain} tagger on {arguments.set}, {n_seeds} seeds", fontsize=10)
    axes.legend(fontsize=8, loc="upper left", frameon=False)


if __name__ == "__main__":
    main()
