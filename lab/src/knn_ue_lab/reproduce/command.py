"""`knn-ue reproduce`: the paper's tables, measured, and what became of each claim."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knn_ue.cli.options import check_writable
from knn_ue.cli.terminal import print_table, say
from knn_ue.errors import InvalidInputError

if TYPE_CHECKING:
    from knn_ue_lab.reproduce.recheck import Difference

LIST = "list"


def reproduce(
    what: Annotated[
        list[str], typer.Argument(metavar="list | TABLE... | all", help="Show the plan, or make some or all tables.")
    ],
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder with task/set/split.jsonl.gz. Without it: VADER, or the hub."),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Output folder for models, cells and results.")] = Path(
        "knn-ue-reproduction"
    ),
    scale: Annotated[
        str,
        typer.Option(
            metavar="S",
            help="small (MiniLM, hours), reference (MiniLM, a night), base (MPNet, hours), paper (DeBERTaV3, the hub).",
        ),
    ] = "small",
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds. Default by scale: 3, 8, 2, 5.")] = None,
    in_domain: Annotated[
        list[str] | None, typer.Option(metavar="TASK=SET", help="Set in --data to train on; repeatable.")
    ] = None,
    out_of_domain: Annotated[
        list[str] | None, typer.Option(metavar="TASK=SET,...", help="Sets in --data to test on; repeatable.")
    ] = None,
    ontonotes: Annotated[
        Path | None, typer.Option(metavar="DIR", help="OntoNotes folder (bn/train.conll, ...), for --scale paper.")
    ] = None,
    encoder: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TASK=]E", help="Encoder instead of the scale's, of all tasks or one: a folder or a hub name."
        ),
    ] = None,
    cells: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the JSON files of measured cells. Default: OUT/cells.")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(metavar="D", help="cpu, cuda, ... Default: cpu; for --scale paper a GPU if there is one."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ignore measured cells and start over.")] = False,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Measure nothing; write the results of the cells that exist.")
    ] = False,
    times: Annotated[
        bool | None,
        typer.Option(
            "--times/--no-times", help="Measure only times (idle machine), or everything except times (busy machine)."
        ),
    ] = None,
    draws: Annotated[int, typer.Option(min=10, help="Bootstrap draws for each verdict.")] = 2000,
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the page to cite here, as Markdown with pictures next to it."),
    ] = None,
    recheck: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Measure N random cells again from scratch and compare.")
    ] = None,
) -> None:
    """Reproduce the paper: every table and figure, with its numbers, ours, and whether each claim holds.

    Tasks are sentiment, nli, ner, intent. A stopped run resumes where it was; several processes may share OUT.
    Results are OUT/results.md with its pictures, .tex, .csv, .html, league.csv and verdicts.csv.

    Example: [bold]knn-ue reproduce sentiment --data data --seeds 1 --out knn-ue-reproduction[/bold]
    """
    from knn_ue_lab.reproduce.grids import counted
    from knn_ue_lab.reproduce.reproduction import Reproduction, Request, write_page, write_results
    from knn_ue_lab.reproduce.setups import Choice

    modes = {"--fresh": fresh, "--report-only": report_only, "--times": times is True, "--recheck": recheck is not None}
    if sum(modes.values()) > 1:
        asked = ", ".join(name for name, given in modes.items() if given)
        raise InvalidInputError(f"{asked} ask for different things: choose one")
    # A folder may have = in its name, a task no slash.
    by_task = dict(word.split("=", 1) for word in encoder or [] if "=" in word and "/" not in word.split("=")[0])
    request = Request(
        out=out,
        scale=scale,  # type: ignore[arg-type]
        data=data,
        choice=Choice.parse(in_domain or [], out_of_domain or []),
        ontonotes=ontonotes,
        encoder=next((word for word in encoder or [] if word.split("=")[0] not in by_task), None),
        task_encoders=by_task,
        n_seeds=seeds,
        cells=cells,
        device=device or ("auto" if scale == "paper" else "cpu"),
    )
    reproduction = Reproduction(request, say)
    if LIST in what:
        if what != [LIST]:
            raise InvalidInputError("list stands alone: knn-ue reproduce list")
        _list(reproduction.listing())
        return
    check_writable(out)
    tables = reproduction.tables(what)
    if recheck is not None:
        _recheck(reproduction.recheck(what, recheck))
        return
    if times:
        outcome = reproduction.run_times(what)
    else:
        outcome = (
            reproduction.read(what) if report_only else reproduction.run(what, fresh=fresh, timed=times is not False)
        )
    results = reproduction.results(what, outcome, _measured_by(sys.argv[1:]), n_bootstrap=draws)
    files = write_results(results, out)
    files += write_page(results, page) if page is not None else []
    for filled in results.tables:
        if filled.verdicts:
            n_claims = len(filled.verdicts)
            say(f"{filled.table.name}, {n_claims} claim{'' if n_claims == 1 else 's'}: {counted(filled.verdicts)}")
    typer.echo(f"{len(tables)} tables, {len(outcome.found)} cells, {len(outcome.failed)} failed")
    for file in files:
        typer.echo(str(file))
    if outcome.failed:
        raise typer.Exit(1)


def _measured_by(words: list[str]) -> str:
    """Return the command that measured what is reported: the same one without what only writes."""
    kept, skip = ["knn-ue"], False
    for word in words:
        if not skip and word not in ("--report-only", "--page") and not word.startswith("--page="):
            kept.append(word)
        skip = word == "--page"
    return shlex.join(kept)


def _list(lines: list[tuple[str, str, str, str, str]]) -> None:
    print_table(["table", "title", "cells", "measured", "time left"], [list(line) for line in lines])
    typer.echo("Tables share cells: all of them take less than the sum.")


def _recheck(differences: "dict[str, Difference]") -> None:
    for name, difference in differences.items():
        typer.echo(f"{name}: {difference}")
    if all(difference.is_close or not difference.is_judged for difference in differences.values()):
        if any(difference.largest for difference in differences.values()):
            typer.echo("Not to the last digit, but far less than seeds differ: another processor rounds differently.")
        return
    raise InvalidInputError(
        "some cells are not the same: another machine, other versions of the libraries, or a change of the code"
    )
