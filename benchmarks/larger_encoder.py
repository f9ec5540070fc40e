"""Do the conclusions keep with a larger encoder? The leagues of two pages side by side, and how alike they are.

python benchmarks/larger_encoder.py            # prints the table
python benchmarks/larger_encoder.py --write    # puts it into docs/reproducing.md

It reads docs/results_reference.md (MiniLM) and docs/results_base.md (all-mpnet-base-v2), as `knn-ue reproduce all
--page` wrote them, and ranks the methods that both pages measured on the test sets that both have: no taggers, which
the larger encoder was not trained as. A rank is the share of the other methods that do better in a column (ECE, E-AURC
and Brier score of a test set, or AUROC and FPR@95 of OOD detection), as a mean over columns, 0 to 100.
"""

import argparse

import numpy as np
from scipy.stats import spearmanr

from readme_table import with_table
from results_page import DOCS, numbers, seeds

PAGES = (DOCS / "results_reference.md", DOCS / "results_base.md")
TARGET = DOCS / "reproducing.md"
TASKS = ("sentiment", "nli", "intent")
# The section of the page (a task where it is None), the title of the column, and whether high is good.
SCORED = ((None, "ECE % ↓", False), (None, "E-AURC (our definition) ×1000 ↓", False), ("newer", "Brier % ↓", False))
DETECTED = (("detection", "AUROC % ↑", True), ("detection", "FPR@95 % ↓", False))


def main() -> None:
    """Print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    if not parser.parse_args().write:
        print(table())
        return
    text = with_table(TARGET.read_text(encoding="utf-8"), "larger encoder", table())
    TARGET.write_text(text, encoding="utf-8")


def table() -> str:
    """Return the Markdown of the table."""
    inside = {next(iter(numbers(PAGES[0], task, SCORED[0][1]))) for task in TASKS}
    detected = set(numbers(PAGES[0], *DETECTED[0][:2]))
    labeled = {name for task in TASKS for name in numbers(PAGES[0], task, SCORED[0][1])}
    found = {
        "in domain": _ranks(SCORED, inside),
        "out of domain": _ranks(SCORED, labeled & detected),
        "OOD detection": _ranks(DETECTED, detected),
    }
    methods = sorted(
        dict.fromkeys(name for ranked in found.values() for name in ranked),
        key=lambda name: [ranked[name][0] if name in ranked else 100.0 for ranked in found.values()],
    )
    head = [f"{title}, {words}" for title in found for words in ("reference", "base")]
    lines = [
        f"| method, rank % ↓ ({seeds(PAGES[0])}; {seeds(PAGES[1])}) | {' | '.join(head)} |",
        f"| --- |{' --: |' * len(head)}",
    ]
    for name in methods:
        ranks = [rank for ranked in found.values() for rank in ranked.get(name, (None, None))]
        cells = ["" if rank is None else f"{100 * rank:.0f}" for rank in ranks]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    alike = [
        text
        for ranked in found.values()
        for text in (f"{spearmanr(*zip(*ranked.values(), strict=True)).statistic:.2f}", "")
    ]
    lines.append(f"| *Spearman's correlation of the two* | {' | '.join(alike)} |")
    return "\n".join(lines)


def _ranks(columns, sets):
    """Return the mean rank of each method on both pages, of the methods and sets that both have."""
    by_page = [_columns(page, columns, sets) for page in PAGES]
    shared = by_page[0].keys() & by_page[1].keys()
    measured = [set.intersection(*(set(found[column]) for column in shared)) for found in by_page]
    methods = [name for name in by_page[0][min(shared)] if name in measured[0] & measured[1]]
    ranks = [np.mean([_rank(found[column], methods) for column in sorted(shared)], axis=0) for found in by_page]
    return dict(zip(methods, zip(*ranks, strict=True), strict=True))


def _columns(page, columns, sets):
    """Return numbers where low is good by method, for each measure and set."""
    found = {}
    for section, title, high in columns:
        for part in (section,) if section else TASKS:
            for name, values in numbers(page, part, title).items():
                if name in sets:
                    found[title, name] = {method: -value if high else value for method, value in values.items()}
    return found


def _rank(values, methods):
    """Return the share of the other methods that are better; equal ones count half."""
    chosen = np.array([values[method] for method in methods])
    better = (chosen[None] < chosen[:, None]).sum(axis=1) + 0.5 * ((chosen[None] == chosen[:, None]).sum(axis=1) - 1)
    return better / (len(methods) - 1)


if __name__ == "__main__":
    main()
