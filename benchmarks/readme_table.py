"""The table of README.md, from committed results: entity confidence in and out of domain, ours against others.

python benchmarks/readme_table.py          # prints it
python benchmarks/readme_table.py --write  # puts it into README.md

A number is the mean over sets; what follows it is the standard deviation over seeds (splits of store and validation for
spaCy) of that mean. "Best rival" is the one method with the lowest mean out of domain, by each metric.
"""

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
_MARKED = re.compile(r"(<!-- table: entities -->\n\n).*?(\n\n<!-- end -->)", re.DOTALL)
_SHOWN = {
    "beam": "spaCy's beam score",
    "beam, Platt-scaled": "the same, Platt-scaled",
    "knn-ue-entity": "**knn-ue-entity**",
}


def main() -> None:
    """Print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    content = table()
    if parser.parse_args().write:
        README.write_text(with_table(README.read_text(encoding="utf-8"), content), encoding="utf-8")
    else:
        print(content)


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
    shown = "MiniLM tagger"
    for method, words in _tagger_rows(transfers).items():
        lines.append(_line(shown, words, _of_transfers(transfers, method)))
        shown = ""
    return "\n".join(lines)


def with_table(text: str, content: str) -> str:
    """Return the README with the table in its place."""
    changed, found = _MARKED.subn(lambda match: match[1] + content + match[2], text)
    if found != 1:
        raise SystemExit("README.md has no place for the table")
    return changed


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
        best: f"best of {len(rivals)} rivals: {best} over words",
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


if __name__ == "__main__":
    main()
