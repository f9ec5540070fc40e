"""`knn-ue evaluate`: how good are the answers, in domain and out of it?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knn_ue.cli.engine import Address, Engine, PartRows, Workers
from knn_ue.cli.options import (
    AsJson,
    Device,
    Domain,
    Ue,
    check_writable,
    takes_columns,
)
from knn_ue.cli.terminal import cut_note, echo, loading, print_evaluation, progress_bars, say
from knn_ue.errors import StorageError

if TYPE_CHECKING:
    from knn_ue.calibrators import Calibrator
    from knn_ue.data import Columns
    from knn_ue.data.columns import ColumnNames
    from knn_ue.decisions import Watched
    from knn_ue.pipeline import UncertaintyPipeline
    from knn_ue.pipeline.evaluating import EncodedSets, Encodes
    from knn_ue.types import Outputs

_REPORT_DRAWS = 200


@takes_columns("text", "label", "premise", "hypothesis", "tokens", "tags", "answer", "confidence")
def evaluate(
    ue: Ue,
    test: Annotated[
        str, typer.Option(metavar="F", help="Labeled texts not used for training or fitting.", rich_help_panel="Data")
    ],
    ood: Annotated[
        list[str] | None,
        typer.Option(
            metavar="F", help="Texts of another domain, with or without labels; repeatable.", rich_help_panel="Data"
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder for report.html, report.md and report.json.", rich_help_panel="Report"
        ),
    ] = None,
    bootstrap: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Bootstrap draws for intervals (default 200 in a report, otherwise none).",
            rich_help_panel="Report",
        ),
    ] = None,
    domain: Domain = None,
    device: Device = "auto",
    engine: Engine = "local",
    address: Address = None,
    workers: Workers = None,
    part_rows: PartRows = 10_000,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Write the report into a folder that holds other files.", rich_help_panel="Report"
        ),
    ] = False,
    as_json: AsJson = False,
    *,
    columns: "ColumnNames",
) -> None:
    """Measure accuracy, calibration and ranking: the raw model, temperature scaling and the fitted method side by side.

    An out-of-domain set with labels the model knows is measured too; for any other only OOD metrics are reported.
    Labeled rows with a field or column sample_weight count by it; tables say "weighted".

    Example: [bold]knn-ue evaluate ue --test test.csv --ood vader:tweets --report report[/bold]
    """
    from knn_ue.data import Columns
    from knn_ue.evaluation import evaluate as measure
    from knn_ue.pipeline import UncertaintyPipeline
    from knn_ue.report import build_report

    if report is not None:
        _check_report_folder(report, overwrite=overwrite)
    with loading(ue):
        pipe = UncertaintyPipeline.load(ue, device=device).patient()
    sources, named = _named(ood or []), Columns(**columns)
    encoder: Encodes = pipe.encoder
    if engine == "ray":
        from knn_ue.distributed.evaluating import ClusterEncoder

        encoder = ClusterEncoder(ue, address=address, workers=workers, part_rows=part_rows, device=device)
    sets = _encoded(pipe, encoder, test, sources, named)
    calibrators = _calibrators(pipe, domain)
    watched = [] if domain is not None else _watched(pipe, sets.test)
    if report is None:
        evaluation = measure(
            calibrators,
            sets.test,
            out_of_domain=sets.out_of_domain or None,
            n_bootstrap=bootstrap or 0,
            familiarity=pipe.familiarity_,
            sample_weight=sets.sample_weight,
            validation=pipe.validation_,
        )
    else:
        context = {"folder": str(ue), "test": test} | ({"out of domain": ", ".join(ood)} if ood else {})
        context |= {f"promise {n}": f"{one.promise}; on the test rows it {one}" for n, one in enumerate(watched, 1)}
        draws = _REPORT_DRAWS if bootstrap is None else bootstrap
        built = build_report(
            calibrators,
            sets.test,
            sets.out_of_domain or None,
            method=list(calibrators)[-1],
            n_bootstrap=draws,
            context=context,
            familiarity=pipe.familiarity_,
            sample_weight=sets.sample_weight,
            validation=pipe.validation_,
        )
        files = built.write(report)
        evaluation = built.evaluation
        say(f"report: {files.html}")
    if as_json:
        echo(evaluation.to_json(), nl=False)
        return
    print_evaluation(evaluation)
    for one in watched:
        echo(f"promised: {one.promise}\n{one}")


def _watched(pipe: "UncertaintyPipeline", test: "Outputs") -> "list[Watched]":
    """Return what the test rows say of each promise; they name no documents, so nothing of a promise over these."""
    from knn_ue.pipeline.watching import watch_outputs

    by_document = pipe.threshold_ is not None and pipe.threshold_.unit == "document"
    return [] if test.labels is None or by_document else watch_outputs(pipe.fitted_, test)


def _check_report_folder(out: Path, *, overwrite: bool) -> None:
    """Raise unless a report may be written to `out`: an earlier one is replaced, a file of others never is."""
    from knn_ue.report import ReportFiles

    check_writable(out)
    files = ReportFiles.inside(out)
    if not out.exists() or not any(out.iterdir()) or files.are_a_report():
        return
    taken = [path.name for path in files if path.exists()]
    if taken:
        raise StorageError(f"{out} has a {taken[0]} that knn-ue evaluate did not write: choose another folder")
    if not overwrite:
        raise StorageError(f"{out} already exists: pass --overwrite or choose another folder")


def _encoded(
    pipe: "UncertaintyPipeline", encoder: "Encodes", test: str, sources: dict[str, str], columns: "Columns"
) -> "EncodedSets":
    """Return what the model says, wherever it runs, about the test rows, and about those of each other domain."""
    from knn_ue.pipeline.evaluating import read_sets

    sets = read_sets(pipe.encoder, test, sources, columns)
    for name, reason in sets.unlabeled.items():
        say(f"{name}: only OOD metrics are reported, because {reason}")
    with progress_bars() as progress:
        encoded = sets.encode(encoder, progress)
    if cut := cut_note(pipe.encoder):
        say(f"note: {cut.removeprefix(', ')}")
    return encoded


def _calibrators(pipe: "UncertaintyPipeline", domain: str | None) -> "dict[str, Calibrator]":
    """Return the fitted method and, to compare it with, temperature scaling fitted on the same rows.

    Answers that were given have no logits to scale: there the rivals of the method stand in for it.
    """
    from knn_ue.methods import make_calibrator
    from knn_ue.pipeline.domains import calibrator_of
    from knn_ue.pipeline.evaluating import compared

    fitted = pipe.fitted_
    calibrator = calibrator_of(fitted, domain)
    if calibrator.judges_given:
        return compared(calibrator, fitted.method)
    seen = fitted.validation.take(~fitted.held_out)
    return {"temperature": make_calibrator("temperature", seen).fit(seen), **compared(calibrator, fitted.method)}


def _named(sources: list[str]) -> dict[str, str]:
    """Give each source a short name of its own.

    >>> _named(["vader:tweets", "a/new.csv", "b/new.csv"])
    {'vader:tweets': 'vader:tweets', 'new': 'a/new.csv', 'new 2': 'b/new.csv'}
    """
    named: dict[str, str] = {}
    for source in sources:
        short = source.replace("/", " ") if ":" in source else Path(source).name.split(".")[0] or "other"
        short = "other" if short == "test" else short
        name, number = short, 1
        while name in named:
            number += 1
            name = f"{short} {number}"
        named[name] = source
    return named
