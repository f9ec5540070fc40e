"""The pictures and the table of docs/adapting.md.

    python benchmarks/adapting_figures.py --curves benchmarks/adapting.json --docs docs

writes docs/adapting_loop.svg (notice, ask, adapt) and docs/adapting_curves.svg, and prints the tables.
"""

import argparse
import json
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

N_LABELS = (10, 20, 50, 100, 200)
SHOWN = {"nothing": "#888888", "ours": "#2563eb", "temperature": "#d97706", "isotonic": "#059669"}
TABLE = (
    "nothing",
    "ours",
    "ours, no gate",
    "ours, familiarity unread",
    "one scale",
    "one scale, no gate",
    "temperature",
    "isotonic",
    "scale and bias",
    "scale and shift",
    "ours, stratified",
)
_STEPS = (
    ("Notice", "the inputs are unlike", "the training data"),
    ("Ask", "for 50 labels of inputs", "drawn at random"),
    ("Adapt", "one scale for this domain;", "predictions stay"),
)


def loop() -> str:
    """Return the loop as SVG."""
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 190" font-family="sans-serif" role="img" '
        'aria-label="Notice, ask, adapt: a loop of three steps">',
        '<rect width="720" height="190" fill="white"/>',
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L10 5L0 10z" fill="#444"/></marker></defs>',
    ]
    for number, (name, *lines) in enumerate(_STEPS):
        x = 10 + 245 * number
        parts.append(f'<rect x="{x}" y="30" width="200" height="90" rx="10" fill="#eff6ff" stroke="#2563eb"/>')
        parts.append(f'<text x="{x + 100}" y="60" text-anchor="middle" font-size="20" font-weight="600">{name}</text>')
        for row, line in enumerate(lines):
            y = 84 + 19 * row
            parts.append(f'<text x="{x + 100}" y="{y}" text-anchor="middle" font-size="14">{escape(line)}</text>')
        if number < 2:
            parts.append(f'<path d="M{x + 203} 75H{x + 241}" stroke="#444" stroke-width="2" marker-end="url(#tip)"/>')
    parts.append(
        '<path d="M600 123V160H110V125" fill="none" stroke="#444" stroke-width="2" marker-end="url(#tip)"/>'
        '<text x="355" y="178" text-anchor="middle" font-size="13">until the world moves again</text></svg>'
    )
    return "\n".join(parts) + "\n"


def means(found: dict[str, Any], task: str, metric: str, *, in_domain: bool) -> dict[str, np.ndarray]:
    """Return for each method (seeds, numbers of labels): the mean over sets and draws."""
    values: dict[str, list[np.ndarray]] = {}
    for sets in found[task].values():
        rows: dict[str, list[list[float]]] = {}
        for name, methods in sets.items():
            if (name == "test") == in_domain:
                for method, metrics in methods.items():
                    row = [float(np.mean(draws)) for draws in metrics[metric]]
                    rows.setdefault(method, []).append(row + [np.nan] * (len(N_LABELS) - len(row)))
        for method, found_rows in rows.items():
            values.setdefault(method, []).append(np.nanmean(found_rows, axis=0))
    return {method: np.array(rows) for method, rows in values.items()}


def curves(found: dict[str, Any], target: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "knn-ue"
    from matplotlib import pyplot as plt

    tasks = [task for task in found if means(found, task, "ece", in_domain=False)]
    figure, axes = plt.subplots(2, len(tasks), figsize=(2.6 * len(tasks), 5.2), squeeze=False, sharex=True, sharey=True)
    for row, column in np.ndindex(axes.shape):
        axis, task, in_domain = axes[row][column], tasks[column], bool(row)
        for method, color in SHOWN.items():
            values = means(found, task, "ece", in_domain=in_domain)[method].mean(axis=0)
            axis.plot(N_LABELS, values, marker="o", markersize=3, color=color, label=method)
        axis.set(xscale="log", title=f"{task},\n{'in domain' if in_domain else 'out of domain'}")
        axis.set_xticks(N_LABELS, [str(n) for n in N_LABELS])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        if in_domain:
            axis.set_xlabel("sentences" if "entities" in task else "labels")
    for own in axes:
        own[0].set_ylabel("ECE %")
    axes[0][-1].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})


def table(found: dict[str, Any], metric: str, *, in_domain: bool, digits: int) -> str:
    """Return the Markdown table of one metric: a column per task with 10, 50 and 200 labels."""
    tasks = [task for task in found if means(found, task, metric, in_domain=in_domain)]
    lines = ["| | " + " | ".join(f"{task}, {n}" for task in tasks for n in (10, 50, 200)) + " |"]
    lines.append("| --- |" + " --: |" * (3 * len(tasks)))
    for method in TABLE:
        cells = []
        for task in tasks:
            values = means(found, task, metric, in_domain=in_domain).get(method)
            for n in (10, 50, 200):
                column = np.full(1, np.nan) if values is None else values[:, N_LABELS.index(n)]
                spread = f" ± {column.std(ddof=1):.{digits}f}" if len(column) > 1 else ""
                cells.append(f"{column.mean():.{digits}f}{spread}")
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curves", type=Path, required=True)
    parser.add_argument("--docs", type=Path, required=True)
    options = parser.parse_args()
    found = json.loads(options.curves.read_text())
    (options.docs / "adapting_loop.svg").write_text(loop())
    curves(found, options.docs / "adapting_curves.svg")
    for metric, digits in (("ece", 1), ("nll", 3), ("e_aurc", 1)):
        for in_domain in (False, True):
            print(f"\n{metric}, {'in' if in_domain else 'out of'} domain\n")
            print(table(found, metric, in_domain=in_domain, digits=digits))


if __name__ == "__main__":
    main()
