"""Which models did not learn their task: what they say of their confidence means nothing, however good it looks."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from knn_ue.data import Row, TaggedRow
from knn_ue.experiments.bench import Bench
from knn_ue.experiments.run import Outcome
from knn_ue.experiments.specs import Spec

# Of what the plain model learned beyond always giving the most frequent answer.
LEAST_SHARE = 0.5


def unlearned(bench: Bench, outcome: Outcome) -> dict[Spec, str]:
    """Return the methods of a setup whose models did not learn, each with what to say of it."""
    inside = bench.setup.sets[0].name
    tagging = bench.setup.task == "token-classification"
    measure, title = ("f1", "F1") if tagging else ("right", "accuracy")
    found: dict[Spec, list[float]] = {}
    for job, content in outcome.found.items():
        value = content.get("sets", {}).get(inside, {}).get(measure)
        if job.setup == bench.setup.name and isinstance(job.what, Spec) and value is not None:
            found.setdefault(job.what, []).append(float(value))
    means = {spec: sum(values) / len(values) for spec, values in found.items()}
    plain = means.get(Spec(method="softmax"))
    if plain is None:
        return {}
    rows = bench.material.sets[inside].rows
    found_below = below(means, plain, _most_frequent(rows), noise=1 / math.sqrt(len(rows)))
    return {spec: f"did not learn: {title} {100 * means[spec]:.0f} %" for spec in found_below}


def below(means: Mapping[Spec, float], plain: float, chance: float, noise: float = 0.0) -> Collection[Spec]:
    """Return those that are less than half as far above chance as the plain model.

    Where that is above chance by no more than `noise`, two standard errors of a share at most, nothing was learned to
    be compared with: then all that are no further above are returned, the plain model and what reads it among them.

    >>> found = below({Spec(method="posterior"): 0.64, Spec(method="sngp"): 0.75}, plain=0.8, chance=0.5)
    >>> [str(spec) for spec in found]
    ['posterior']
    """
    if plain <= chance + noise:
        return [spec for spec, mean in means.items() if mean <= chance + noise]
    return [spec for spec, mean in means.items() if mean - chance < LEAST_SHARE * (plain - chance)]


def _most_frequent(rows: Iterable[Row]) -> float:
    """Return the share of the most frequent label; always giving the most frequent tag finds no entity at all."""
    counts = Counter(row.label for row in rows if not isinstance(row, TaggedRow))
    return max(counts.values()) / counts.total() if counts else 0.0
