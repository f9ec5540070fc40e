"""Scales of the experiments: the paper's own settings, two of a small encoder, quick and to cite, one of a larger."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from knn_ue.data import Task
from knn_ue.training import TrainingOptions

ScaleName = Literal["small", "reference", "base", "paper"]

# A setup is one trained task; its name is also the folder of its data sets.
TASKS: Mapping[str, Task] = {
    "sentiment": "text-classification",
    "nli": "text-pair",
    "ner": "token-classification",
    "intent": "text-classification",
}


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How large the experiments are.

    `encoders`, `options`, `train_rows` and `test_rows` are by setup; a task without options is not part of the scale.
    Sets are cut to these numbers of rows, validation sets to `validation_rows` (all without a number), drawn with a
    fixed seed; mc-dropout, which costs a pass for each of its draws, sees the first `passes_rows` of each set.
    `epsilons` are those label smoothing chooses from. With `shared_validation` the same validation rows stop the
    training and fit the method, as in the paper; otherwise each has one half. With `shared_layers` one pass over the
    rows serves dac, which reads every layer, and all other methods; large sets have no room for that. `threads` is how
    many torch uses, so that sums are added in the same order on every machine; None leaves it alone. `timed_rows` are
    timed `repeats` times. Methods that train a model of their own are measured with the first `trained_seeds` seeds,
    mc-dropout and other ways to search with the last so many, all where it is None. With `views` outputs also hold what
    familiarity looks at. With `entity_words` methods that search, and detectors, are asked only of words that are
    tagged as entities.
    """

    name: ScaleName
    n_seeds: int
    encoders: Mapping[str, str]
    options: Mapping[str, TrainingOptions]
    train_rows: Mapping[str, int] = field(default_factory=dict)
    validation_rows: int | None = None
    test_rows: Mapping[str, int] = field(default_factory=dict)
    passes_rows: int | None = None
    timed_rows: int | None = None
    repeats: int = 5
    epsilons: tuple[float, ...] = (0.01, 0.05, 0.1, 0.2, 0.3)
    shared_validation: bool = False
    shared_layers: bool = True
    threads: int | None = None
    trained_seeds: int | None = None
    views: bool = False
    entity_words: bool = False


_FAST = TrainingOptions.fast()

SMALL = Scale(
    name="small",
    n_seeds=3,
    encoders=dict.fromkeys(TASKS, "minilm"),
    options={
        "sentiment": replace(_FAST, max_length=64, epochs=2),
        "nli": replace(_FAST, max_length=64, epochs=3, learning_rate=3e-4),
        "ner": replace(_FAST, max_length=64, epochs=3, learning_rate=5e-4),
        "intent": replace(_FAST, max_length=32, epochs=5, learning_rate=5e-4),
    },
    train_rows={"sentiment": 2000, "nli": 3000, "ner": 2500, "intent": 3000},
    validation_rows=1000,
    test_rows=dict.fromkeys(TASKS, 1000),
    passes_rows=200,
    timed_rows=256,
    epsilons=(0.05, 0.1, 0.3),
    threads=1,
)

# One plain model a seed serves every post-hoc method, so those have eight. Taggers have an encoder that sees case.
_REFERENCE = replace(_FAST, reuse_frozen=True, precision="bfloat16")
REFERENCE = replace(
    SMALL,
    name="reference",
    n_seeds=8,
    trained_seeds=4,
    views=True,
    entity_words=True,
    encoders={**dict.fromkeys(TASKS, "minilm"), "ner": "cased"},
    options={
        "sentiment": replace(_REFERENCE, max_length=128, epochs=2, learning_rate=3e-4, freeze_lower=0.67),
        "nli": replace(_REFERENCE, max_length=64, epochs=2, learning_rate=3e-4),
        "ner": replace(_REFERENCE, max_length=64, epochs=3, learning_rate=2e-4, freeze_lower=0.67),
        "intent": replace(_REFERENCE, max_length=32, epochs=5, learning_rate=5e-4),
    },
    train_rows={"sentiment": 4000, "nli": 12000, "ner": 4000, "intent": 3000},
    test_rows={"sentiment": 2000, "nli": 2000, "ner": 700, "intent": 2000},
)

# An encoder near the paper's size, post-hoc methods only: do the conclusions keep? A layer costs 0.19 ms of one core
# for each sub-word, the upper ones 3.7 times that to learn; these rows are about an hour for each seed over all tasks.
# Made for whole sentences, it becomes no tagger with so few of them (docs/reproducing.md), so there is no NER.
_LARGER = replace(_REFERENCE, freeze_lower=0.75)
_OF_TEXTS = ("sentiment", "nli", "intent")
BASE = replace(
    REFERENCE,
    name="base",
    n_seeds=2,
    trained_seeds=0,
    encoders=dict.fromkeys(_OF_TEXTS, "mpnet"),
    options={
        "sentiment": replace(_LARGER, max_length=96, epochs=2, learning_rate=1e-4),
        "nli": replace(_LARGER, max_length=64, epochs=3, learning_rate=3e-4),
        "intent": replace(_LARGER, max_length=32, epochs=5, learning_rate=5e-4),
    },
    train_rows={"sentiment": 1000, "nli": 2400, "intent": 2250},
    validation_rows=500,
    test_rows=dict.fromkeys(_OF_TEXTS, 400),
)

PAPER = Scale(
    name="paper",
    n_seeds=5,
    encoders={
        "sentiment": "microsoft/mdeberta-v3-base",
        "nli": "microsoft/deberta-v3-base",
        "ner": "microsoft/mdeberta-v3-base",
        "intent": "microsoft/deberta-v3-base",
    },
    options=dict.fromkeys(TASKS, TrainingOptions()),
    shared_validation=True,
    shared_layers=False,
)

SCALES: Mapping[ScaleName, Scale] = {"small": SMALL, "reference": REFERENCE, "base": BASE, "paper": PAPER}
