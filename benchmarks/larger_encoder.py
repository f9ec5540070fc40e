"""Do the conclusions keep with a larger encoder? The leagues of two pages side by side, and how alike they are.

python benchmarks/larger_encoder.py            # prints the table
python benchmarks/larger_encoder.py --write    # puts it into docs/reproducing.md

It reads docs/results_reference.md (MiniLM; a cased DistilBERT for taggers) and docs/results_base.md
(all-mpnet-base-v2), as `knn-ue reproduce all --page` wrote them. A rank is the share of the other methods that do
better, 0 to 100. Only methods that both pages rank are listed; Spearman's correlation is over them.
"""

import argparse

from scipy.stats import spearmanr

from readme_table import with_table
from results_page import DETECTORS, DOCS, LEAGUE, rows, seeds

PAGES = (DOCS / "results_reference.md", DOCS / "results_base.md")
TARGET = DOCS / "reproducing.md"
# Title of each rank, the league it stands in, and its column there.
RANKS = (("in domain", LEAGUE, 2), ("out of domain", LEAGUE, 4), ("OOD detection", DETECTORS, 2))


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
    found = {(title, page): _ranks(page, league, column) for title, league, column in RANKS for page in PAGES}
    shared = {title: set(found[title, PAGES[0]]) & set(found[title, PAGES[1]]) for title, *_ in RANKS}
    first = {title: found[title, PAGES[0]] for title in shared}
    methods = sorted(
        set().union(*shared.values()), key=lambda name: [first[title].get(name, 100.0) for title in shared]
    )
    head = [f"{title}, {words}" for title in shared for words in ("reference", "base")]
    lines = [
        f"| method, rank % ↓ ({seeds(PAGES[0])}; {seeds(PAGES[1])}) | {' | '.join(head)} |",
        f"| --- |{' --: |' * len(head)}",
    ]
    for name in methods:
        cells = [
            f"{found[title, page][name]:.0f}" if name in shared[title] else "" for title in shared for page in PAGES
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    alike = []
    for title, names in shared.items():
        ordered = sorted(names)
        ranks = [[found[title, page][name] for name in ordered] for page in PAGES]
        alike += [f"{spearmanr(*ranks).statistic:.2f}", ""]
    lines.append(f"| *Spearman's correlation of the two* | {' | '.join(alike)} |")
    return "\n".join(lines)


def _ranks(page, league, column):
    """Return the mean rank of each method of a league; one without a number was not measured everywhere."""
    return {row[1].strip("*"): float(row[column].split()[0]) for row in rows(page, league) if row[0].isdigit()}


if __name__ == "__main__":
    main()
