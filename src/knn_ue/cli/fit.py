"""`knn-ue fit`: a fine-tuned model and its data in, a UE folder out."""

import json
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knn_ue.cli.display import cut_note, progress_bars, say
from knn_ue.cli.options import TASK_METAVAR, AsJson, Device, Method, Overwrite, TrainRows, known_task
from knn_ue.cli.places import check_ue_folder

if TYPE_CHECKING:
    from knn_ue.types import Outputs


def fit(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model folder or a name on the hub.")],
    train_rows: TrainRows,
    validation: Annotated[str, typer.Option(metavar="F", help="Labelled texts the model did not learn from.")],
    out: Annotated[Path, typer.Option(metavar="UE", help="The folder to write.")],
    method: Method = "knn-ue",
    index: Annotated[str, typer.Option(metavar="I", help="auto, exact, or a faiss factory string.")] = "auto",
    neighbors: Annotated[int, typer.Option(min=1, metavar="K", help="How many neighbors to look at.")] = 32,
    max_stored: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Store at most N examples (words), of every class as many; all."),
    ] = None,
    target_risk: Annotated[
        float | None, typer.Option(metavar="R", help="Choose the threshold that keeps errors below R, such as 0.05.")
    ] = None,
    delta: Annotated[float, typer.Option(help="How likely that promise may fail.")] = 0.1,
    task: Annotated[
        str | None,
        typer.Option(metavar=TASK_METAVAR, callback=known_task, help="Default: what the model was trained for."),
    ] = None,
    device: Device = "auto",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Store the training texts, fit the method on the validation texts, write a UE folder.

    The promise of --target-risk holds for texts of the same domain, and if the validation rows did not choose the
    model: those that [bold]knn-ue train[/bold] left aside did not.

    Example: [bold]knn-ue fit model --train train.csv --validation dev.csv --out ue --target-risk 0.05[/bold]
    """
    from knn_ue.pipeline import UncertaintyPipeline
    from knn_ue.pipeline.fitted import stores_of

    check_ue_folder(out, overwrite=overwrite)
    pipe = UncertaintyPipeline.from_pretrained(model, task, device=device)
    with progress_bars() as progress, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="no threshold is known")  # said below
        pipe.fit(
            train_rows,
            validation,
            method=method,
            index=index,
            n_neighbors=neighbors,
            max_stored=max_stored,
            target_risk=target_risk,
            delta=delta,
            progress=progress,
        )
    pipe.save(out)
    threshold = pipe.threshold_
    if threshold is not None:
        _doubt_promise(model, pipe.validation_)
    if as_json:
        done: dict[str, Any] = {"ue": str(out), "method": method, "task": pipe.task, "labels": list(pipe.class_names)}
        done |= {"n_validation": len(pipe.validation_), "truncated": pipe.encoder.n_truncated}
        done["threshold"] = None if threshold is None else asdict(threshold)
        done["index"] = next((asdict(store.options) for store in stores_of(pipe.calibrator_)), None)
        typer.echo(json.dumps(done, ensure_ascii=False))
        return
    cut = cut_note(pipe.encoder)
    n_fitted = int((~pipe.fitted_.held_out).sum())  # with --target-risk the others choose the threshold
    typer.echo(f"{out}: {method} for {pipe.task}, fitted on {n_fitted} validation rows{cut}")
    indexes = {str(store.options) for store in stores_of(pipe.calibrator_)}
    if index == "auto" and indexes:
        say(f"neighbors are found by {', '.join(indexes)} (knn-ue index tune shows what else was tried)")
    if threshold is not None:
        typer.echo(f"{threshold}{'' if threshold.found else '; every answer will be an abstention'}")
    say(f"next: knn-ue evaluate {out} --test F, or knn-ue predict {out} --input F --output answers.jsonl")


def _doubt_promise(model: str, validation: "Outputs") -> None:
    """Say so where the model was stopped by more rows than the half that fits, as with train --all-validation."""
    from knn_ue.encoding.model_files import read_record

    record = read_record(model)
    n_watched = 0 if record is None else record.get("result", {}).get("n_validation", 0)
    n_rows = len(validation) if validation.groups is None else len(set(validation.groups.tolist()))
    if n_watched > n_rows // 2:
        say(
            f"{n_watched} rows decided when to stop the training of {model}, more than half of these {n_rows}: "
            "the promise of --target-risk may not hold, unless these are other rows"
        )
