"""The words of an explanation agree with the numbers beside them, whatever the neighborhood."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knn_ue.answers import Explanation
from knn_ue.calibrators import KnnUE
from knn_ue.reasons import familiarity_sentence, percent, sentences
from knn_ue.stores import Datastore
from knn_ue.toy import two_blobs
from knn_ue.types import Neighbors, Outputs
from knn_ue.weighting import Typical, WeightParams, explain_rows, knn_weight

GIVEN = {
    "text": None,
    "label": "pos",
    "score": 0.79,
    "raw_score": 0.53,
    "weight": 3.0,
    "distance_term": 1.0,
    "label_term": 2.0,
    "usual_distance_term": 1.0,
    "usual_label_term": 2.0,
    "n_agreeing": 16,
    "n_neighbors": 32,
    "raised_by": (),
    "lowered_by": (),
    "neighbors": (),
}


def sign(number: float) -> int:
    return int(np.sign(number))


def verb_in(sentence: str) -> int:
    """Return +1 where a sentence says that a score is raised, -1 where lowered, 0 where it is left."""
    return ("raises" in sentence) - ("lowers" in sentence)


@st.composite
def neighborhoods(draw):
    """Yield the explanation of one row of a random neighborhood, under random parameters."""
    n_classes, n_neighbors = draw(st.integers(2, 4)), draw(st.integers(1, 16))
    positivity = draw(st.sampled_from(["bounded", "floor"]))
    b = draw(st.floats(-0.9 if positivity == "floor" else 0, 8))
    params = WeightParams(
        alpha=draw(st.floats(0, 5)), tau=draw(st.floats(0.1, 10)), lam=draw(st.sampled_from([0.0, 0.1, 1.0, 4.0])), b=b
    )
    random = np.random.default_rng(draw(st.integers(0, 10_000)))

    def around():
        labels = random.integers(0, n_classes, (1, n_neighbors))
        distances = np.sort(random.gamma(2.0, draw(st.floats(0.01, 20)), (1, n_neighbors)), axis=1)
        return Neighbors(ids=np.arange(n_neighbors)[None], labels=labels, distances=distances)

    here, usual = around(), around()
    outputs = Outputs(logits=random.normal(scale=draw(st.floats(0.1, 8)), size=(1, n_classes)))
    weights = [knn_weight(x, outputs.predicted, params, positivity=positivity) for x in (here, usual)]
    typical = Typical(
        distance_term=float(weights[1].distance_term[0]),
        label_term=float(weights[1].label_term[0]),
        weight=float(weights[1].total[0]),
        n_agreeing=int((usual.labels == outputs.predicted[0]).sum()),
    )
    (found,) = explain_rows(outputs, here, weights[0], lambda ids: [None] * len(ids), top=16, typical=typical)
    return found


@given(neighborhoods())
@settings(deadline=None, max_examples=150)
def test_the_words_say_what_the_shown_numbers_do(found: Explanation):
    said = sentences(found)
    shown = [float(x) for x in re.findall(r"(?<![<>.\d])(\d+\.\d) %", said["calibration"] + said["neighborhood"])]

    assert verb_in(said["calibration"]) in (0, sign(found.usual_score - found.raw_score))
    assert verb_in(said["neighborhood"]) in (0, sign(found.score - found.usual_score))
    assert (verb_in(said["calibration"]) == 0) == (percent(found.usual_score) == percent(found.raw_score))
    assert (verb_in(said["neighborhood"]) == 0) == (percent(found.score) == percent(found.usual_score))
    assert all(0 <= number <= 100 for number in shown)


@given(neighborhoods())
@settings(deadline=None, max_examples=150)
def test_the_reasons_have_the_sign_of_what_they_do(found: Explanation):
    nearness = found.distance_term - found.usual_distance_term
    agreement = found.label_term - found.usual_label_term
    because = sentences(found)["neighborhood"].partition("because of ")[2].partition(", despite")[0]

    assert nearness > 0 or not any("closer" in reason for reason in found.raised_by)
    assert nearness < 0 or not any("distant" in reason for reason in found.lowered_by)
    assert agreement > 0 or not any("more agreement" in reason for reason in found.raised_by)
    assert agreement < 0 or not any("less agreement" in reason for reason in found.lowered_by)
    for reason in found.raised_by if found.score > found.usual_score else found.lowered_by:
        assert not because or reason in because
    assert bool(because) == (percent(found.score) != percent(found.usual_score))


@given(neighborhoods())
@settings(deadline=None, max_examples=150)
def test_the_labels_of_the_neighbors_are_counted_as_they_are(found: Explanation):
    counts = {near.label: sum(x.label == near.label for x in found.neighbors) for near in found.neighbors}
    most = max(counts.values())
    said = sentences(found)["neighbors"]

    if counts.get(found.label, 0) == most:
        assert found.majority_label is None
    else:
        assert counts[found.majority_label] == most == found.n_majority
        assert f"{found.majority_label} ({most} of {found.n_neighbors})" in said
    assert "as usual" not in said


def test_what_the_model_does_to_all_is_told_from_what_this_input_does():
    found = Explanation(**GIVEN, usual_score=0.85, usual_n_agreeing=30, majority_label="neg", n_majority=17)

    assert list(sentences(found).values()) == [
        "Model-wide: in a typical neighborhood, calibration raises the model's 53.0 % to 85.0 %.",
        "This input: its neighborhood lowers that to 79.0 %.",
        "16 of the 32 nearest training examples are labeled pos, as predicted (usually 30). Most of the neighbors "
        "are labeled neg (17 of 32). Agreement has little influence on the scores of this model.",
    ]


def test_a_strange_input_is_called_strange_first_and_its_neighbors_are_not_trusted():
    lines = str(Explanation(**GIVEN, familiarity=0.001, unfamiliar=True)).splitlines()

    assert lines[0].startswith("Unlike the inputs it was trained on (p = 0.001). ")
    assert lines[1] == "pos: 53.0 % -> 79.0 %"
    assert lines[-1].endswith(
        "The input is unfamiliar: the model places it near these examples, but they say little about it."
    )


def test_no_familiarity_means_no_sentence_about_it():
    assert familiarity_sentence(None, None) == ""


@pytest.mark.parametrize(("p_value", "first"), [(0.02, "Rare among"), (0.05, "Like the"), (0.9, "Like the")])
def test_a_rare_input_that_is_not_flagged_is_not_called_like_the_others(p_value, first):
    assert familiarity_sentence(p_value, False).startswith(first)
    assert "familiarity" not in sentences(Explanation(**GIVEN))


@pytest.mark.slow
@pytest.mark.parametrize("positivity", ["bounded", "floor"])
def test_the_usual_score_is_that_of_the_validation_medians(positivity):
    train, validation, test = two_blobs(overconfident_by=3.0, seed=0)
    store = Datastore.build(train.features, train.labels)
    ue = KnnUE(store, n_neighbors=16, positivity=positivity).fit(validation)

    explained = ue.explain(validation)

    medians = [np.median([getattr(x, name) for x in explained]) for name in ("distance_term", "label_term")]
    assert explained[0].usual_distance_term == pytest.approx(medians[0])
    assert explained[0].usual_label_term == pytest.approx(medians[1])
    assert explained[0].usual_n_agreeing == np.median([x.n_agreeing for x in explained])
    # Of the medians of the terms, not of their sum; on the toy these are close.
    assert explained[0].usual_weight == pytest.approx(np.median([x.weight for x in explained]), rel=0.05)
    assert ue.explain(test)[0].usual_score is not None
