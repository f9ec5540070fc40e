"""Writes the tables of docs/entity_results.md from the numbers that the benchmarks left; the text around them stays.

    python benchmarks/entity_docs.py [--results benchmarks/entities.json] [--choices benchmarks/entity_choices.json]

`--trained` has the methods that train the model in their own way, and slow ones, as measured earlier.
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
from knn_ue.entities import INGREDIENTS

ROOT = Path(__file__).parents[1]
SETS = ("wikineural", "wikigold", "politics", "science", "web", "btc")
PLACES = [f"{domain} > {name}" for domain in ("wikineural", "btc") for name in SETS]
ABROAD = [place for place in PLACES if place.split(" > ")[0] != place.split(" > ")[1]]
# Sets whose gold tags have every type the model knows: only there is a whole sentence right or wrong.
WHOLE = [place for place in PLACES if place.startswith("btc") or not place.endswith(("> web", "> btc"))]
MARK = 2 / 3
PLAIN = "plain"

Found = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "entities.json")
    parser.add_argument("--trained", type=Path, default=ROOT / "benchmarks" / "entities_trained.json")
    parser.add_argument("--choices", type=Path, default=ROOT / "benchmarks" / "entity_choices.json")
    parser.add_argument("--warnings", type=Path, default=ROOT / "benchmarks" / "entity_warnings.json")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "entity_results.md")
    arguments = parser.parse_args()
    found, trained = (json.loads(file.read_text()) for file in (arguments.results, arguments.trained))
    tables: dict[str, Callable[[], list[str]]] = {
        "transfers": lambda: transfers(found),
        "overall": lambda: overall(found),
        "trained": lambda: overall(trained),
        "fewer": lambda: fewer(trained),
        "ingredients": lambda: varied(found, "variants", f"all {len(INGREDIENTS)}"),
        "sizes": lambda: varied(found, "sizes", "as above"),
        "sentences": lambda: sentences(found),
        "choices": lambda: choices(json.loads(arguments.choices.read_text())),
        "thresholds": lambda: thresholds(json.loads(arguments.warnings.read_text())),
        "warnings": lambda: warnings(json.loads(arguments.warnings.read_text())),
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


def overall(found: Found) -> list[str]:
    """Return every method with one way over words for all sets, the one of the least mean ECE out of domain."""
    places = [place for place in ABROAD if place in found]
    inside = [place for place in PLACES if place in found and place not in ABROAD]
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
            home = [found[place]["methods"][label]["ece"][0] for place in inside]
            numbers = [f"{statistics.mean(ece):.1f}", f"{min(ece):.1f}", f"{max(ece):.1f}"]
            table[name] = label, [*numbers, f"{statistics.mean(e_aurc):.0f}", " / ".join(f"{x:.1f}" for x in home)]
    domains = " / ".join(place.split(" > ")[0] for place in inside)
    heads = ["ECE %, mean", "least", "most", "E-AURC ×1000, mean", f"ECE % in domain ({domains})"]
    lines = [row(["", *heads]), f"|---|{'--:|' * len(heads)}"]
    return lines + [row([table[name][0], *table[name][1]]) for name in sorted(least, key=least.__getitem__)]


def fewer(found: Found) -> list[str]:
    """Return slow methods, which were run on fewer sentences, and ours on the same ones."""
    names = list(dict.fromkeys(name for place in PLACES if place in found for name in found[place]["fewer"]))
    first = {name: next(x["fewer"][name] for x in found.values() if name in x["fewer"]) for name in names}
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


def varied(found: Found, part: str, own: str) -> list[str]:
    """Return ECE / E-AURC of each variant or size: each model in domain, and its mean over the other sets."""
    kinds = {
        f"{domain}, {words}": [p for p in PLACES if p in found and p.startswith(f"{domain} >") and (p in ABROAD) == far]
        for domain in ("wikineural", "btc")
        for words, far in (("in domain", False), ("out of domain", True))
    }
    names = list(dict.fromkeys(name for place in found for name in found[place][part]))
    table = {own: {place: found[place]["methods"][OURS] for place in found}}
    table |= {
        name: {place: found[place][part][name] for place in found if name in found[place][part]} for name in names
    }
    lines = [row(["", *kinds]), f"|---|{'--:|' * len(kinds)}"]
    for name, values in table.items():
        cells = []
        for places in kinds.values():
            known = [values[place] for place in places if place in values]
            ece, e_aurc = (statistics.mean(v[key][0] for v in known) if known else None for key in ("ece", "e_aurc"))
            cells.append("–" if ece is None else f"{ece:.1f} / {e_aurc:.0f}")
        lines.append(row([name, *cells]))
    return lines


def sentences(found: Found) -> list[str]:
    """Return how honest the scores of sentences are."""
    heads = {
        "share_right": "all right %",
        "raw_ece": "ECE %, product of all words",
        "ours_ece": "ECE %, ours",
        "raw_auroc": "AUROC %, product",
        "ours_auroc": "AUROC %, ours",
    }
    lines = [row(["", *heads.values()]), f"|---|{'--:|' * len(heads)}"]
    for place in (place for place in WHOLE if place in found):
        numbers = found[place]["sentences"]
        lines.append(row([place, *(spread(numbers[key], 1) for key in heads)]))
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


def thresholds(found: Found) -> list[str]:
    """Return the share of right warnings and of missed entities found, mean over seeds and styles."""
    found = {name: cell for name, cell in found.items() if "choices" in cell}
    domains = list(dict.fromkeys(cell.rsplit("-", 1)[0] for cell in found))
    heads = [f"{domain}, {kind}" for domain in domains for kind in ("plain", "perturbed")]
    lines = [row(["warnings right % / found %", *heads]), f"|---|{'--:|' * len(heads)}"]
    for name in next(iter(found.values()))["choices"][PLAIN]:
        cells = []
        for domain in domains:
            own = [cell["choices"] for key, cell in found.items() if key.startswith(f"{domain}-")]
            for plain in (True, False):
                numbers = [rates(x[name]) for one in own for style, x in one.items() if (style == PLAIN) == plain]
                cells.append(" / ".join(f"{statistics.mean(column):.0f}" for column in zip(*numbers, strict=True)))
        lines.append(row([f"{name} case" if name == "without" else f"with case, from {name} on", *cells]))
    return lines


def warnings(found: Found) -> list[str]:
    """Return both fits on every set, mean ± deviation over seeds, and the means over transfers of each model."""
    columns = [f"{head} {kind}" for head in ("warnings right %", "found %") for kind in ("without", "with")]
    lines = [row(["", "seeds", *columns, "found, ratio"]), f"|---|--:|{'--:|' * (len(columns) + 1)}"]
    places = list(dict.fromkeys(place for cell in found.values() for place in cell["transfers"]))
    means: dict[str, list[list[float]]] = {}
    for place in places:
        own = [cell["transfers"][place] for cell in found.values() if place in cell["transfers"]]
        values = [[rates(one[kind])[which] for one in own] for which in (0, 1) for kind in ("without", "with")]
        lines.append(row([place, str(len(own)), *map(deviating, values), ratio([statistics.mean(x) for x in values])]))
        domain, set_name = place.split(" > ")
        if domain != set_name:
            for mean in (f"{domain}, mean of transfers", "mean of all transfers"):
                means.setdefault(mean, []).append([statistics.mean(x) for x in values])
    for name in sorted(means, key=lambda name: name.startswith("mean")):
        total = [statistics.mean(column) for column in zip(*means[name], strict=True)]
        lines.append(row([f"**{name}**", "", *(f"{x:.1f}" for x in total), ratio(total)]))
    return lines


def rates(counts: dict[str, int]) -> tuple[float, float]:
    return 100 * counts["right"] / max(1, counts["n"]), 100 * counts["caught"] / max(1, counts["missed"])


def ratio(values: list[float]) -> str:
    return f"{values[3] / values[2]:.1f}" if values[2] else "–"


def deviating(values: list[float]) -> str:
    mean = f"{statistics.mean(values):.1f}"
    return f"{mean} ± {statistics.stdev(values):.1f}" if len(values) > 1 else mean


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
