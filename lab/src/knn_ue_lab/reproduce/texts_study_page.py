"""The page of the study of open models: three sentences, a table for each world and reader, 50 labels."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

Cell = tuple[str, int, str, Mapping[str, Mapping[str, Any]]]  # judged model, seeds, reader, measures
_SHOWN = ("softmax", "temperature", "temperature + verifier", "knn-ue", "knn-ue + verifier")
_BETTER = "bge-small"
_COMMAND = """```sh
python -m knn_ue_lab.reproduce.texts_study --data DATA --answers lab/cells --work WORK \\
    --reader instant --reader bge-small=FOLDER --page docs/verifier_texts_results.md
```"""


def page(cells: Sequence[Cell]) -> str:
    """Return the page as Markdown."""
    lines = ["# The verifier beside open models", "", *_sentences(cells), "", _COMMAND, "", *_explained(), ""]
    if losses := list(_losses(cells)):
        lines += [f"Where it loses against temperature scaling, reader {_BETTER}:", "", *losses, ""]
    for judged, n_seeds, reader, cell in cells:
        lines += [f"## {judged}, reader {reader}", "", *_table(cell, n_seeds), ""]
    return "\n".join(lines).rstrip() + "\n"


def _explained() -> Iterator[str]:
    yield "E-AURC x1000 / Brier x100 / ECE in %, lower is better, mean over seeds of the judged model (± standard"
    yield "deviation of E-AURC). The first set is in domain, the others are not; nothing was tuned on them. The reader"
    yield "learned from 500 training rows; the join is fitted on half of the in-domain rows, which are not scored. With"
    yield "50 labels a verifier learned from rows of the set itself (`knn-ue adapt --verifier`), mean of three draws."


def _losses(cells: Sequence[Cell]) -> Iterator[str]:
    """Name each set and measure that the better reader makes worse."""
    for judged, _, reader, cell in cells:
        if reader != _BETTER:
            continue
        for name, found in cell.items():
            before, after = (np.mean(found[method], axis=0) for method in _SHOWN[1:3])
            worse = [
                f"{measure} {before[n]:.{min(n, 1)}f} -> {after[n]:.{min(n, 1)}f}"
                for n, measure in enumerate(("E-AURC", "Brier", "ECE"))
                if after[n] > before[n]
            ]
            if worse:
                yield f"* {judged}, {name}: {', '.join(worse)}"


def _sentences(cells: Sequence[Cell]) -> Iterator[str]:
    for number, (reader, word) in enumerate(((_BETTER, "helps"), ("instant", "does not help")), start=1):
        found = [cell for cell in cells if cell[2] == reader]
        if not found:
            continue
        gaps = [(judged, *(_out_of_domain(cell, name) for name in _SHOWN[1:3])) for judged, _, _, cell in found]
        told = "; ".join(f"{judged}: {before:.0f} -> {after:.0f}" for judged, before, after in gaps)
        yield f"{number}. The reader {reader} {word} out of domain. E-AURC x1000 against temperature scaling: {told}."
    found = [cell for cell in cells if cell[2] == _BETTER]
    labeled = "temperature + verifier, 50 labels"
    gaps = [(judged, _out_of_domain(cell, _SHOWN[1]), _out_of_domain(cell, labeled)) for judged, _, _, cell in found]
    told = "; ".join(f"{judged}: {before:.0f} -> {after:.0f}" for judged, before, after in gaps)
    yield f"3. With 50 labels of the new domain, reader {_BETTER}: {told}."


def _out_of_domain(cell: Mapping[str, Mapping[str, Any]], method: str, measure: int = 0) -> float:
    """Return the mean over the sets but the first."""
    means = [np.mean(found[method], axis=0)[measure] for found in list(cell.values())[1:]]
    return float(np.mean(means))


def _table(cell: Mapping[str, Mapping[str, Any]], n_seeds: int) -> Iterator[str]:
    sets = list(cell)
    yield f"{n_seeds} seeds."
    yield ""
    yield "| method | " + " | ".join(sets) + " | mean out of domain |"
    yield "| --- |" + " --: |" * (len(sets) + 1)
    adapted = [name for name in cell[sets[-1]] if name.endswith("labels")]
    for method in (*_SHOWN, *adapted):
        shown = [_cell(cell[name].get(method)) for name in sets]
        mean = " / ".join(f"{_out_of_domain(cell, method, n):.{min(n, 1)}f}" for n in range(3))
        yield f"| {method} | " + " | ".join(shown) + f" | {mean} |"


def _cell(seeds: Sequence[Sequence[float]] | None) -> str:
    if seeds is None:
        return ""
    area, brier, ece = np.mean(seeds, axis=0)
    spread = np.std([seed[0] for seed in seeds])
    return f"{area:.0f} ± {spread:.0f} / {brier:.1f} / {ece:.1f}"
