"""`knn-ue demo`: the whole program on real texts, on recorded answers of a language model, or on a toy problem."""

from pathlib import Path
from typing import Annotated

import typer

from knn_ue.cli.options import one_of
from knn_ue.cli.terminal import print_table, progress_bars, say


def demo(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[answers]",
            callback=lambda name: None if name is None else one_of(("answers",))(name),
            help="answers: which answers of a language model to trust; no training, no extra packages, seconds.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the report; created if needed.")] = Path(
        "knn-ue-demo"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="Use a few hundred texts: fast, but the numbers mean little.")
    ] = False,
    toy: Annotated[
        bool, typer.Option("--toy", help="Use a toy problem on arrays: takes seconds, needs no extra packages.")
    ] = False,
) -> None:
    """Fine-tune MiniLM on movie reviews, calibrate it, evaluate it in and out of domain, explain, and write a report.

    Takes minutes the first time, then seconds: model and outputs are cached in DIR/cache (or $KNN_UE_CACHE).

    Example: [bold]knn-ue demo --out my-demo[/bold], then open my-demo/report.html

    Example: [bold]knn-ue demo answers[/bold]
    """
    if what is not None and (quick or toy):
        raise typer.BadParameter("the demo of answers has no other size: leave out --quick and --toy")
    if quick and toy:
        raise typer.BadParameter("--quick and --toy exclude each other", param_hint="--quick")
    if what is not None:
        _answers(out)
    elif toy:
        _toy(out)
    else:
        _texts(out, quick)


def _texts(out: Path, quick: bool) -> None:
    from knn_ue.demo import run_text_demo
    from knn_ue.demo.text_demo import QUICK

    with progress_bars() as progress:
        result = run_text_demo(out, size=QUICK if quick else None, progress=progress)
    typer.echo(f"{result.loop.sentence}\n")
    for table in result.loop.tables:
        print_table(table.headings, table.rows, title=table.caption)
    for explanation in result.explanations:
        typer.echo(f"\n{explanation}")
    typer.echo("")
    heading, *lines = result.summary()
    previous, shown = "", []
    for name, method, *numbers in lines:
        shown.append([("" if name == previous else name), method, *numbers])
        previous = name
    print_table(heading, shown)
    typer.echo("* best in its set")
    for verdict in result.verdicts:
        typer.echo(verdict)
    typer.echo(", ".join(f"{step} {seconds:.1f} s" for step, seconds in result.seconds.items()))
    typer.echo(f'try it: knn-ue explain {result.ue} "a film like no other"')
    typer.echo(f"report: {result.report}")


def _answers(out: Path) -> None:
    from knn_ue.demo import run_answers_demo

    result = run_answers_demo(out)
    for sentence in result.sentences:
        typer.echo(sentence)
    for explanation in result.explanations:
        typer.echo(f"\n{explanation}")
    typer.echo(f"\nreport: {result.report}")
    typer.echo(f"queue: {result.queue}")
    typer.echo(f"try it: knn-ue triage {result.ue} --input {result.folder / 'new.csv'} --output queue.csv")
    say(f"{result.seconds:.1f} s")


def _toy(out: Path) -> None:
    from knn_ue.demo import run_demo

    with progress_bars():
        result = run_demo(out)
    (_, *headings), *lines = result.summary()
    print_table(["method", *headings], lines, title=f"{result.evaluation.n} test rows of a toy problem")
    typer.echo(f"report: {result.report}")
    for picture in result.pictures:
        typer.echo(f"picture: {picture}")
