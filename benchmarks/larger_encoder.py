"""Do the conclusions keep with another encoder? The leagues of two pages side by side, and how alike they are.

python benchmarks/larger_encoder.py            # prints both tables
python benchmarks/larger_encoder.py --write    # puts them into docs/reproducing.md

It reads pages of docs as `knn-ue reproduce all --page` wrote them: of texts results_reference.md (MiniLM) and
results_base.md (all-mpnet-base-v2), of tags results_reference.md (a cased DistilBERT) and results.md (MiniLM, which
reads no case). It ranks the methods that both pages measured on the test sets that both have. A rank is the share of
the other methods that do better in a column (ECE, E-AURC and, of texts, Brier score of a test set, or AUROC and FPR@95
of OOD detection), as a mean over columns, 0 to 100.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from readme_table import with_table
from results_page import DOCS, numbers, seeds

TARGET = DOCS / "reproducing.md"
# The section of the page (a task where it is None), the title of the column, and whether high is good.
_ECE, _E_AURC = (None, "ECE % ↓", False), (None, "E-AURC (our definition) ×1000 ↓", False)
DETECTED = (("detection", "AUROC % ↑", True), ("detection", "FPR@95 % ↓", False))


@dataclass(frozen=True, kw_only=True)
class Encoders:
    """Two pages of the same tasks, each with the words for it; `unlabeled` sets are for OOD detection only."""

    pages: dict[str, Path]
    tasks: tuple[str, ...]
    scored: tuple[tuple[str | None, str, bool], ...]
    unlabeled: frozenset[str] = frozenset()


TABLES = {
    "larger encoder": Encoders(
        pages={"reference": DOCS / "results_reference.md", "base": DOCS / "results_base.md"},
        tasks=("sentiment", "nli", "intent"),
        scored=(_ECE, _E_AURC, ("newer", "Brier % ↓", False)),
        unlabeled=frozenset({"dynasent-yelp neutral", "clinc150 oos"}),
    ),
    "two taggers": Encoders(
        pages={"reference": DOCS / "results_reference.md", "small": DOCS / "results.md"},
        tasks=("ner",),
        scored=(_ECE, _E_AURC),
    ),
}


def main() -> None:
    """Print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    if not parser.parse_args().write:
        print("\n\n".join(table(chosen) for chosen in TABLES.values()))
        return
    text = TARGET.read_text(encoding="utf-8")
    for name, chosen in TABLES.items():
        text = with_table(text, name, table(chosen))
    TARGET.write_text(text, encoding="utf-8")


def table(chosen: Encoders) -> str:
    """Return the Markdown of a table."""
    first, second = chosen.pages.values()
    by_task = [numbers(first, task, _ECE[1]) for task in chosen.tasks]
    inside, labeled = ({next(iter(found)) for found in by_task}, {name for found in by_task for name in found})
    detected = {name for page in chosen.pages.values() for name in numbers(page, *DETECTED[0][:2])}
    detected &= labeled | chosen.unlabeled
    found = {
        "in domain": _ranks(chosen, chosen.scored, inside),
        "out of domain": _ranks(chosen, chosen.scored, labeled & detected),
        "OOD detection": _ranks(chosen, DETECTED, detected),
    }
    methods = sorted(
        dict.fromkeys(name for ranked in found.values() for name in ranked),
        key=lambda name: [ranked[name][0] if name in ranked else 100.0 for ranked in found.values()],
    )
    head = [f"{title}, {words}" for title in found for words in chosen.pages]
    lines = [
        f"| method, rank % ↓ ({seeds(first)}; {seeds(second)}) | {' | '.join(head)} |",
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


def _ranks(chosen, columns, sets):
    """Return the mean rank of each method on both pages, of the methods and sets that both have."""
    by_page = [_columns(page, chosen.tasks, columns, sets) for page in chosen.pages.values()]
    shared = by_page[0].keys() & by_page[1].keys()
    measured = [set.intersection(*(set(found[column]) for column in shared)) for found in by_page]
    methods = [name for name in by_page[0][min(shared)] if name in measured[0] & measured[1]]
    ranks = [np.mean([_rank(found[column], methods) for column in sorted(shared)], axis=0) for found in by_page]
    return dict(zip(methods, zip(*ranks, strict=True), strict=True))


def _columns(page, tasks, columns, sets):
    """Return numbers where low is good by method, for each measure and set."""
    found = {}
    for section, title, high in columns:
        for part in (section,) if section else tasks:
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
