"""Fitted pipelines on tiny models, and rows whose labels the model itself gave."""

from knn_ue.pipeline import UncertaintyPipeline
from tiny_models import ROWS, TASKS

TEXT, PAIR, WORDS = TASKS
N_NEIGHBORS = 8


def fit(model, task, **options):
    pipe = UncertaintyPipeline.from_pretrained(model, task, device="cpu")
    rows = ROWS[task]
    return pipe.fit(rows(60), rows(40, start=100), **({"n_neighbors": N_NEIGHBORS} | options))


def said_by_the_model(pipe, n_rows, *, start, wrong_every):
    """Return rows labeled with the model's own answers, but every `wrong_every`-th row with another one."""
    rows = [dict(row) for row in ROWS[pipe.task](n_rows, start=start)]
    predicted = iter(pipe.outputs(rows).predicted.tolist())
    for number, row in enumerate(rows):
        off = number % wrong_every == 0
        names = [pipe.class_names[next(predicted) - off] for _ in row.get("tokens", [0])]
        row["tags" if "tokens" in row else "label"] = names if "tokens" in row else names[0]
    return rows


def scores_of(answers):
    return [word.score for answer in answers for word in getattr(answer, "words", [answer])]
