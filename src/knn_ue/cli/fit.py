"""`knn-ue fit`: a fine-tuned model and its data in, a UE folder out."""

import json
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from knn_ue.cli.options import (
    TASK_METAVAR,
    AsJson,
    Device,
    Method,
    Overwrite,
    check_ue_folder,
    known_task,
    one_of,
    takes_columns,
)
from knn_ue.cli.terminal import cut_note, loading, progress_bars, say
from knn_ue.familiarity import FALSE_ALARM_RATE
from knn_ue.methods import recommended_method

_RANKS_ONLY = 100  # labeled answers; with fewer, scores rank but are not calibrated better than a constant

SetChoice = Literal["lac", "aps", "raps", "class"]

if TYPE_CHECKING:
    from knn_ue.arrays import BoolArray
    from knn_ue.data.columns import ColumnNames
    from knn_ue.pipeline import UncertaintyPipeline
    from knn_ue.types import Outputs


@takes_columns("text", "label", "premise", "hypothesis", "tokens", "tags", "answer", "confidence")
def fit(
    out: Annotated[Path, typer.Option(metavar="UE", help="The UE folder to write.", rich_help_panel="Data")],
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]", help="A model folder, a Hugging Face Hub name, or a UE folder, whose model is used."
        ),
    ] = None,
    train_rows: Annotated[
        str | None, typer.Option("--train", metavar="F", help="Labeled training texts.", rich_help_panel="Data")
    ] = None,
    validation: Annotated[
        str | None,
        typer.Option(metavar="F", help="Labeled texts that the model was not trained on.", rich_help_panel="Data"),
    ] = None,
    answers: Annotated[
        str | None,
        typer.Option(
            metavar="F",
            help="In place of MODEL: texts with a model's answers and the right labels, 50 and more.",
            rich_help_panel="Data",
        ),
    ] = None,
    reader: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="With --answers: what reads the texts: auto, instant, minilm, gte-small, a folder or a Hub name.",
            rich_help_panel="Method",
        ),
    ] = "auto",
    method: Method = "knn-ue",
    index: Annotated[
        str,
        typer.Option(
            metavar="I",
            help="Index: auto, exact, or a faiss factory string; on Milvus auto, flat, hnsw or ivf_sq8.",
            rich_help_panel="Neighbors",
        ),
    ] = "auto",
    store: Annotated[
        str | None,
        typer.Option(
            metavar="S",
            help="Store the examples at milvus://HOST:19530/NAME (default: in the UE folder).",
            rich_help_panel="Neighbors",
        ),
    ] = None,
    neighbors: Annotated[
        int, typer.Option(min=1, metavar="K", help="Number of neighbors.", rich_help_panel="Neighbors")
    ] = 32,
    max_stored: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Maximum number of examples (words) to store, balanced across classes (default: all).",
            rich_help_panel="Neighbors",
        ),
    ] = None,
    target_precision: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Choose the threshold above which a share of at least P of the answers is right, such as 0.95.",
            rich_help_panel="Decisions",
        ),
    ] = None,
    target_risk: Annotated[
        float | None,
        typer.Option(metavar="R", help="The same as --target-precision 1 - R.", rich_help_panel="Decisions"),
    ] = None,
    delta: Annotated[
        float,
        typer.Option(
            metavar="D", help="Allowed failure probability of the promised precision.", rich_help_panel="Decisions"
        ),
    ] = 0.1,
    coverage: Annotated[
        float | None,
        typer.Option(
            metavar="C",
            help="Give each answer the set of labels that holds the right one in a share of C of the rows.",
            rich_help_panel="Decisions",
        ),
    ] = None,
    set_method: Annotated[
        SetChoice,
        typer.Option(help="How the sets of --coverage are formed; class: for each label.", rich_help_panel="Decisions"),
    ] = "lac",
    unit: Annotated[
        Literal["document"] | None,
        typer.Option(
            help="What is independent, in place of rows or sentences: the field document of each row names it.",
            rich_help_panel="Decisions",
        ),
    ] = None,
    decision: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="A decision to fit on held-out rows, by its registered name; repeatable.",
            rich_help_panel="Decisions",
        ),
    ] = None,
    false_alarm_rate: Annotated[
        float,
        typer.Option(
            metavar="A",
            help="Share of in-domain inputs that may be flagged as unfamiliar.",
            rich_help_panel="Decisions",
        ),
    ] = FALSE_ALARM_RATE,
    robust: Annotated[
        bool,
        typer.Option(
            "--robust", help="Fit on perturbed copies too: lower scores, for harder domains.", rich_help_panel="Method"
        ),
    ] = False,
    verifier: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="A small reader that judges the answers too: bge-small, minilm, auto (where it pays), none.",
            rich_help_panel="Method",
        ),
    ] = "none",
    task: Annotated[
        str | None,
        typer.Option(
            metavar=TASK_METAVAR,
            callback=known_task,
            help="Task (default: what the model was trained for).",
            rich_help_panel="Data",
        ),
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option(
            metavar="P",
            help=r"Prompt a language model: a template with {text}, or {premise} and {hypothesis}; \n is a new line.",
            rich_help_panel="Language model",
        ),
    ] = None,
    label_word: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABEL=WORD",
            help="With --prompt: the word that stands for a label; repeatable.",
            rich_help_panel="Language model",
        ),
    ] = None,
    allow_leakage: Annotated[
        bool,
        typer.Option(
            "--allow-leakage", help="Continue even if validation rows are also training rows.", rich_help_panel="Data"
        ),
    ] = False,
    device: Device = "auto",
    backend: Annotated[
        str,
        typer.Option(
            metavar="B",
            callback=one_of(("auto", "onnx", "torch")),
            help="What answers: auto (ONNX Runtime where its answers are the same), onnx or torch.",
            rich_help_panel="Method",
        ),
    ] = "auto",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    *,
    columns: "ColumnNames",
) -> None:
    """Store the training texts, fit a method on the validation texts, and write a UE folder.

    The promise of --target-precision holds for texts of the same domain, and only if the validation rows were not used
    to choose the model. Those that [bold]knn-ue train[/bold] sets aside were not.

    Example: [bold]knn-ue fit model --train train.csv --validation dev.csv --out ue --target-precision 0.95[/bold]

    A language model needs no training: --prompt "Review: {text}\\nSentiment:" --label-word pos=positive ...

    Of a model behind an API, its answers are enough: [bold]knn-ue fit --answers answered.csv --out ue[/bold]
    """
    from knn_ue.decisions.registry import decision_to_plain, new_decision
    from knn_ue.errors import InvalidInputError
    from knn_ue.pipeline import UncertaintyPipeline
    from knn_ue.stores import TunableStore

    decisions = [new_decision(kind) for kind in decision or ()]
    check_ue_folder(out, overwrite=overwrite)
    if answers is not None:
        if model is not None or train_rows is not None or validation is not None:
            raise InvalidInputError("--answers takes the place of MODEL, --train and --validation: leave those out")
        pipe = UncertaintyPipeline.from_answers(reader=reader, task=task or "text")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="a precision of")  # printed below
            pipe.fit(
                answers,
                target_precision=target_precision,
                target_risk=target_risk,
                delta=delta,
                coverage=coverage,
                set_method=set_method,
                unit=unit,
                decisions=decisions,
                false_alarm_rate=false_alarm_rate,
                **columns,
            )
        pipe.save(out)
        _tell_answers(out, pipe, as_json=as_json)
        return
    if model is None or train_rows is None or validation is None:
        raise InvalidInputError(
            "fit needs MODEL, --train and --validation, or --answers for a model that cannot be opened: pass them"
        )
    with loading(model):
        if prompt is None and not label_word:
            pipe = _pipeline_of(model, task, device)
        else:
            pipe = _prompted(model, prompt, label_word or [], task, device)
    with progress_bars() as progress, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="a precision of")  # printed below
        pipe.fit(
            train_rows,
            validation,
            method=method,
            index=index,
            store=store,
            n_neighbors=neighbors,
            max_stored=max_stored,
            target_precision=target_precision,
            target_risk=target_risk,
            delta=delta,
            coverage=coverage,
            set_method=set_method,
            unit=unit,
            decisions=decisions,
            false_alarm_rate=false_alarm_rate,
            robust=robust,
            verifier=None if verifier == "none" else verifier,
            allow_leakage=allow_leakage,
            backend=backend,
            progress=progress,
            **columns,
        )
    pipe.save(out)
    fitted = pipe.fitted_
    tuned = [found for found in fitted.calibrator.stores.values() if isinstance(found, TunableStore)]
    threshold = fitted.threshold
    if fitted.decisions:
        _doubt_guarantee(model, fitted.validation)
    if as_json:
        done: dict[str, Any] = {"ue": str(out), "method": method, "task": pipe.task, "labels": list(pipe.class_names)}
        done |= {"n_validation": len(fitted.validation), "truncated": pipe.encoder.n_truncated}
        done["threshold"] = None if threshold is None else asdict(threshold)
        done["decisions"] = [decision_to_plain(decision) for decision in fitted.decisions]
        done["verifier"] = None if fitted.verifier_gain is None else asdict(fitted.verifier_gain)
        done["index"] = next((asdict(found.options) for found in tuned), None)
        typer.echo(json.dumps(done, ensure_ascii=False))
        return
    cut = cut_note(pipe.encoder)
    n_fitted = int((~fitted.held_out).sum())  # the others are held out for the decisions
    typer.echo(f"{out}: {method} for {pipe.task}, fitted on {n_fitted} validation rows{cut}")
    if pipe.encoder.backend:
        say(f"answers: {pipe.encoder.backend}, equal to PyTorch's on validation rows")
    if index == "auto" and tuned:
        indexes = {str(found.options) for found in tuned}
        say(f"index: {', '.join(indexes)} (knn-ue index tune --thorough compares others)")
    if (gain := fitted.verifier_gain) is not None:
        used = "" if fitted.calibrator.gain is not None else " (not used: that may be chance)"
        typer.echo(f"{gain}{used}")
    for made in fitted.decisions:
        typer.echo(str(made))
    if threshold is not None and not threshold.found:
        say("the model will abstain on every input")
    if (better := recommended_method(method, pipe.task)) != method:
        say(f"note: {better} scores whole entities and does better here: pass --method {better}")
    say(f"next: knn-ue evaluate {out} --test F, or knn-ue predict {out} --input F --output answers.jsonl")


def _tell_answers(out: Path, pipe: "UncertaintyPipeline", *, as_json: bool) -> None:
    """Print what came of a fit on given answers."""
    from knn_ue.decisions.registry import decision_to_plain

    fitted = pipe.fitted_
    validation = fitted.validation
    n_fitted, right, of_what = _judged(validation, fitted.held_out)
    if as_json:
        done: dict[str, Any] = {
            "ue": str(out),
            "method": fitted.method,
            "task": pipe.task,
            "labels": list(pipe.encoder.labels),
        }
        done |= {"n_labeled": len(validation), "share_right": right}
        done["decisions"] = [decision_to_plain(decision) for decision in fitted.decisions]
        typer.echo(json.dumps(done, ensure_ascii=False))
        return
    typer.echo(
        f"{out}: {fitted.method} for {pipe.task}, fitted on {n_fitted} labeled {of_what[0]}, {right:.1%} of "
        f"{of_what[1]} right"
    )
    for made in fitted.decisions:
        typer.echo(str(made))
    if n_fitted < _RANKS_ONLY:
        few = f"{n_fitted} labeled {of_what[0]}"
        say(f"{few} rank new ones, but do not calibrate better than a constant: label 100 or more")
    if (gain := fitted.calibrator.suggestion_gain()) is not None:
        before, after = gain
        helps = "predict --suggest gives them" if after > before else "so they would not help"
        say(f"with suggestions {after:.1%} instead of {before:.1%} would be right, cross-fitted: {helps}")
    say(f"next: knn-ue predict {out} --input F --output scored.jsonl, or knn-ue evaluate {out} --test F")


def _judged(validation: "Outputs", held_out: "BoolArray") -> tuple[int, float, tuple[str, str]]:
    """Return how many rows were fitted on, the share of the given answers that is right, and what both are of."""
    from knn_ue.entities import find_entities

    labels = validation.require_labels("fit")
    if validation.groups is None:
        return int((~held_out).sum()), float((validation.predicted == labels).mean()), ("answers", "them")
    marked, gold = find_entities(validation, validation.predicted), find_entities(validation, labels)
    right = float(marked.same_in(gold).mean()) if len(marked) else 0.0
    return len(set(validation.groups[~held_out].tolist())), right, ("sentences", "their marked entities")


def _pipeline_of(model: str, task: str | None, device: str) -> "UncertaintyPipeline":
    """Load the model to fit with; that of a UE folder may be of any registered encoder."""
    from knn_ue.errors import InvalidInputError
    from knn_ue.pipeline import UncertaintyPipeline
    from knn_ue.pipeline.folder import is_ue_folder

    if not is_ue_folder(model):
        return UncertaintyPipeline.from_pretrained(model, task, device=device)
    pipe = UncertaintyPipeline.load(model, device=device)
    if task not in (None, pipe.task):
        raise InvalidInputError(f"{model} was fitted for {pipe.task}, got task={task!r}: leave out --task")
    return pipe


def _prompted(model: str, prompt: str | None, words: list[str], task: str | None, device: str) -> "UncertaintyPipeline":
    """Load a language model to be asked with a prompt."""
    from knn_ue.errors import InvalidInputError
    from knn_ue.pipeline import UncertaintyPipeline
    from knn_ue.pipeline.folder import is_ue_folder

    if prompt is None or not words:
        missing = "--label-word needs --prompt" if prompt is None else "--prompt needs --label-word for each label"
        raise InvalidInputError(f"{missing}: give both, or neither for a model that was trained for the task")
    if is_ue_folder(model):
        raise InvalidInputError(f"{model} is a UE folder, which has its own prompt or none: give the language model")
    labels = {name: word if found else name for name, found, word in (each.partition("=") for each in words)}
    pipe = UncertaintyPipeline.from_prompt(model, prompt.replace(r"\n", "\n"), labels, device=device)
    if task not in (None, pipe.task):
        raise InvalidInputError(f"the prompt is for {pipe.task}, got task={task!r}: leave out --task")
    return pipe


def _doubt_guarantee(model: str, validation: "Outputs") -> None:
    """Warn where more rows than the half that fits decided when to stop training, as with train --all-validation."""
    from knn_ue.encoding.model_files import read_record

    record = read_record(model)
    n_watched = 0 if record is None else record.get("result", {}).get("n_validation", 0)
    n_rows = len(validation) if validation.groups is None else len(set(validation.groups.tolist()))
    if n_watched > n_rows // 2:
        say(
            f"{n_watched} rows decided when to stop the training of {model}, more than half of these {n_rows}: "
            "the guarantee may not hold, unless these are other rows"
        )
