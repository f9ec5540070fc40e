"""`knn-ue explain`: why an answer has the score it has."""

import json
from typing import Annotated, Any

import typer

from knn_ue.cli.options import AsJson, Device, Domain, Ue
from knn_ue.cli.terminal import echo, loading
from knn_ue.errors import InvalidInputError
from knn_ue.tasks import TASKS


def explain(
    ue: Ue,
    texts: Annotated[
        list[str],
        typer.Argument(metavar="TEXT", help="Texts to explain; for pairs, a premise and a hypothesis each."),
    ],
    top: Annotated[int, typer.Option(min=1, metavar="N", help="Number of neighbors to show.")] = 5,
    answer: Annotated[
        list[str] | None,
        typer.Option(metavar="A", help="Of a folder fitted on answers: what the model answered, for each text."),
    ] = None,
    domain: Domain = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Explain the score of a text: is it familiar, what does calibration do, and which training texts are nearest?

    A tagger explains each word of a sentence; fitted with knn-ue-entity, each entity, the sentence as a whole and what
    may have been missed.

    Example: [bold]knn-ue explain ue "a film like no other"[/bold]

    Example: [bold]knn-ue explain nli-ue "A man sleeps." "He is awake."[/bold]

    Example: [bold]knn-ue explain answers-ue "where is my money?" --answer refund[/bold]
    """
    from knn_ue.pipeline import UncertaintyPipeline

    if not all(text.strip() for text in texts):
        raise InvalidInputError("a text to explain must not be empty: write it in quotes")
    with loading(ue):
        pipe = UncertaintyPipeline.load(ue, device=device)
    rows: list[Any] = list(texts)
    if TASKS[pipe.task].is_pair:
        if len(texts) % 2:
            raise InvalidInputError(f"this folder is for pairs, got {len(texts)} texts: give premise and hypothesis")
        rows = [{"premise": a, "hypothesis": b} for a, b in zip(texts[::2], texts[1::2], strict=True)]
    if pipe.encoder.gives_answers:
        n_answers = len(answer or ())
        if n_answers != len(rows):
            raise InvalidInputError(
                f"this folder judges given answers, got {n_answers} for {len(rows)} texts: pass --answer A for each"
            )
        key = "text" if TASKS[pipe.task].is_tagging else TASKS[pipe.task].input_keys[0]
        rows = [
            (row if isinstance(row, dict) else {key: row}) | {"answer": said}
            for row, said in zip(rows, answer or (), strict=True)
        ]
    explanations = pipe.explain(rows, top=top, domain=domain)
    if as_json:
        echo(json.dumps([explanation.to_dict() for explanation in explanations], ensure_ascii=False))
    else:
        echo("\n\n".join(map(str, explanations)))
