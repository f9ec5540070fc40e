"""knn-ue-entity: honest entities and sentences on a problem where products of words are not."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from held import forge_state
from knn_ue import metrics
from knn_ue.calibrators import KnnUE, KnnUEEntity, TemperatureScaling
from knn_ue.entities import INGREDIENTS, all_right, find_entities
from knn_ue.entities.missed import hidden_words
from knn_ue.errors import InvalidInputError, NotFittedError, StorageError
from knn_ue.methods import load_calibrator
from knn_ue.stores import Datastore
from knn_ue.toy import tagged_sentences
from knn_ue.types import Outputs


@pytest.fixture(scope="module")
def sets():
    return tagged_sentences(n_train=300, n_validation=300, n_test=600, seed=0)


@pytest.fixture(scope="module")
def few(sets):
    """A hundred of the test sentences, for what is true of each: to explain them all takes long."""
    return sets[2].take(sets[2].groups < 100)


@pytest.fixture(scope="module")
def fitted(sets):
    return fit(sets[0], sets[1])


def fit(train, validation):
    return KnnUEEntity(Datastore.build(train.features, train.labels, texts=train.texts), n_neighbors=8).fit(validation)


def with_logits(outputs, logits):
    return Outputs(
        features=outputs.features,
        logits=logits,
        labels=outputs.labels,
        groups=outputs.groups,
        class_names=outputs.class_names,
    )


def right_entities(outputs):
    return find_entities(outputs, outputs.predicted).same_in(find_entities(outputs, outputs.labels))


def test_entity_scores_are_honest_where_products_are_not(fitted, sets):
    test = sets[2]
    reading, correct = fitted.read(test), right_entities(test)
    spans = reading.spans
    words = fitted.predict(test).confidence
    product = np.array([words[a : b + 1].prod() for a, b in zip(spans.first, spans.last, strict=True)])

    ours, theirs = (
        metrics.expected_calibration_error(confidence=x, correct=correct) for x in (reading.scores, product)
    )

    assert ours < 0.04 < 0.1 < theirs
    assert metrics.e_aurc(confidence=reading.scores, correct=correct) < metrics.e_aurc(
        confidence=product, correct=correct
    )


def test_a_sentence_is_never_surer_than_its_least_sure_part(fitted, sets):
    reading = fitted.read(sets[2])

    least = reading.none_missed.copy()
    for sentence, score in zip(reading.spans.sentence.tolist(), reading.scores.tolist(), strict=True):
        least[sentence] = min(least[sentence], score)

    assert (reading.sentence_scores <= least).all()


def test_sentence_scores_are_honest_and_rank(fitted, sets):
    test = sets[2]
    right = all_right(find_entities(test, test.predicted), find_entities(test, test.labels))

    scores = fitted.read(test).sentence_scores

    assert 0.02 < right.mean() < 0.98
    assert metrics.expected_calibration_error(confidence=scores, correct=right) < 0.07
    assert metrics.auroc(confidence=scores, correct=right) > 0.65


def test_chances_of_hidden_words_are_honest(fitted, sets):
    test = sets[2]
    reading = fitted.read(test)
    hidden = hidden_words(reading.spans, find_entities(test, test.labels))
    asked = ~reading.spans.covered

    assert reading.hidden[asked].mean() == pytest.approx(hidden[asked].mean(), rel=0.25)
    assert (reading.hidden[~asked] == 0).all()


def test_words_of_entities_are_those_of_knn_ue_without_labels_and_the_rest_has_one_temperature(fitted, sets):
    validation, test = sets[1:]
    known, asked = fitted.searched(validation), fitted.searched(test)
    knn = KnnUE(fitted.store, n_neighbors=8, use_labels=False).fit(validation.take(known))
    temperature = TemperatureScaling().fit(validation.take(~known))

    probs = fitted.predict_proba(test)

    np.testing.assert_allclose(probs[asked], knn.predict_proba(test.take(asked)), rtol=1e-9)
    np.testing.assert_allclose(probs[~asked], temperature.predict_proba(test.take(~asked)), rtol=1e-9)


class CountingStore:
    """A store that counts the queries."""

    def __init__(self, store):
        self.store, self.n_queries = store, 0

    def __getattr__(self, name):
        return getattr(self.store, name)

    def __len__(self):
        return len(self.store)

    def search(self, features, n_neighbors):
        self.n_queries += len(features)
        return self.store.search(features, n_neighbors)


def test_only_the_words_of_entities_are_searched_and_a_full_search_says_the_same(sets, few):
    store = CountingStore(Datastore.build(sets[0].features, sets[0].labels))
    ue = KnnUEEntity(store, n_neighbors=8).fit(sets[1])
    n_words = [int(find_entities(part, part.predicted).covered.sum()) for part in (sets[1], few)]

    part = ue.answer(few)

    assert store.n_queries == sum(n_words)
    everything = {"store": store.store.search(few.features, 8)}
    full = ue.answer(few, found=everything)
    np.testing.assert_array_equal(part.reading.scores, full.reading.scores)
    np.testing.assert_array_equal(part.reading.sentence_scores, full.reading.sentence_scores)
    np.testing.assert_array_equal(part.prediction.probs, full.prediction.probs)
    assert part.explanations == full.explanations


def test_a_word_outside_entities_is_explained_without_neighbors(fitted, few):
    explained = fitted.explain(few)

    for one, near in zip(explained, fitted.searched(few).tolist(), strict=True):
        assert bool(one.neighbors) == near
        assert (one.distance_term is None) == (not near)


def test_the_answer_of_one_search_is_that_of_three(fitted, few):
    full = fitted.answer(few, top=3)

    np.testing.assert_array_equal(full.prediction.probs, fitted.predict_proba(few))
    np.testing.assert_array_equal(full.reading.scores, fitted.read(few).scores)
    assert full.explanations == fitted.explain_entities(few, top=3)


def test_sentences_alone_and_together_have_the_same_scores(fitted, sets):
    test = sets[2]
    together = fitted.read(test)

    for number in range(20):
        rows = np.flatnonzero(test.groups == number)
        alone = fitted.read(test.take(rows))
        np.testing.assert_allclose(alone.scores, together.scores[together.spans.sentence == number], rtol=1e-9)
        np.testing.assert_allclose(alone.sentence_scores, together.sentence_scores[number], rtol=1e-9)


def test_farther_examples_never_raise_a_score(fitted, sets):
    test = sets[2]
    near = fitted.store.search(test.features, 8)
    # Distance says nothing about this problem; a fit on one sentence still believes that it does.
    believer = fit(sets[0], sets[1].take(np.flatnonzero(sets[1].groups == 0)))
    for ue in (fitted, believer):
        scores = []
        for factor in (0.0, 0.5, 1.0, 2.0, 10.0, 1e6):
            moved = type(near)(ids=near.ids, distances=near.distances * factor, labels=near.labels)
            scores.append(ue.entities_.read(test, moved).scores)
        assert (np.diff(scores, axis=0) <= 0).all()
    assert (scores[0] > scores[-1] + 0.1).any()


def test_more_agreement_never_lowers_a_score(fitted, sets):
    test = sets[2]
    near = fitted.store.search(test.features, 8)
    scores = []
    for n_agreeing in range(9):
        labels = np.zeros_like(near.labels)
        labels[:, :n_agreeing] = test.predicted[:, None]
        changed = type(near)(ids=near.ids, distances=near.distances, labels=labels)
        scores.append(fitted.entities_.read(test, changed).scores)

    assert (np.diff(scores, axis=0) >= 0).all()


def test_save_then_load_reads_the_same(fitted, few, tmp_path):
    fitted.save(tmp_path / "ue")

    loaded = load_calibrator(tmp_path / "ue")

    assert isinstance(loaded, KnnUEEntity)
    assert loaded.entities_ == fitted.entities_
    np.testing.assert_array_equal(loaded.read(few).sentence_scores, fitted.read(few).sentence_scores)
    assert loaded.explain_entities(few) == fitted.explain_entities(few)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("entity", "slopes"), [1.0] * 7),
        (("entity", "slopes"), [1.0]),
        (("entity", "intercept"), "x"),
        (("entity", "scale"), [0.0] * 7),
        (("missed", "any_case", "slopes"), [-1.0, 0.0]),
        (("missed", "usual_case"), {"slopes": [1.0]}),
        (("ingredients",), ["type", "color"]),
        (("usual", "distance"), 0.0),
        (("exponents",), [1.0, -1.0]),
        (("clear_exponent",), None),
        (("missed",), {}),
        (("ingredients",), ["type"] * 7),
    ],
)
def test_numbers_nobody_fitted_are_refused_when_loaded(fitted, tmp_path, path, value):
    fitted.save(tmp_path / "ue")
    model = asdict(fitted.entities_)
    place = model
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    forge_state(tmp_path / "ue", entities_=model)

    with pytest.raises(StorageError, match=r"does not hold a valid knn-ue-entity .*: restore it"):
        load_calibrator(tmp_path / "ue")


def test_a_corpus_where_entities_that_touch_are_wrong_does_not_condemn_those_of_others(sets):
    """Whether two in a row are one cut in two is a habit of the corpus: validation may lower them, not to nothing."""
    validation = sets[1]
    spans = find_entities(validation, validation.predicted)
    touching = spans.touching(touches_another(validation, spans))
    assert touching.sum() > 50
    gold = np.where(touching, 0, validation.predicted)

    model = fit(sets[0], only(validation, validation.predicted, gold)).entities_.entity

    place = INGREDIENTS.index("apart")
    assert 0.2 < model.slopes[place] / model.scale[place] < 3.0


def touches_another(outputs, spans):
    ends = {(int(outputs.groups[last]), int(last) + 1) for last in spans.last}
    firsts = {(int(outputs.groups[first]), int(first)) for first in spans.first}
    shared = ends & firsts
    rows = zip(spans.first.tolist(), spans.last.tolist(), strict=True)
    return np.array([bool({(outputs.groups[a], a), (outputs.groups[a], b + 1)} & shared) for a, b in rows])


def test_outputs_that_are_no_sentences_give_words_only(toy):
    train, validation, test = toy
    ue = fit(train, validation)

    assert not ue.reads_entities
    assert ue.predict_proba(test).shape == test.logits.shape
    with pytest.raises(InvalidInputError, match="entity scores need a fit on sentences"):
        ue.read(test)


def test_rows_without_groups_are_refused_by_a_fit_on_sentences(fitted, sets):
    test = sets[2]
    plain = Outputs(features=test.features, logits=test.logits, class_names=test.class_names)

    with pytest.raises(InvalidInputError, match="entities need Outputs with groups"):
        fitted.read(plain)


def test_read_before_fit_says_so(sets):
    with pytest.raises(NotFittedError):
        KnnUEEntity(Datastore.build(sets[0].features, sets[0].labels)).read(sets[2])


def test_no_rows_give_no_entities(fitted, sets):
    reading = fitted.read(sets[2].take([]))

    assert len(reading.scores) == len(reading.sentence_scores) == len(reading.missed) == 0


@pytest.mark.parametrize("n_sentences", [1, 2, 5])
def test_a_handful_of_sentences_is_enough_for_sane_scores(sets, n_sentences):
    few = sets[1].take(np.flatnonzero(sets[1].groups < n_sentences))

    reading, correct = fit(sets[0], few).read(sets[2]), right_entities(sets[2])

    assert metrics.expected_calibration_error(confidence=reading.scores, correct=correct) < 0.4
    assert metrics.auroc(confidence=reading.scores, correct=correct) > 0.6


def only(outputs, predicted, gold=None):
    """The same sentences, where the model says `predicted` everywhere, and `gold` is true."""
    logits = np.full(outputs.logits.shape, -4.0)
    logits[np.arange(len(outputs)), predicted] = 4.0
    changed = with_logits(outputs, logits)
    return Outputs(
        features=outputs.features,
        logits=logits,
        labels=predicted if gold is None else gold,
        groups=outputs.groups,
        class_names=changed.class_names,
    )


def test_a_validation_set_without_any_entity_leaves_the_guess(sets):
    nothing = np.zeros(len(sets[1]), dtype=int)

    reading = fit(sets[0], only(sets[1], nothing)).read(sets[2])

    assert np.isfinite(reading.scores).all()
    assert np.isfinite(reading.sentence_scores).all()
    assert 0.05 < reading.scores.mean() < 0.95


@pytest.mark.parametrize("all_are_right", [True, False])
def test_entities_that_are_all_right_or_all_wrong_stay_short_of_certain(sets, all_are_right):
    predicted = np.where(np.arange(len(sets[1])) % 4 == 0, 1, 0)
    gold = predicted if all_are_right else np.zeros(len(predicted), dtype=int)
    validation = only(sets[1], predicted, gold)

    scores = fit(sets[0], validation).read(validation).scores

    assert (scores > 0.9).all() if all_are_right else (scores < 0.1).all()
    assert ((scores >= 0.0009) & (scores <= 0.9991)).all()


def test_a_type_that_validation_never_showed_is_scored_like_the_others(sets):
    train, validation, test = sets
    known = ~np.isin(validation.groups, validation.groups[np.isin(validation.predicted, (3, 4))])
    half = fit(train, validation.take(np.flatnonzero(known)))

    reading, correct = half.read(test), right_entities(test)
    unseen = reading.spans.kind == 1

    assert unseen.sum() > 100
    assert abs(reading.scores[unseen].mean() - correct[unseen].mean()) < 0.1


def test_an_explanation_adds_up_to_the_score(fitted, sets):
    explained = fitted.explain_entities(sets[2], top=2)

    model = fitted.entities_.entity
    for one in explained[:50]:
        assert tuple(one.terms) == fitted.entities_.ingredients
        log_odds = np.clip(model.intercept + sum(one.terms.values()), -7, 7)
        assert one.score == pytest.approx(1 / (1 + np.exp(-log_odds)))
        assert len(one.neighbors) == 2
    assert any(one.lowered_by for one in explained)
    assert "PER" in str(explained[0]) or "LOC" in str(explained[0])


@pytest.mark.slow
def test_inputs_far_from_everything_stay_finite(fitted, sets):
    test = sets[2]
    far = Outputs(
        features=test.features * np.float32(1e6),
        logits=test.logits * 1e20,
        groups=test.groups,
        class_names=test.class_names,
    )

    reading = fitted.read(far)

    assert np.isfinite(reading.scores).all()
    assert np.isfinite(reading.sentence_scores).all()


def with_words(outputs, *, seed=0):
    """The same sentences, written as a careful writer would: words of gold entities are capitalized."""
    draw = np.random.default_rng(seed)
    careless = draw.random(len(outputs)) < 0.05
    first = np.diff(outputs.groups, prepend=-1) != 0
    capital = ((outputs.labels > 0) ^ careless) | first
    words = ["Word" if is_capital else "word" for is_capital in capital.tolist()]
    return replace(outputs, words=words)


@pytest.fixture(scope="module")
def written(sets):
    return [with_words(part, seed=number) for number, part in enumerate(sets)]


@pytest.fixture(scope="module")
def cased(written):
    return fit(written[0], written[1])


def test_the_case_of_words_ranks_entities_better(fitted, cased, sets, written):
    correct = right_entities(sets[2])

    ours = cased.read(written[2]).scores

    plain = fitted.read(sets[2]).scores
    assert metrics.e_aurc(confidence=ours, correct=correct) < 0.8 * metrics.e_aurc(confidence=plain, correct=correct)
    assert metrics.expected_calibration_error(confidence=ours, correct=correct) < 0.04


def test_capitals_find_what_was_missed_at_least_as_surely_as_they_say(fitted, cased, sets, written):
    test = sets[2]
    hidden = hidden_words(find_entities(test, test.predicted), find_entities(test, test.labels))

    plain, ours = fitted.read(test).missed, cased.read(written[2]).missed

    right = np.array([hidden[x.first : x.last + 1].any() for x in ours])
    assert len(ours) > 20 > len(plain)
    assert right.mean() > np.mean([x.probability for x in ours])


def test_a_fit_without_words_takes_words_for_nothing(fitted, sets, written):
    assert "small_end" not in fitted.entities_.ingredients

    np.testing.assert_array_equal(fitted.read(written[2]).scores, fitted.read(sets[2]).scores)


def test_a_fit_with_words_reads_outputs_without_as_if_no_case_were_unusual(cased, sets):
    reading = cased.read(sets[2])

    quiet = replace(sets[2], words=["-"] * len(sets[2]))
    np.testing.assert_array_equal(reading.scores, cased.read(quiet).scores)
    np.testing.assert_array_equal(reading.hidden, cased.read(quiet).hidden)


def test_a_word_in_lower_case_at_the_end_is_named_as_a_reason(cased, written):
    explained = cased.explain_entities(written[2])
    terms = [one for one in explained if one.terms["small_end"] < -0.25]

    assert terms
    assert all("begins or ends in a lower-case word" in one.lowered_by for one in terms)


def test_what_was_learned_of_case_is_saved(cased, written, tmp_path):
    cased.save(tmp_path / "ue")

    opened = load_calibrator(tmp_path / "ue")

    assert opened.entities_ == cased.entities_
    np.testing.assert_array_equal(opened.read(written[2]).scores, cased.read(written[2]).scores)
