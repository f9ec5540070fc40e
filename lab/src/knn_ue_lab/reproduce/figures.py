"""The paper's figures, drawn from our cells: what the number of neighbors does to ECE and E-AURC."""

from functools import partial
from typing import TYPE_CHECKING

from knn_ue.errors import require
from knn_ue.report.pictures import svg_of
from knn_ue_lab.reproduce.measures import measure_of
from knn_ue_lab.reproduce.plan import SWEPT_NEIGHBORS
from knn_ue_lab.reproduce.tables import FilledTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LOOKS = (("#0072B2", "o"), ("#D55E00", "s"))


def figures_of(filled: FilledTable) -> dict[str, str]:
    """Return the figures of a table as SVG, by what they show; none where the table is no figure."""
    if not filled.table.figure or not filled.blocks:
        return {}
    require("matplotlib", extra="plots", purpose="drawing the paper's figures")
    caption = (
        f"{filled.table.title}: ECE and E-AURC (our definition) against K (logarithmic), with the standard deviation "
        "over seeds. Each panel has its own scale. The same numbers are in the table."
    )
    return {caption: svg_of(partial(_draw, filled), f"{filled.table.name}-")}


def _draw(filled: FilledTable) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.4, 0.4 + 2.2 * len(filled.blocks)), layout="constrained")
    panels = figure.subplots(len(filled.blocks), 2, squeeze=False)
    for block, (color, marker), row in zip(filled.blocks, _LOOKS, panels, strict=False):
        for panel, name in zip(row, ("ece", "e_aurc"), strict=True):
            numbers = [row[name] for row in block.rows.values()]
            points = [
                (k, n.mean, n.std or 0.0) for k, n in zip(SWEPT_NEIGHBORS, numbers, strict=True) if n.mean is not None
            ]
            if points:
                k, means, spreads = zip(*points, strict=True)
                panel.errorbar(k, means, yerr=spreads, color=color, marker=marker, capsize=3)
            measure = measure_of(name)
            unit = "%" if measure.unit == 100 else "×1000"
            panel.set(xscale="log", ylabel=f"{measure.title} {unit}")
            # The name of a folder may have dollar signs, which are no formula.
            panel.set_title(block.title.rpartition(", ")[0], parse_math=False)
            panel.set_xticks(SWEPT_NEIGHBORS, [str(k) for k in SWEPT_NEIGHBORS])
            panel.minorticks_off()
            panel.grid(color="#DDDDDD", linewidth=0.6)
            panel.spines[["top", "right"]].set_visible(False)
    for panel in panels[-1]:
        panel.set_xlabel("neighbors K")
    return figure
