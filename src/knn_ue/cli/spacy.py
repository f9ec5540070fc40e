"""`knn-ue spacy`: confidence for the entities of a spaCy pipeline."""

import json
import warnings
from pathlib import Path
from typing import Annotated

import typer

from knn_ue.cli.options import AsJson, Overwrite, TrainRows, check_writable
from knn_ue.cli.terminal import say
from knn_ue.errors import FitWarning, InvalidInputError, StorageError, require

spacy_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Give the entities of a spaCy pipeline a confidence: fit.\n\n"
    "Example: [bold]knn-ue spacy fit en_core_web_sm --train train.spacy --validation dev.spacy --out pipeline[/bold]",
)


@spacy_app.callback()
def spacy() -> None:
    """Keep `fit` a command of its own, though it is the only one."""


@spacy_app.command("fit")
def fit_spacy(
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="A pipeline folder, or an installed package.")],
    train_rows: TrainRows,
    out: Annotated[
        Path, typer.Option(metavar="PIPELINE2", help="The pipeline folder to write.", rich_help_panel="Data")
    ],
    validation: Annotated[
        str | None,
        typer.Option(
            metavar="F",
            help="Labeled texts to fit on (default: half of the training texts).",
            rich_help_panel="Data",
        ),
    ] = None,
    renamed: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="A=B", help="The pipeline's type A is B in the data; repeatable."),
    ] = None,
    source: Annotated[str, typer.Option(metavar="NAME", help="The component that finds the entities.")] = "ner",
    reader: Annotated[
        str,
        typer.Option(metavar="NAME", help="What reads the words for a verifier: minilm, gte-small, auto, or none."),
    ] = "auto",
    target_precision: Annotated[
        float | None,
        typer.Option(metavar="P", help="Mark entities as promised, of which a share of at least P is right."),
    ] = None,
    neighbors: Annotated[
        int, typer.Option(min=1, metavar="K", help="Number of neighbors, where there is no reader.")
    ] = 32,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Random seed of the split where there is no --validation.")
    ] = 0,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    r"""Add the component knn_ue_entities to a pipeline, fit it, and write the pipeline; its models stay as they are.

    F is a DocBin (.spacy), JSON lines of {"text", "entities": [\[start, end, type]]} or {"tokens", "tags"}, or CoNLL
    columns. Use texts that the recognizer was not trained on.

    Example: [bold]knn-ue spacy fit en_core_web_sm --train train.jsonl --out pipeline --map PERSON=PER --map
    GPE=LOC[/bold]
    """
    require("spacy", extra="spacy", purpose="knn-ue spacy fit")
    types = _read_map(renamed or [])
    _check_out(out, overwrite=overwrite)
    from knn_ue.spacy.fitting import fit_pipeline

    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always")
        done = fit_pipeline(
            pipeline,
            train_rows,
            validation,
            out,
            source=source,
            renamed=types,
            reader=None if reader == "none" else reader,
            target_precision=target_precision,
            n_neighbors=neighbors,
            seed=seed,
        )
    for doubt in doubts:
        if issubclass(doubt.category, FitWarning):
            say(str(doubt.message))
    if as_json:
        typer.echo(json.dumps(done.to_dict(), ensure_ascii=False))
        return
    typer.echo(
        f"{out}: confidence for {', '.join(done.types)}, fitted on {done.n_entities} entities of "
        f"{done.n_validation} texts" + (f", {done.n_stored} words stored" if done.n_stored else "")
    )
    if done.verifier is not None:
        typer.echo(done.verifier.replace("validation rows", "labeled sentences").replace("a text", "a sentence"))
    for promise in done.promises:
        typer.echo(promise)
    if done.not_scored:
        say(f"types of the pipeline without a score, because the data has none: {', '.join(done.not_scored)}")
    if done.not_predicted:
        hint = f"try {done.proposed}" if done.proposed else "see --map"
        say(f"types of the data that the pipeline does not predict: {', '.join(done.not_predicted)} ({hint})")
    say(f"next: spacy.load({str(out)!r}), then ent._.confidence; or knn-ue serve {out}")


def _read_map(pairs: list[str]) -> dict[str, str]:
    """Return the pairs A=B as a map."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, other = pair.partition("=")
        if not (equals and name and other):
            raise InvalidInputError(f"--map must be a type of the pipeline and one of the data, A=B, got {pair!r}")
        if found.setdefault(name, other) != other:
            raise InvalidInputError(f"--map must name each type once, {name} is mapped to {found[name]} and {other}")
    return found


def _check_out(out: Path, *, overwrite: bool) -> None:
    check_writable(out)
    if not out.exists() or not any(out.iterdir()):
        return
    if not overwrite:
        raise StorageError(f"{out} already exists: pass --overwrite or choose another folder")
    if not (out / "config.cfg").is_file():
        raise StorageError(f"{out} is not a spaCy pipeline (no config.cfg), so it is not overwritten: choose another")
