"""The verifier of given spans: how likely is each right, by a probe on a reader's word vectors.

`fit_spans` learns from labeled sentences (50 and more) what the reader would tag (`probe`), asks what its tag
probabilities say of each span that the judged model marked (`span_features`), and a logistic with strong priors turns
that, the type, and the model's own evidence into a probability. The probe is cross-fitted by sentence: no sentence
speaks for its own spans. Its probabilities at words in no span are warnings of missed entities.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from knn_ue.arrays import BoolArray, FloatArray, IntArray, check_length, float_matrix, read_only, to_numpy
from knn_ue.entities import Spans, TagSet
from knn_ue.errors import InvalidInputError
from knn_ue.iob2 import find_spans, parse_tag
from knn_ue.verifying.logistic import fit_logistic, sigmoid
from knn_ue.verifying.probe import N_FOLDS, Probe, cross_fit_probe, fit_probe, sentence_folds
from knn_ue.verifying.span_features import FEATURES, span_features

MIN_SENTENCES = 50
WARN_FROM = 0.15  # a word in no span is worth a warning from this probability on
# Where the features usually lie, how far they spread, and the slopes that held on other data, in the order of
# FEATURES. From en_core_web_sm on five sets of sentences (Wikipedia, tweets, the web, politics, science), 100 and 200
# of them labeled, read by MiniLM: the means of what five regressions learned. With slopes from the other four sets, the
# mean E-AURC x1000 of a fifth with 50 / 100 / 200 sentences is 70 / 57 / 49; held near zero instead it is 89 / 65 / 54.
_CENTERS = np.array([-1.8, -0.6, -2.2, 1.1, -5.7, -6.4, 4.1, 4.4, -1.5, 0.7])
_SPREADS = np.array([2.4, 2.0, 2.5, 5.8, 2.4, 2.6, 2.8, 3.0, 1.6, 0.6])
_SLOPES = np.array([2.2, -0.5, 1.3, -0.5, 0.6, -0.1, 0.8, 0.5, -0.3, -0.1])
_BORDERS = ("begins", "continues", "type_before", "continues_after", "outside_before", "outside_after", "length")
_LOOSE = 3.0  # standard deviation of the intercept, and of all slopes: C = .1
_HELD = np.sqrt(0.1)
_FARTHEST = 4.0  # standard deviations; own evidence beyond says no more


@dataclass(frozen=True, kw_only=True)
class SpanParams:
    """The numbers of a fitted verifier, as plain JSON has them.

    `types` are those of the judged model, `tags` those of the probe. `slopes` are of the features, then of each type,
    then of each column of own evidence, standardized by `own_means` and `own_spreads`; `usual` is the mean of each
    column over the labeled sentences' spans.
    """

    types: tuple[str, ...]
    tags: tuple[str, ...]
    scale: float
    bias: float
    slopes: tuple[float, ...]
    usual: tuple[float, ...]
    own_means: tuple[float, ...] = ()
    own_spreads: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class SpanVerifier:
    """A fitted verifier: parameters and arrays, nothing else.

    `weights` (d, tags) and `intercepts` (tags,) are the probe's. `left_out` (m,) are the scores of the labeled
    sentences' spans as if those sentences were new, `right` (m,) which were right, and `kinds` (m,) their types:
    decisions and reports use those.
    """

    params: SpanParams
    weights: FloatArray
    intercepts: FloatArray
    left_out: FloatArray
    right: BoolArray
    kinds: IntArray

    @property
    def share_right(self) -> float:
        """The share of right spans among the labeled sentences', with one more of each kind."""
        return float((np.count_nonzero(self.right) + 1) / (len(self.right) + 2))

    def tag_probs(self, vectors: FloatArray) -> FloatArray:
        """Return the probability of each of `params.tags` (n, tags) at each word, without knowing any span."""
        values = float_matrix(vectors, "the word vectors")
        if values.shape[1] != len(self.weights):
            raise InvalidInputError(
                f"word vectors must have {len(self.weights)} columns, got {values.shape[1]}: use the reader it was "
                "fitted with"
            )
        return Probe(weights=self.weights, intercepts=self.intercepts, scale=self.params.scale).predict(values)

    def log_odds(self, vectors: FloatArray, spans: Spans, own: FloatArray | None = None) -> FloatArray:
        """Return the log-odds (m,) that each span is right, from word vectors (n, d).

        A span's `kind` is a place in `params.types`; `own` (m, k) is the judged model's own evidence, NaN if unknown.
        """
        return self.log_odds_of(self.tag_probs(vectors), spans, own)

    def log_odds_of(self, probs: FloatArray, spans: Spans, own: FloatArray | None = None) -> FloatArray:
        """Return the `log_odds` where the probe's probabilities are known."""
        check_length(len(probs), "the word vectors", spans.n_words)
        terms: FloatArray = self.params.bias + self._columns(probs, spans, own) @ np.array(self.params.slopes)
        return terms

    def probabilities(self, vectors: FloatArray, spans: Spans, own: FloatArray | None = None) -> FloatArray:
        """Return the probability (m,) that each span is right: its type, its first and its last word."""
        return sigmoid(self.log_odds(vectors, spans, own))

    def terms_of(self, probs: FloatArray, spans: Spans, own: FloatArray | None = None) -> dict[str, FloatArray]:
        """Return what each part of the evidence adds (m,) to the log-odds of a usual span.

        `type` is whether the reader would call it so, `borders` whether it would begin and end there, `record` how
        often the type was right, and `own` what the model says itself.
        """
        columns = self._columns(probs, spans, own)
        terms = (columns - np.array(self.params.usual)) * np.array(self.params.slopes)
        n_features, n_types = len(FEATURES), len(self.params.types)
        borders = [FEATURES.index(name) for name in _BORDERS]
        others = np.setdiff1d(np.arange(n_features), borders)
        parts = {
            "type": others,
            "borders": borders,
            "record": slice(n_features, n_features + n_types),
            "own": slice(n_features + n_types, None),
        }
        return {name: terms[:, places].sum(axis=1) for name, places in parts.items()}

    def hidden(self, probs: FloatArray, spans: Spans) -> FloatArray:
        """Return the probability (n,) that a word in no span is part of an entity, 0 for all others."""
        tags = TagSet.of(self.params.tags)
        return np.where(spans.covered, 0.0, probs[:, tags.kind >= 0].sum(axis=1))

    def state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the parameters as plain JSON and the arrays by name: all that `restored` needs."""
        return asdict(self.params), {name: getattr(self, name) for name in _ARRAYS}

    @classmethod
    def restored(cls, params: SpanParams, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Restore a verifier from its parameters and arrays; ValueError where they do not go together."""
        verifier = cls(params=params, **{name: arrays[name] for name in _ARRAYS})
        n_own, n_columns = len(params.own_means), len(FEATURES) + len(params.types) + len(params.own_means)
        sizes = (len(params.slopes), len(params.usual), len(params.own_spreads))
        numbers = np.array([params.scale, params.bias, *params.slopes, *params.usual, *params.own_means])
        shapes = (verifier.weights.shape[1:], verifier.intercepts.shape)
        if sizes != (n_columns, n_columns, n_own) or shapes != ((len(params.tags),),) * 2:
            raise ValueError("the parts of the verifier do not go together")
        if not (np.isfinite(numbers).all() and np.isfinite(verifier.weights).all()):
            raise ValueError("the verifier has numbers that are not finite")
        if not (verifier.intercepts < np.inf).all() or min(params.scale, *params.own_spreads, 1.0) <= 0:
            raise ValueError("the verifier has numbers that are out of range")
        return verifier

    def _columns(self, probs: FloatArray, spans: Spans, own: FloatArray | None) -> FloatArray:
        params = self.params
        columns = _columns(probs, spans, params.types, params.tags)
        if not params.own_means:
            return columns
        if own is None:
            raise InvalidInputError("the verifier was fitted with own evidence: pass own, NaN where unknown")
        evidence = _own_evidence(own, len(spans), n_columns=len(params.own_means))
        return np.hstack([columns, _standardized(evidence, np.array(params.own_means), np.array(params.own_spreads))])


_ARRAYS = ("weights", "intercepts", "left_out", "right", "kinds")


def fit_spans(
    vectors: FloatArray,
    gold: Sequence[str],
    spans: Spans,
    types: Sequence[str],
    own: FloatArray | None = None,
) -> SpanVerifier:
    """Learn from labeled sentences which given spans to trust.

    `vectors` (n, d) and the IOB2 tags `gold` (n,) are of all words, one sentence after another; `spans` are those that
    the judged model marked, their `kind` a place in `types`; they may overlap. `own` (m, k) is the model's own evidence
    for each, such as the log-odds of its confidence, NaN where unknown.
    """
    return judge_spans(learn_tags(vectors, gold, spans.starts), gold, spans, types, own)


@dataclass(frozen=True, kw_only=True, eq=False)
class LearnedTags:
    """What a reader learned of tags: the `probe`, and `left_out` (n, tags), where each fold is read by the others'.

    `folds` (sentences,) is the fold of each sentence.
    """

    tags: tuple[str, ...]
    probe: Probe
    left_out: FloatArray
    folds: IntArray


def learn_tags(vectors: FloatArray, gold: Sequence[str], starts: IntArray) -> LearnedTags:
    """Fit the probe on word vectors (n, d) and IOB2 tags `gold` (n,) of sentences that begin at `starts`."""
    if len(starts) < MIN_SENTENCES:
        raise InvalidInputError(
            f"the verifier needs at least {MIN_SENTENCES} labeled sentences, got {len(starts)}: with fewer it cannot "
            "be checked; label more"
        )
    vectors = float_matrix(vectors, "the word vectors")
    check_length(len(vectors), "the word vectors", len(gold))
    tags, numbers = _tag_numbers(gold)
    folds = sentence_folds(len(starts))
    of_word = folds[np.searchsorted(starts, np.arange(len(gold)), side="right") - 1]
    return LearnedTags(
        tags=tags,
        probe=fit_probe(vectors, numbers, n_tags=len(tags)),
        left_out=cross_fit_probe(vectors, numbers, of_word, n_tags=len(tags)),
        folds=folds,
    )


def judge_spans(
    learned: LearnedTags, gold: Sequence[str], spans: Spans, types: Sequence[str], own: FloatArray | None = None
) -> SpanVerifier:
    """Learn which spans to trust from what a reader learned of the tags of the same sentences; see `fit_spans`."""
    check_length(len(gold), "the gold tags", spans.n_words)
    right = right_spans(gold, spans, types)
    columns = _columns(learned.left_out, spans, types, learned.tags)
    means: FloatArray = np.zeros(0)
    spreads: FloatArray = np.zeros(0)
    if own is not None:
        evidence = _own_evidence(own, len(spans))
        means, spreads = _usual(evidence)
        columns = np.hstack([columns, _standardized(evidence, means, spreads)])
    bias, *slopes = _fit_verdict(columns, right).tolist()
    params = SpanParams(
        types=tuple(types),
        tags=learned.tags,
        scale=learned.probe.scale,
        bias=bias,
        slopes=tuple(slopes),
        usual=tuple((columns.mean(axis=0) if len(columns) else np.zeros(columns.shape[1])).tolist()),
        own_means=tuple(means.tolist()),
        own_spreads=tuple(spreads.tolist()),
    )
    left_out = np.zeros(len(spans))
    for fold in range(N_FOLDS):
        inside = learned.folds[spans.sentence] == fold
        found = _fit_verdict(columns[~inside], right[~inside])
        left_out[inside] = sigmoid(found[0] + columns[inside] @ found[1:])
    return SpanVerifier(
        params=params,
        weights=read_only(learned.probe.weights),
        intercepts=read_only(learned.probe.intercepts),
        left_out=read_only(left_out),
        right=read_only(right),
        kinds=read_only(spans.kind),
    )


def right_spans(gold: Sequence[str], spans: Spans, types: Sequence[str]) -> BoolArray:
    """Return which spans (m,) are gold entities, with type, first and last word, where `gold` (n,) are IOB2 tags."""
    names, (found,) = find_spans([list(gold)], spans.starts)
    places = {name: number for number, name in enumerate(types)}
    kinds = np.array([places.get(name, -2) for name in names], dtype=np.int64)
    known = Spans(kind=kinds[found[0]], first=found[1], last=found[2], starts=spans.starts, n_words=spans.n_words)
    return spans.same_in(known)


def _tag_numbers(gold: Sequence[str]) -> tuple[tuple[str, ...], IntArray]:
    """Return the tags that a probe learns, B and I of each type of `gold` and O, and their numbers (n,)."""
    kinds = sorted({kind for prefix, kind in map(parse_tag, set(gold)) if prefix != "O"})
    tags = ("O", *(f"{prefix}-{kind}" for kind in kinds for prefix in "BI"))
    places = {parse_tag(tag): number for number, tag in enumerate(tags)}
    number_of = {tag: places[parse_tag(tag)] for tag in set(gold)}
    return tags, np.array([number_of[tag] for tag in gold], dtype=np.int64)


def _columns(probs: FloatArray, spans: Spans, types: Sequence[str], tags: Sequence[str]) -> FloatArray:
    """Return the standardized features and the types (m, features + types)."""
    tag_set = TagSet.of(tags)
    places = [tag_set.names.index(name) if name in tag_set.names else len(tag_set.names) for name in types]
    theirs = Spans(
        kind=np.array(places, dtype=np.int64)[spans.kind],
        first=spans.first,
        last=spans.last,
        starts=spans.starts,
        n_words=spans.n_words,
    )
    features = (span_features(probs, theirs, tag_set) - _CENTERS) / _SPREADS
    return np.hstack([features, spans.kind[:, None] == np.arange(len(types))])


def _fit_verdict(columns: FloatArray, right: BoolArray) -> FloatArray:
    """Return the intercept and the slope of each column, held near those that held on other data."""
    means = np.zeros(1 + columns.shape[1])
    means[1 : 1 + len(FEATURES)] = _SLOPES
    spreads = np.full(len(means), _HELD)
    spreads[0] = _LOOSE
    return fit_logistic(np.column_stack([np.ones(len(right)), columns]), right, means=means, spreads=spreads)


def _own_evidence(values: object, n_spans: int, n_columns: int | None = None) -> FloatArray:
    evidence = to_numpy(values, "own")
    evidence = evidence[:, None] if evidence.ndim == 1 else evidence
    if evidence.ndim != 2 or evidence.shape[1] != (n_columns or evidence.shape[1]):
        raise InvalidInputError(f"own must have {n_columns or 'some'} columns, one row per span, got {evidence.shape}")
    check_length(len(evidence), "own", n_spans)
    if np.isinf(evidence).any():
        raise InvalidInputError("own must be finite or NaN (unknown), got an infinite number: replace it")
    return evidence.astype(np.float64)


def _usual(evidence: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation (k,) of the known values of each column."""
    known = ~np.isnan(evidence)
    n_known = np.maximum(known.sum(axis=0), 1)
    means = np.where(known, evidence, 0.0).sum(axis=0) / n_known
    spreads = np.sqrt((np.where(known, evidence - means, 0.0) ** 2).sum(axis=0) / n_known)
    return means, np.where(spreads > 1e-9 * np.maximum(1.0, np.abs(means)), spreads, 1.0)


def _standardized(evidence: FloatArray, means: FloatArray, spreads: FloatArray) -> FloatArray:
    standardized: FloatArray = np.clip(np.nan_to_num((evidence - means) / spreads), -_FARTHEST, _FARTHEST)
    return standardized
