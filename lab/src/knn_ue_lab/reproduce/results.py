"""All tables of a run with how they came about, as LaTeX and as comma-separated values."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from knn_ue_lab.reproduce.grids import Grid, grids_of, verdict_grid
from knn_ue_lab.reproduce.measures import OURS
from knn_ue_lab.reproduce.summary import Summary
from knn_ue_lab.reproduce.tables import FilledTable
from knn_ue_lab.reproduce.verdicts import ClaimVerdict


@dataclass(frozen=True, kw_only=True)
class Results:
    """Filled tables, and facts about the run: command, scale, seeds, time, versions; `failed` cells with the reason.

    The `summary` is what the page begins with.
    """

    tables: Sequence[FilledTable]
    facts: Mapping[str, str]
    failed: Mapping[str, str]
    summary: Summary = field(default_factory=Summary)

    @property
    def verdicts(self) -> list[ClaimVerdict]:
        """All verdicts, table by table."""
        return [verdict for filled in self.tables for verdict in filled.verdicts]


# How to read the tables and verdicts, a line each.
ABOUT = (
    "Numbers: the paper's (mean ± standard deviation over five seeds, † where the paper calls it significantly better "
    "than existing methods) beside ours (mean ± sample standard deviation over our seeds), by the published "
    "definition; where ours differs, it has a column of its own. Bold: better than every other method with which it "
    "shares at least two seeds, by a paired test over texts and seeds with Holm's correction.",
    "A claim is a difference that the paper prints, also one that it does not call significant. `paper` and `ours` "
    "give both sides of it, and the gain is above zero where the first side is better.",
    "It holds when the gain has the paper's direction, its 95 % interval excludes zero, Holm's p is below 0.05, and "
    "the two digits of a table show it.",
    "It does not hold when the interval, also after Holm's correction, excludes half of the paper's gain (any gain, "
    "where the paper prints no numbers).",
    "It cannot be tested here if the second side could improve by less than half of the paper's gain: it would fail "
    "whatever the method does. ECE and MCE cannot fall to 0, since bins of a few answers are never exact, but to that "
    "of labels drawn from the confidences (to 0 where answers are not kept).",
    "Everything else is undecided, including claims measured with only one seed.",
    "p of no gain must be below 0.05 for a claim that holds. p against, which is of half the paper's gain, of any gain "
    "or of the loss allowed, must be for a claim that does not hold. Both are corrected by Holm's method.",
    "The verdict by our definition is held against the same numbers of the paper, which are by the published one.",
    "A claim of no loss holds when the interval, also after Holm's correction, excludes every loss above a stated one, "
    "and does not hold when it excludes every smaller one.",
    "The t-test over seeds is the paper's test and decides nothing here.",
)


def to_latex(results: Results) -> str:
    """Return every grid as a LaTeX table, ready to be included; needs booktabs."""
    parts = [f"% {name}: {value}" for name, value in results.facts.items()]
    for number, grid in enumerate((*results.summary.grids, *results.summary.details)):
        parts.append(_latex_grid(grid, grid.title, f"tab:league-{number}"))
    for filled in results.tables:
        for number, grid in enumerate(grids_of(filled)):
            caption = f"{filled.table.title}: {grid.title}"
            parts.append(_latex_grid(grid, caption, f"tab:{filled.table.name}-{number}"))
        if filled.verdicts:
            caption = f"{filled.table.title}: verdicts"
            parts.append(_latex_grid(verdict_grid(filled.verdicts), caption, f"tab:{filled.table.name}-verdicts"))
    return "\n\n".join(parts) + "\n"


def to_csv(results: Results) -> str:
    """Return every number in long form: a line a table, set, method and measure."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    heading = ("table", "set", "method", "measure", "definition", "paper_mean", "paper_std", "mean", "std", "n_seeds")
    writer.writerow((*heading, "best", "remark"))
    for filled in results.tables:
        for block in filled.blocks:
            for method, row in block.rows.items():
                for measure, number in row.items():
                    printed = number.published
                    definition = "published" if measure in OURS else "ours"
                    writer.writerow(
                        (
                            filled.table.name,
                            block.title,
                            method,
                            measure,
                            definition,
                            "" if printed is None else printed.mean,
                            "" if printed is None or printed.std is None else printed.std,
                            "" if number.mean is None else f"{number.mean:.6g}",
                            "" if number.std is None else f"{number.std:.6g}",
                            number.n_seeds,
                            int(number.best),
                            block.remarks.get(method, ""),
                        )
                    )
        for times in filled.times:
            for method, timed in times.rows.items():
                printed = timed.published
                known = ("", "") if printed is None else (printed.mean, printed.std or "")
                line = (filled.table.name, times.title, method, "milliseconds", "ours", *known)
                writer.writerow((*line, f"{timed.milliseconds:.6g}", "", 1, 0, "busy machine" if times.busy else ""))
    return file.getvalue()


def verdicts_to_csv(results: Results) -> str:
    """Return every verdict, a line each."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("table", *verdict_grid(()).heading, "not the paper's"))
    for verdict in results.verdicts:
        writer.writerow((verdict.table, *verdict_grid((verdict,)).lines[0], verdict.differs))
    return file.getvalue()


_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "^": r"\^{}",
    "~": r"\textasciitilde{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "†": r"\textsuperscript{\textdagger}",
    "–": "--",
    "<": r"$<$",
    ">": r"$>$",
}


def league_to_csv(results: Results) -> str:
    """Return every line of the leagues as it is shown, with the title of its league first."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    for grid in (*results.summary.grids, *results.summary.details):
        writer.writerow(("league", *grid.heading))
        writer.writerows((grid.title, *line) for line in grid.lines)
    return file.getvalue()


def _latex_text(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)


def _latex_grid(grid: Grid, caption: str, label: str) -> str:
    columns = "".join("l" if place in grid.text_columns else "r" for place in range(len(grid.heading)))
    lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines += [" & ".join(map(_latex_text, grid.heading)) + r" \\", r"\midrule"]
    for number, line in enumerate(grid.lines):
        fields = [
            rf"\textbf{{{_latex_text(text)}}}" if (number, place) in grid.strong else _latex_text(text)
            for place, text in enumerate(line)
        ]
        lines.append(" & ".join(fields) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{_latex_text(caption)}}}", rf"\label{{{label}}}"]
    return "\n".join([*lines, r"\end{table}"])
