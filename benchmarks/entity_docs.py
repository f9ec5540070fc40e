"""Writes the tables of docs/entity_results.md from the numbers that the benchmarks left; the text around them stays.

    python benchmarks/entity_docs.py [--results benchmarks/entities.json] [--choices benchmarks/entity_choices.json]

A table stands between the lines <!-- table: NAME --> and <!-- end -->.
"""

import argparse
import json
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from entity_tables import OURS

ROOT = Path(__file__).parents[1]
SETS = ("wikineural", "wikigold", "politics", "science", "web", "btc")
PLACES = [f"{domain} > {name}" for domain in ("wikineural", "btc") for name in SETS]
ABROAD = [place for place in PLACES if place.split(" > ")[0] != place.split(" > ")[1]]
# Sets whose gold tags have every type the model knows: only there is a whole sentence right or wrong.
WHOLE = [place for place in PLACES if place.startswith("btc") or not place.endswith(("> web", "> btc"))]
MARK = 2 / 3

Found = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "entities.json")
    parser.add_argument("--choices", type=Path, default=ROOT / "benchmarks" / "entity_choices.json")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "entity_results.md")
    arguments = parser.parse_args()
    found = json.loads(arguments.results.read_text())
    tables: dict[str, Callable[[], list[str]]] = {
        "transfers": lambda: transfers(found),
        "before": lambda: before_and_now(found),
        "ranking": lambda: ranking(found),
        "methods": lambda: methods(found),
        "overall": lambda: overall(found),
        "fewer": lambda: fewer(found),
        "ingredients": lambda: by_place(found, "variants", "all seven"),
        "sizes": lambda: by_place(found, "sizes", "as above"),
        "sentences": lambda: sentences(found),
        "choices": lambda: choices(json.loads(arguments.choices.read_text())),
    }
    text = arguments.page.read_text(encoding="utf-8")
    for name, make in tables.items():
        pattern = rf"(<!-- table: {name} -->\n).*?(<!-- end -->)"
        if re.search(pattern, text, flags=re.DOTALL):
            lines = "\n".join(make())
            text = re.sub(pattern, lambda m, lines=lines: f"{m[1]}\n{lines}\n\n{m[2]}", text, flags=re.DOTALL)
    arguments.page.write_text(text, encoding="utf-8")


def transfers(found: Found) -> list[str]:
    """Return ours against the best other, and whether the mark is met: a third less ECE and no worse E-AURC."""
    lines = [
        "| trained on > tested on | seeds | ECE %: best other | knn-ue-entity | difference (95 %) | if exactly right "
        "| E-AURC ×1000: best other | knn-ue-entity | difference (95 %) | a third less ECE, no worse E-AURC "
        "| the same against products |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|---|---|",
    ]
    for place in (place for place in PLACES if place in found):
        numbers, line = found[place], [place, str(len(found[place]["seeds"][OURS]))]
        for key, digits in (("ece", 1), ("e_aurc", 0)):
            compared, ours = numbers["significance"][key], numbers["methods"][OURS][key]
            best = numbers["methods"][compared["best"]][key]
            cells = [f"{spread(best, digits)} ({compared['best']})", spread(ours, digits)]
            winner = int(ours[0] < best[0])
            cells[winner] = f"**{cells[winner]}**"
            low, high = (signed(compared[side], digits) for side in ("low", "high"))
            line += [*cells, f"{signed(ours[0] - best[0], digits)} ({low} to {high})"]
            line += [f"{numbers['ece_of_luck']:.1f}"] if key == "ece" else []
        best = {key: numbers["significance"][key]["theirs"] for key in ("ece", "e_aurc")}
        marks = ["yes" if met(numbers, which) else "**no**" for which in (best, best_product(numbers))]
        lines.append(row([*line, *(marks if place in ABROAD else ["in domain"] * 2)]))
    return lines


def best_product(numbers: Found) -> dict[str, float]:
    """Return the least ECE and E-AURC of methods that multiply the confidences of words, as the paper does."""
    seeds = numbers["seeds"]
    products = [
        values
        for label, values in numbers["methods"].items()
        if label.endswith(", product")
        and (name := label.split(", ")[0]) not in numbers["unlearned"]
        and seeds[name] == seeds[OURS]
    ]
    return {key: min(values[key][0] for values in products) for key in ("ece", "e_aurc")}


def before_and_now(found: Found) -> list[str]:
    """Return the former design beside today's."""
    lines = ["| | ECE % before | now | E-AURC ×1000 before | now |", "|---|--:|--:|--:|--:|"]
    for place in (place for place in PLACES if place in found):
        was, now = found[place]["variants"]["before"], found[place]["methods"][OURS]
        pairs = [spread(which[key], digits) for key, digits in (("ece", 1), ("e_aurc", 0)) for which in (was, now)]
        lines.append(row([place, *pairs]))
    return lines


def ranking(found: Found) -> list[str]:
    """Return the other metrics: ours and, of all others, the best by that metric."""
    keys = {"auroc": ("AUROC %", max), "brier": ("Brier ×100", min), "f1_at_80": ("F1 % at 80 % coverage", max)}
    heads = [f"{title}: {which}" for title, _ in keys.values() for which in ("best other", "ours")]
    lines = [row(["", *heads]), f"|---|{'--:|' * len(heads)}"]
    for place in (place for place in PLACES if place in found):
        line = [place]
        for key, (_, better) in keys.items():
            out = {OURS, *found[place]["unlearned"]}
            others = [values[key] for name, values in found[place]["methods"].items() if name.split(", ")[0] not in out]
            ours, best = found[place]["methods"][OURS][key], better(others, key=lambda pair: pair[0])
            cells = [spread(best, 1), spread(ours, 1)]
            winner = int(better(ours[0], best[0]) == ours[0])
            cells[winner] = f"**{cells[winner]}**"
            line += cells
        lines.append(row(line))
    return lines


def methods(found: Found) -> list[str]:
    """Return every method with its best aggregate on each set: ECE / E-AURC, means over seeds."""
    places = [place for place in PLACES if place in found]
    names = dict.fromkeys(label.split(", ")[0] for place in places for label in found[place]["methods"])
    lines = [row(["", *places]), f"|---|{'--:|' * len(places)}"]
    for name in names:
        cells = []
        for place in places:
            mine = [values for label, values in found[place]["methods"].items() if label.split(", ")[0] == name]
            least = [min((values[key][0] for values in mine), default=None) for key in ("ece", "e_aurc")]
            failed = found[place]["unlearned"].get(name)
            remark = "" if failed is None else f" (F1 {failed:.0f})"
            cells.append("–" if least[0] is None else f"{least[0]:.1f} / {least[1]:.0f}{remark}")
        lines.append(row([name, *cells]))
    return lines


def overall(found: Found) -> list[str]:
    """Return every method with one way over words for all sets, the one of the least mean ECE out of domain."""
    places = [place for place in ABROAD if place in found]
    failed = {name for place in places for name in found[place]["unlearned"]}
    table: dict[str, tuple[str, list[str]]] = {}
    least: dict[str, float] = {}
    for label in found[places[0]]["methods"]:
        name = label.split(", ")[0]
        if name in failed or any(label not in found[place]["methods"] for place in PLACES if place in found):
            continue
        ece, e_aurc = ([found[place]["methods"][label][key][0] for place in places] for key in ("ece", "e_aurc"))
        if statistics.mean(ece) < least.get(name, float("inf")):
            least[name] = statistics.mean(ece)
            home = [
                found[place]["methods"][label]["ece"][0] for place in PLACES if place in found and place not in ABROAD
            ]
            numbers = [f"{statistics.mean(ece):.1f}", f"{min(ece):.1f}", f"{max(ece):.1f}"]
            table[name] = label, [*numbers, f"{statistics.mean(e_aurc):.0f}", " / ".join(f"{x:.1f}" for x in home)]
    heads = ["ECE %, mean", "least", "most", "E-AURC ×1000, mean", "ECE % in domain (wikineural / btc)"]
    lines = [row(["", *heads]), f"|---|{'--:|' * len(heads)}"]
    return lines + [row([table[name][0], *table[name][1]]) for name in sorted(least, key=least.__getitem__)]


def fewer(found: Found) -> list[str]:
    """Return slow methods, which were run on fewer sentences, and ours on the same ones."""
    names = list(dict.fromkeys(name for place in PLACES if place in found for name in found[place]["fewer"]))
    first = {name: next(found[p]["fewer"][name] for p in PLACES if name in found[p]["fewer"]) for name in names}
    heads = [
        f"{name}, {first[name]['n_sentences']} sentences, {first[name]['seeds']} seeds: {title}"
        for name in names
        for title in ("ECE % theirs / ours", "E-AURC ×1000 theirs / ours")
    ]
    lines = [row(["", *heads]), f"|---|{'--:|' * len(heads)}"]
    for place in (place for place in PLACES if place in found and found[place]["fewer"]):
        cells = []
        for name in names:
            numbers = found[place]["fewer"].get(name)
            for key, digits in (("ece", 1), ("e_aurc", 0)):
                cells.append("–" if numbers is None else " / ".join(f"{x:.{digits}f}" for x in numbers[key]))
        lines.append(row([place, *cells]))
    return lines


def by_place(found: Found, part: str, own: str) -> list[str]:
    """Return ECE / E-AURC of each variant or size, one column a place."""
    places = [place for place in PLACES if place in found]
    names = list(dict.fromkeys(name for place in places for name in found[place][part]))
    lines = [row(["", *places]), f"|---|{'--:|' * len(places)}"]
    table = {own: {place: found[place]["methods"][OURS] for place in places}}
    table |= {name: {place: found[place][part].get(name) for place in places} for name in names}
    for name, values in table.items():
        cells = ["–" if v is None else f"{v['ece'][0]:.1f} / {v['e_aurc'][0]:.0f}" for v in values.values()]
        lines.append(row([name, *cells]))
    return lines


def sentences(found: Found) -> list[str]:
    """Return how honest the scores of sentences are, and how useful the warnings."""
    heads = {
        "share_right": "all right %",
        "raw_ece": "ECE %, product of all words",
        "ours_ece": "ECE %, ours",
        "raw_auroc": "AUROC %, product",
        "ours_auroc": "AUROC %, ours",
        "warnings": "warnings",
        "warnings_right": "of these right %",
        "missed_caught": "missed ones found %",
    }
    lines = [row(["", *heads.values()]), f"|---|{'--:|' * len(heads)}"]
    for place in (place for place in WHOLE if place in found):
        numbers = found[place]["sentences"]
        lines.append(row([place, *(spread(numbers[key], 0 if key == "warnings" else 1) for key in heads)]))
    return lines


def choices(found: Found) -> list[str]:
    """Return the designs tried: ECE / E-AURC / log-loss, mean over the seeds of a domain and the strange styles."""
    domains = list(dict.fromkeys(cell.rsplit("-", 1)[0] for cell in found))
    heads = [f"{domain}, {kind}" for domain in domains for kind in ("plain", "strange")]
    lines = [row(["", *heads]), f"|---|{'--:|' * len(heads)}"]
    for name, styles in next(iter(found.values())).items():
        line = [name]
        for domain in domains:
            cells = [cell[name] for key, cell in found.items() if key.startswith(f"{domain}-")]
            for chosen in (["plain"], [style for style in styles if style != "plain"]):
                means = [statistics.mean(cell[style][i] for cell in cells for style in chosen) for i in range(3)]
                line.append("{:.1f} / {:.0f} / {:.3f}".format(*means))
        lines.append(row([f"**{part}**" for part in line] if name.startswith("chosen:") else line))
    return lines


def met(numbers: Found, best: dict[str, float]) -> bool:
    ours = numbers["methods"][OURS]
    return bool(ours["ece"][0] <= MARK * best["ece"] and ours["e_aurc"][0] <= best["e_aurc"])


def spread(pair: list[float], digits: int) -> str:
    return f"{pair[0]:.{digits}f} ± {pair[1]:.{digits}f}"


def signed(number: float, digits: int) -> str:
    return f"{number:+.{digits}f}".replace("-", "−")


def row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
