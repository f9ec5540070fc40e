"""Which models did not learn their task: what they say of their confidence means nothing, however good it looks."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from knn_ue.data import Row, TaggedRow
from knn_ue_lab.reproduce.run import Outcome
from knn_ue_lab.reproduce.task_runner import TaskRunner
from knn_ue_lab.reproduce.variants import MethodVariant

UNLEARNED = "did not learn"
# Of what the plain model learned beyond always giving the most frequent answer.
LEAST_SHARE = 0.5


def unlearned(runner: TaskRunner, outcome: Outcome) -> dict[MethodVariant, str]:
    """Return the methods of a setup whose models did not learn, each with what to say of it.

    Detectors have no answers of their own: they are as good as the plain model, whose outputs they read.
    """
    inside = runner.setup.sets[0].name
    tagging = runner.setup.task == "token-classification"
    measure, title = ("f1", "F1") if tagging else ("right", "accuracy")
    found: dict[MethodVariant, list[float]] = {}
    detectors: dict[MethodVariant, None] = {}
    for job, content in outcome.found.items():
        value = content.get("sets", {}).get(inside, {}).get(measure)
        if job.setup != runner.setup.name or not isinstance(job.what, MethodVariant):
            continue
        if job.what.detects:
            detectors[job.what] = None
        elif value is not None:
            found.setdefault(job.what, []).append(float(value))
    means = {variant: sum(values) / len(values) for variant, values in found.items()}
    plain = means.get(MethodVariant(method="softmax"))
    if plain is None:
        return {}
    means |= dict.fromkeys(detectors, plain)
    rows = runner.data.sets[inside].rows
    found_below = below(means, plain, _most_frequent(rows), noise=1 / math.sqrt(len(rows)))
    return {variant: f"{UNLEARNED}: {title} {100 * means[variant]:.0f} %" for variant in found_below}


def below(
    means: Mapping[MethodVariant, float], plain: float, chance: float, noise: float = 0.0
) -> Collection[MethodVariant]:
    """Return those that are less than half as far above chance as the plain model.

    Where that is above chance by no more than `noise`, two standard errors of a share at most, nothing was learned to
    be compared with: then all that are no further above are returned, the plain model and what reads it among them.

    >>> scores = {MethodVariant(method="posterior"): 0.64, MethodVariant(method="sngp"): 0.75}
    >>> found = below(scores, plain=0.8, chance=0.5)
    >>> [str(variant) for variant in found]
    ['posterior']
    """
    if plain <= chance + noise:
        return [variant for variant, mean in means.items() if mean <= chance + noise]
    return [variant for variant, mean in means.items() if mean - chance < LEAST_SHARE * (plain - chance)]


def _most_frequent(rows: Iterable[Row]) -> float:
    """Return the share of the most frequent label; always giving the most frequent tag finds no entity at all."""
    counts = Counter(row.label for row in rows if not isinstance(row, TaggedRow))
    return max(counts.values()) / counts.total() if counts else 0.0
