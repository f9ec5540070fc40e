"""The paper's figures, drawn from our cells: what the number of neighbors does to ECE and E-AURC."""

from functools import partial
from typing import TYPE_CHECKING

from knn_ue.errors import require
from knn_ue.experiments.measures import measure_of
from knn_ue.experiments.plan import SWEPT_NEIGHBORS
from knn_ue.experiments.tables import FilledTable
from knn_ue.report.pictures import svg_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LOOKS = (("#0072B2", "o", "-"), ("#D55E00", "s", "--"), ("#009E73", "D", "-."))


def figures_of(filled: FilledTable) -> dict[str, str]:
    """Return the figures of a table as SVG, by what they show; none where the table is no figure."""
    if not filled.table.figure or not filled.blocks:
        return {}
    require("matplotlib", extra="plots", purpose="drawing the paper's figures")
    caption = (
        f"{filled.table.title}: ECE and E-AURC against K (logarithmic), with the standard deviation over seeds. "
        "The same numbers are in the table."
    )
    return {caption: svg_of(partial(_draw, filled), f"{filled.table.name}-")}


def _draw(filled: FilledTable) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.4, 3.2), layout="constrained")
    panels = figure.subplots(1, 2)
    for panel, name in zip(panels, ("ece", "e_aurc"), strict=True):
        for block, (color, marker, line) in zip(filled.blocks, _LOOKS, strict=False):
            numbers = [row[name] for row in block.rows.values()]
            points = [
                (k, n.mean, n.std or 0.0) for k, n in zip(SWEPT_NEIGHBORS, numbers, strict=True) if n.mean is not None
            ]
            if points:
                k, means, spreads = zip(*points, strict=True)
                look = {"color": color, "marker": marker, "linestyle": line, "capsize": 3}
                panel.errorbar(k, means, yerr=spreads, label=block.title.split(",")[0], **look)
        measure = measure_of(name)
        panel.set(
            xscale="log", xlabel="neighbors K", ylabel=f"{measure.title} {'%' if measure.unit == 100 else '×1000'}"
        )
        panel.set_xticks(SWEPT_NEIGHBORS, [str(k) for k in SWEPT_NEIGHBORS])
        panel.minorticks_off()
        panel.grid(color="#DDDDDD", linewidth=0.6)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False, fontsize="small")
    return figure
