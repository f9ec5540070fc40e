"""The picture of docs/spacy_results.md: how often entities are right at each confidence, before and after.

    python benchmarks/spacy_reliability.py

It is drawn from benchmarks/spacy_entities.json, all sets and splits pooled; a test holds that it is current.
"""

import argparse
import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NAMES = {"sm": "en_core_web_sm", "md": "en_core_web_md"}
CURVES = (("beam", "beam score", "#8a8a8a", "6 4"), ("knn-ue-entity", "ent._.confidence", "#0b5d99", ""))
SIZE, LEFT, TOP, GAP = 260, 60, 50, 90
FEWEST = 20  # a bin with fewer entities is not drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=HERE / "spacy_entities.json")
    parser.add_argument("--out", type=Path, default=HERE.parent / "docs" / "spacy_reliability.svg")
    options = parser.parse_args()
    report = json.loads(options.json.read_text())
    if not has_bins(report):
        raise SystemExit(f"{options.json} holds no bins: run benchmarks/spacy_entities.py again")
    options.out.write_text(draw(report))


def has_bins(report: dict[str, Any]) -> bool:
    """Say whether the numbers were measured with their bins, as they have been since the picture is drawn."""
    cells = [cell for model in report["models"].values() for run in model["methods"]["beam"] for cell in run.values()]
    return all("bins" in cell for cell in cells)


def draw(report: dict[str, Any]) -> str:
    """Return the picture as SVG: a panel for each model."""
    models = report["models"]
    width, height = LEFT + len(models) * (SIZE + GAP), TOP + SIZE + 60
    panels = [
        panel(name, found["methods"], LEFT + place * (SIZE + GAP)) for place, (name, found) in enumerate(models.items())
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
            'font-size="12" role="img" aria-labelledby="title">',
            '<title id="title">Share of entities that are right against their confidence: the beam score promises too '
            "much, the calibrated confidence lies near the diagonal.</title>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            *panels,
            "</svg>\n",
        ]
    )


def panel(name: str, methods: dict[str, Any], left: int) -> str:
    lines = [
        f'<text x="{left + SIZE / 2}" y="{TOP - 18}" text-anchor="middle" font-weight="bold">{NAMES[name]}</text>',
        f'<rect x="{left}" y="{TOP}" width="{SIZE}" height="{SIZE}" fill="none" stroke="#cccccc"/>',
        f'<line x1="{left}" y1="{TOP + SIZE}" x2="{left + SIZE}" y2="{TOP}" stroke="#cccccc"/>',
        f'<text x="{left + SIZE / 2}" y="{TOP + SIZE + 38}" text-anchor="middle">confidence</text>',
        f'<text transform="translate({left - 38} {TOP + SIZE / 2}) rotate(-90)" text-anchor="middle">'
        "share that is right</text>",
    ]
    for tick in (0.0, 0.5, 1.0):
        lines += [
            f'<text x="{left + tick * SIZE:g}" y="{TOP + SIZE + 18}" text-anchor="middle">{tick:g}</text>',
            f'<text x="{left - 8}" y="{TOP + (1 - tick) * SIZE + 4:g}" text-anchor="end">{tick:g}</text>',
        ]
    for place, (method, label, color, dash) in enumerate(CURVES):
        points = [(left + confidence * SIZE, TOP + (1 - right) * SIZE) for confidence, right in pooled(methods[method])]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        y = TOP + 20 + 18 * place
        error = mean_ece(methods[method])
        lines += [
            f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2" stroke-dasharray="{dash}"/>',
            *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{color}"/>' for x, y in points),
            f'<line x1="{left + 10}" y1="{y - 4}" x2="{left + 34}" y2="{y - 4}" stroke="{color}" stroke-width="2" '
            f'stroke-dasharray="{dash}"/>',
            f'<text x="{left + 40}" y="{y}">{label} (ECE {error:.1f} %)</text>',
        ]
    return "\n".join(lines)


def pooled(runs: list[Any]) -> list[tuple[float, float]]:
    """Return (mean confidence, share right) of each tenth, over all sets and splits."""
    bins: dict[int, list[Any]] = {}
    for n, confidence, right in (row for run in runs for cell in run.values() for row in cell["bins"]):
        bins.setdefault(min(int(confidence * 10), 9), []).append((n, confidence, right))
    totals = {place: sum(n for n, _, _ in rows) for place, rows in sorted(bins.items())}
    return [
        (sum(n * x for n, x, _ in bins[place]) / total, sum(n * y for n, _, y in bins[place]) / total)
        for place, total in totals.items()
        if total >= FEWEST
    ]


def mean_ece(runs: list[Any]) -> float:
    """Return the mean over sets and splits, as docs/spacy_results.md has it."""
    errors = [cell["ece"] for run in runs for cell in run.values()]
    return float(sum(errors) / len(errors))


if __name__ == "__main__":
    main()
