"""Problems whose right answer is known, made of nothing but numpy: for tests, documentation and the demo."""

import numpy as np
import numpy.typing as npt

from knn_ue.arrays import FloatArray, IntArray, check_positive
from knn_ue.errors import InvalidInputError
from knn_ue.types import Outputs

# two_blobs
_BLOB_CENTERS = np.array([[-1.0, 0.0], [1.0, 0.0]])

# pockets
_N_CLASSES = 3
_N_HIDDEN = 5
_SEPARATION = 2.5
_MODEL_OVERCONFIDENT_BY = 2.0
_CLUSTER_CENTERS = 5.0 * np.vstack([np.eye(_N_HIDDEN), -np.eye(_N_HIDDEN)])
_CLUSTER_SPREAD = 0.5
_N_POCKETS = 3  # the first clusters
_FAR_DISTANCE = (10.0, 15.0)
_OUT_DISTANCE = (20.0, 25.0)
# The share of labels that are replaced by a class drawn at random.
_REPLACED = {"plain": 0.0, "pocket": 0.8, "far": 0.8, "out": 1.0}

# tagged_sentences
_TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
_TAG_DISTANCE = 2.0
_AFTER = np.array(  # the tag of a word, given that of the word before it
    [
        [0.70, 0.15, 0.0, 0.15, 0.0],
        [0.45, 0.05, 0.5, 0.0, 0.0],
        [0.65, 0.05, 0.3, 0.0, 0.0],
        [0.65, 0.0, 0.0, 0.05, 0.3],
        [0.75, 0.0, 0.0, 0.05, 0.2],
    ]
)


def two_blobs(
    *,
    overconfident_by: float = 3.0,
    n_train: int = 2000,
    n_validation: int = 2000,
    n_test: int = 4000,
    seed: int = 0,
) -> tuple[Outputs, Outputs, Outputs]:
    """Return train, validation and test rows of two overlapping blobs in the plane, and a model that shouts.

    True by construction: both classes are equally likely, blob c is Normal((-1, 0) or (1, 0), identity), and the
    logits are the true log-posterior times `overconfident_by`. So softmax(logits / overconfident_by) is perfectly
    calibrated, Temperature Scaling should find T = `overconfident_by`, and no ranking is expected to beat the model's.

    >>> train, validation, test = two_blobs(n_train=3)
    >>> train.features.shape, train.logits.shape, len(train.layers), train.class_names
    ((3, 2), (3, 2), 3, ('left', 'right'))
    """
    if not overconfident_by > 0:
        raise InvalidInputError(f"overconfident_by must be above 0, got {overconfident_by!r}: 1 is a calibrated model")
    sizes = {"n_train": n_train, "n_validation": n_validation, "n_test": n_test}
    for name, size in sizes.items():
        check_positive(size, name)
    train, validation, test = (
        _blobs(size, overconfident_by, np.random.default_rng([seed, part])) for part, size in enumerate(sizes.values())
    )
    return train, validation, test


def pockets(
    *, n_train: int = 2000, n_validation: int = 1500, n_test: int = 2000, n_out: int = 1000, seed: int = 0
) -> tuple[Outputs, Outputs, Outputs, Outputs]:
    """Return train, validation, test and out-of-domain rows of 3 classes where neighbors know more than the model.

    The model sees the first 3 of 8 features. True by construction:

    - what it sees has one distribution everywhere, so no function of the logits can tell one region from another;
      its logits are twice the true log-posterior of a label that nobody replaced;
    - the 5 features it does not see put rows into 10 clusters, all alike in size and density. Seven are "plain". In
      three, the "pockets", 80 % of the labels are replaced by a class drawn at random, in train as elsewhere: only
      the labels of the neighbors give them away;
    - 15 % of validation and test, and none of train, are "far", 10 to 15 from the center where clusters are at 5;
      80 % of their labels are replaced: only the distance gives them away;
    - "out", the out-of-domain rows, are 20 to 25 away, and all their labels are replaced: accuracy is 1 in 3.

    The text of a row names its region and what the model sees of it.

    >>> train, validation, test, out_of_domain = pockets(n_train=10)
    >>> train.features.shape, train.logits.shape, len(out_of_domain)
    ((10, 8), (10, 3), 1000)
    """
    sizes = {"n_train": n_train, "n_validation": n_validation, "n_test": n_test, "n_out": n_out}
    for name, size in sizes.items():
        check_positive(size, name)
    away: tuple[dict[str, float], ...] = ({}, {"far": 0.15}, {"far": 0.15}, {"out": 1.0})
    train, validation, test, out_of_domain = (
        _rows_with_pockets(size, shares, np.random.default_rng([seed, part]))
        for part, (size, shares) in enumerate(zip(sizes.values(), away, strict=True))
    )
    return train, validation, test, out_of_domain


def tagged_sentences(
    *,
    overconfident_by: float = 2.0,
    n_train: int = 200,
    n_validation: int = 200,
    n_test: int = 300,
    n_words: int = 8,
    seed: int = 0,
) -> tuple[Outputs, Outputs, Outputs]:
    """Return train, validation and test sentences of `n_words` words, IOB2 tags of two types, and a model that shouts.

    True by construction: tags follow a Markov chain that never writes an I- after another type, and the features of a
    word with tag c are Normal(2 e_c, identity). The model sees one word at a time: its logits are the true
    log-posterior of the tag given the word, with all tags equally likely, times `overconfident_by`. So its entities
    are right less often than the product of its words' confidences says, and their ends are where it errs.

    >>> train, validation, test = tagged_sentences(n_train=3)
    >>> train.features.shape, train.class_names, train.groups[:9].tolist()
    ((24, 5), ('O', 'B-PER', 'I-PER', 'B-LOC', 'I-LOC'), [0, 0, 0, 0, 0, 0, 0, 0, 1])
    """
    sizes = {"n_train": n_train, "n_validation": n_validation, "n_test": n_test}
    for name, size in {**sizes, "n_words": n_words}.items():
        check_positive(size, name)
    train, validation, test = (
        _tagged(size, n_words, overconfident_by, np.random.default_rng([seed, part]))
        for part, size in enumerate(sizes.values())
    )
    return train, validation, test


def given_answers(*, n_labeled: int = 200, n_test: int = 600, seed: int = 0) -> tuple[Outputs, Outputs]:
    """Return labeled and test outputs of a model that one cannot open: texts on three topics, and what it answered.

    It is right on seven of ten texts, mostly says "food" where it is not, and never says how sure it is. Of the two
    nouns in a text three in ten are of any topic.

    >>> labeled, test = given_answers()
    >>> labeled.class_names, labeled.texts[0]
    (('food', 'sport', 'travel', '(other)'), 'a late ticket by apple')
    """
    for name, size in (("n_labeled", n_labeled), ("n_test", n_test)):
        check_positive(size, name)
    rng = np.random.default_rng(seed)
    return _given(n_labeled, rng), _given(n_test, rng)


_TOPICS = {
    "food": ("soup", "bread", "dinner", "cheese", "apple"),
    "sport": ("match", "goal", "runner", "league", "racket"),
    "travel": ("train", "flight", "hotel", "island", "ticket"),
}
_RIGHT, _OFF_TOPIC, _UNSTATED = 0.7, 0.3, 14.5


def _given(n_rows: int, rng: np.random.Generator) -> Outputs:
    names = tuple(_TOPICS)
    labels = rng.integers(len(names), size=n_rows)
    shown = np.where(rng.random((n_rows, 2)) < _OFF_TOPIC, rng.integers(len(names), size=(n_rows, 2)), labels[:, None])
    words = [[str(rng.choice(_TOPICS[names[topic]])) for topic in row] for row in shown]
    wrong = np.where(rng.random(n_rows) < 0.7, 0, rng.integers(len(names), size=n_rows))
    answers = np.where(rng.random(n_rows) < _RIGHT, labels, wrong)
    logits = np.zeros((n_rows, len(names) + 1))
    logits[np.arange(n_rows), answers] = _UNSTATED + np.log(len(names))
    return Outputs(
        logits=logits,
        decoded=answers,
        labels=labels,
        class_names=(*names, "(other)"),
        texts=[f"a {rng.choice(('cheap', 'late', 'new'))} {first} by {second}" for first, second in words],
    )


def _tagged(n_sentences: int, n_words: int, overconfident_by: float, rng: np.random.Generator) -> Outputs:
    tags = np.zeros((n_sentences, n_words), dtype=np.int64)
    before = np.zeros(n_sentences, dtype=np.int64)
    for place in range(n_words):
        drawn = rng.random(n_sentences)
        tags[:, place] = before = (drawn[:, None] > np.cumsum(_AFTER[before], axis=1)).sum(axis=1).clip(max=4)
    labels = tags.ravel()
    means = _TAG_DISTANCE * np.eye(len(_TAGS))
    features = (means[labels] + rng.normal(size=(len(labels), len(_TAGS)))).astype(np.float32)
    logits = overconfident_by * _log_posterior(_TAG_DISTANCE * features.astype(np.float64))
    return Outputs(
        features=features,
        logits=logits,
        labels=labels,
        groups=np.repeat(np.arange(n_sentences), n_words),
        class_names=_TAGS,
        texts=[_point(row) for row in features],
    )


def _blobs(n_rows: int, overconfident_by: float, rng: np.random.Generator) -> Outputs:
    labels = rng.integers(2, size=n_rows)
    features = _BLOB_CENTERS[labels] + rng.normal(size=(n_rows, 2))
    squared = np.square(features[:, None] - _BLOB_CENTERS).sum(axis=2)
    return Outputs(
        features=features,
        logits=overconfident_by * _log_posterior(-0.5 * squared),
        labels=labels,
        layers=_layers(features, features[:, :1]),
        class_names=("left", "right"),
        texts=[f"blob {label} at {_point(row)}" for label, row in zip(labels, features, strict=True)],
    )


def _rows_with_pockets(n_rows: int, away: dict[str, float], rng: np.random.Generator) -> Outputs:
    cluster = rng.integers(len(_CLUSTER_CENTERS), size=n_rows)
    region = np.where(cluster < _N_POCKETS, "pocket", "plain")
    for name, share in away.items():
        region[rng.random(n_rows) < share] = name
    clean = rng.integers(_N_CLASSES, size=n_rows)
    seen = _SEPARATION * np.eye(_N_CLASSES)[clean] + rng.normal(size=(n_rows, _N_CLASSES))
    features = np.hstack([seen, _hidden_features(region, cluster, rng)])
    replaced = rng.random(n_rows) < np.array([_REPLACED[name] for name in region])
    return Outputs(
        features=features,
        logits=_MODEL_OVERCONFIDENT_BY * _log_posterior(_SEPARATION * seen),
        labels=np.where(replaced, rng.integers(_N_CLASSES, size=n_rows), clean),
        layers=_layers(features, seen),
        class_names=("red", "green", "blue"),
        texts=[f"{name}, model sees {_point(row)}" for name, row in zip(region, seen, strict=True)],
    )


def _hidden_features(region: npt.NDArray[np.str_], cluster: IntArray, rng: np.random.Generator) -> FloatArray:
    direction = rng.normal(size=(len(region), _N_HIDDEN))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    center = _CLUSTER_CENTERS[cluster]
    for name, between in (("far", _FAR_DISTANCE), ("out", _OUT_DISTANCE)):
        there = region == name
        center[there] = rng.uniform(*between, size=(int(there.sum()), 1)) * direction[there]
    return center + _CLUSTER_SPREAD * rng.normal(size=center.shape)


def _layers(features: FloatArray, early: FloatArray) -> list[FloatArray]:
    """Return three layers: one that is constant, as the embedding of a CLS token is, an early and the last one."""
    return [np.ones((len(features), 4)), early, features]


def _log_posterior(scores: FloatArray) -> FloatArray:
    top = scores.max(axis=1, keepdims=True)
    log_posterior: FloatArray = scores - top - np.log(np.exp(scores - top).sum(axis=1, keepdims=True))
    return log_posterior


def _point(row: FloatArray) -> str:
    return f"({', '.join(f'{value:.1f}' for value in row)})"
