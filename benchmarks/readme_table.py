"""Tables from committed results: of README.md (entities, rivals, detectors) and of docs/choosing_a_method.md.

python benchmarks/readme_table.py                      # prints that of entities
python benchmarks/readme_table.py --table rivals       # prints another one
python benchmarks/readme_table.py --write              # puts each into its page

A number is the mean over sets; what follows it is the standard deviation of that mean over splits of store and
validation, for spaCy. "Best rival" is the one method with the lowest mean ECE out of domain. Rivals and detectors are
read from docs/results_reference.md, as `knn-ue reproduce all --scale reference --page` wrote it: the plain softmax,
temperature scaling and the methods of others that stand highest in the league, of texts alone, of all tasks and of all
tasks out of domain; familiarity, the best detector of others by mean AUROC, and the softmax, with the place of
familiarity by mean rank.
"""

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from results_page import DETECTORS, DOCS, LEAGUE, rows, seeds

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
RESULTS = DOCS / "results_reference.md"
_SHOWN = {
    "beam": "spaCy's beam score",
    "beam, Platt-scaled": "the same, Platt-scaled",
    "knn-ue-entity": "**knn-ue-entity**",
}


def main() -> None:
    """Print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--table", choices=TABLES, default="entities")
    chosen = parser.parse_args()
    if not chosen.write:
        print(TABLES[chosen.table][1]())
        return
    for name, (page, make) in TABLES.items():
        page.write_text(with_table(page.read_text(encoding="utf-8"), name, make()), encoding="utf-8")


def table() -> str:
    """Return the Markdown of the table."""
    lines = [
        "| model | score | ECE %, in domain | out of domain | E-AURC ×1000, in domain | out of domain |",
        "| --- | --- | --: | --: | --: | --: |",
    ]
    spacy = json.loads((HERE / "spacy_entities.json").read_text())["models"]
    for name, shown in (("sm", "spaCy `en_core_web_sm`"), ("md", "spaCy `en_core_web_md`")):
        for method, words in _SHOWN.items():
            lines.append(_line(shown, words, _of_spacy(spacy[name]["methods"][method])))
            shown = ""
    transfers = json.loads((HERE / "entities.json").read_text())
    n_seeds = min(
        len(found["seeds"][method]) for found in transfers.values() for method in ("softmax", "knn-ue-entity")
    )
    shown = f"MiniLM tagger, {n_seeds} seeds"
    for method, words in _tagger_rows(transfers).items():
        lines.append(_line(shown, words, _of_transfers(transfers, method)))
        shown = ""
    return "\n".join(lines)


def rivals() -> str:
    """Return the Markdown of wins / ties / losses of ours against three methods to five, of texts and of entities."""
    texts = {row[0]: row[1:3] for row in rows(RESULTS, "Texts alone: ours against each method")}
    entities = {row[0]: row[5:7] for row in rows(RESULTS, "Ours against each method")}
    shown = {"softmax": "`softmax`", "temperature": "`temperature`"}
    # Ours are in bold, and methods that were not measured in every column have no number.
    league, of_texts = (
        [row for row in rows(RESULTS, title) if not row[1].startswith("**") and row[0] != "–"]
        for title in (LEAGUE, "Texts alone: league")
    )
    outside = min(league, key=lambda row: int(row[4].split()[0]))
    for best, words in ((of_texts[0], "on texts"), (league[0], "on all tasks"), (outside, "out of domain")):
        few = "" if f"{best[7]} seeds" == seeds(RESULTS) else f" ({best[7]} seeds)"
        shown.setdefault(best[1], f"`{best[1]}`, the best other method {words}{few}")
    return "\n".join(
        [
            f"| against, {seeds(RESULTS)} | knn-ue on texts, in domain | out of domain "
            "| knn-ue-entity on entities, in domain | out of domain |",
            "| --- | --: | --: | --: | --: |",
            *(f"| {words} | {' | '.join([*texts[name], *entities[name]])} |" for name, words in shown.items()),
        ]
    )


def against_temperature() -> str:
    """Return the Markdown of wins / ties / losses against temperature scaling on each page of results."""
    lines = []
    for name, words in (
        ("reference", "stronger models"),
        ("base", "a larger encoder"),
        ("vader", "sentiment only, without data files"),
    ):
        page = DOCS / f"results_{name}.md"
        text = page.read_text(encoding="utf-8")
        has_tags = "Texts alone: ours" in text
        of_texts = {
            row[0]: row[1:3] for row in rows(page, f"{'Texts alone: ours' if has_tags else 'Ours'} against each method")
        }
        entities = {row[0]: row[5:7] for row in rows(page, "Ours against each method")}
        counts = [*of_texts["temperature"], *(entities["temperature"] if has_tags else ("–", "–"))]
        lines.append(f"| {words} ([{name}]({page.name})) | {seeds(page).split()[0]} | {' | '.join(counts)} |")
    return "\n".join(
        [
            "| | seeds | `knn-ue` on texts, in domain | out of domain "
            "| `knn-ue-entity` on entities, in domain | out of domain |",
            "| --- | --: | --: | --: | --: | --: |",
            *lines,
        ]
    )


def detectors() -> str:
    """Return the sentence on familiarity, the best detector of others and the softmax."""
    league = rows(RESULTS, DETECTORS)
    auroc = {row[1].strip("*"): float(row[4]) for row in league if row[4] != "–"}
    others = [name for name in auroc if name != "familiarity" and not name.startswith("knn-ue")]
    best = max(others, key=auroc.__getitem__)
    places = {row[1].strip("*"): int(row[0]) for row in league if row[0] != "–"}
    first = ", ".join(f"`{name}`" for name, place in places.items() if place == 1 and name != "familiarity")
    behind = f" ({first} is first)" if places["familiarity"] > 1 else ""
    easy, apart = _apart_from_length()
    return (
        f"As an OOD detector, familiarity is number {places['familiarity']} of {len(places)} by mean rank over sets"
        f"{behind}, with a mean AUROC of {auroc['familiarity']:.1f} %; the best other, `{best}`, has {auroc[best]:.1f} "
        f"% and the softmax {auroc['softmax']:.1f} % ([{seeds(RESULTS)}](docs/results_reference.md)). On {easy} sets "
        f"of texts, the number of words alone detects too; without them, the mean AUROC is {apart} (wins / ties / "
        "losses; [more sets, with matching lengths](docs/familiarity_results.md))."
    )


def _apart_from_length() -> tuple[str, str]:
    """Return on how many sets of texts the length alone detects, and the means on all other sets, as the page says."""
    found = re.search(
        r"On (\d+ of \d+) sets of texts the number of words alone .*?; without them, the mean AUROC is (.*?)\.\n",
        RESULTS.read_text(encoding="utf-8"),
    )
    if found is None:
        raise SystemExit(f"{RESULTS.name} does not say what the number of words detects")
    return found[1], found[2]


def with_table(text: str, name: str, content: str) -> str:
    """Return a page with the table in its place, unchanged where it has none."""
    place = re.compile(rf"(<!-- table: {name} -->\n+).*?(\n+<!-- end -->)", re.DOTALL)
    return place.sub(lambda match: match[1] + content + match[2], text)


def _line(model: str, words: str, cells: list[str]) -> str:
    return f"| {model} | {words} | {' | '.join(cells)} |"


def _of_spacy(seeds: list[Mapping[str, Mapping[str, float]]]) -> list[str]:
    cells = []
    for metric in ("ece", "e_aurc"):
        for inside in (True, False):
            means = [
                np.mean([x[metric] for name, x in seed.items() if (name == "WikiNEuRal") == inside]) for seed in seeds
            ]
            cells.append(_shown(float(np.mean(means)), float(np.std(means, ddof=1)), metric))
    return cells


def _tagger_rows(transfers: Mapping[str, Any]) -> dict[str, str]:
    """Return the methods to show: the rival is the one with the lowest mean ECE out of domain."""
    known = [set(found["methods"]) for found in transfers.values()]
    rivals = sorted(set.intersection(*known) - {"knn-ue-entity"})
    best = min(rivals, key=lambda method: float(_mean(transfers, method, "ece", inside=False)))
    return {
        "softmax, product": "softmax",
        "temperature, product": "temperature",
        best: f"best of {len(rivals)} others: {best} over words",
        "knn-ue-entity": "**knn-ue-entity**",
    }


def _mean(transfers: Mapping[str, Any], method: str, metric: str, *, inside: bool) -> float:
    chosen = [x["methods"][method][metric][0] for name, x in transfers.items() if _is_inside(name) == inside]
    return float(np.mean(chosen))


def _of_transfers(transfers: Mapping[str, Any], method: str) -> list[str]:
    return [
        _shown(_mean(transfers, method, metric, inside=inside), None, metric)
        for metric in ("ece", "e_aurc")
        for inside in (True, False)
    ]


def _is_inside(transfer: str) -> bool:
    trained, tested = transfer.split(" > ")
    return trained == tested


def _shown(mean: float, spread: float | None, metric: str) -> str:
    digits = 1 if metric == "ece" else 0
    return f"{mean:.{digits}f}" + ("" if spread is None else f" ± {spread:.{digits}f}")


TABLES = {
    "entities": (README, table),
    "rivals": (README, rivals),
    "detectors": (README, detectors),
    "temperature": (DOCS / "choosing_a_method.md", against_temperature),
}

if __name__ == "__main__":
    main()
