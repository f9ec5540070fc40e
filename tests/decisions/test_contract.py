"""What every registered decision must do; to register is to be tested."""

import json

import numpy as np
import pytest

from knn_ue.decisions import DECISIONS, Decision, Scored
from knn_ue.decisions.registry import decision_from_plain, decision_to_plain, new_decision
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.pipeline.fitted import decide


@pytest.fixture(scope="module")
def held_out():
    """Return 400 scored answers of three classes, right as often as their confidence says."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet((0.3, 0.3, 0.3), size=400)
    labels = np.array([rng.choice(3, p=row) for row in probs])
    predicted = probs.argmax(axis=1)
    return Scored(
        confidence=probs.max(axis=1),
        class_names=("a", "b", "c"),
        probs=probs,
        predicted=predicted,
        correct=predicted == labels,
        labels=labels,
    )


@pytest.fixture(params=DECISIONS)
def fitted(request, held_out):
    return new_decision(request.param).fit(held_out)


def test_a_decision_keeps_the_contract(fitted):
    assert isinstance(fitted, Decision)
    assert DECISIONS[fitted.kind] is type(fitted)


def test_fields_are_given_for_every_answer_as_plain_json(fitted, held_out):
    fields = fitted.fields(held_out)

    assert len(fields) == len(held_out)
    assert json.loads(json.dumps(list(fields))) == list(fields)


def test_what_was_saved_is_read_back_equal(fitted, held_out):
    again = decision_from_plain(json.loads(json.dumps(decision_to_plain(fitted))))

    assert list(again.fields(held_out)) == list(fitted.fields(held_out))
    assert str(again) == str(fitted)


def test_fitting_leaves_the_unfitted_decision_as_it_was(fitted, held_out):
    unfitted = new_decision(fitted.kind)
    before = unfitted.to_plain()

    unfitted.fit(held_out)

    assert unfitted.to_plain() == before


def test_an_unknown_decision_is_refused_by_name():
    with pytest.raises(InvalidInputError, match="'coin' is not a known decision: choose one of risk"):
        new_decision("coin")


def test_a_folder_with_a_decision_that_is_not_registered_says_so():
    with pytest.raises(StorageError, match="holds the decision 'coin', which is not registered"):
        decision_from_plain({"kind": "coin"})


class Flag:
    """Abstains on every second answer and says which."""

    kind = "flag"

    def fields(self, scored):
        return [{"abstained": row % 2 == 1, "row": row} for row in range(len(scored))]


def test_any_decision_may_abstain(held_out):
    decided = decide(held_out, [Flag()], [None] * len(held_out))

    assert [one.abstained for one in decided[:4]] == [False, True, False, True]
    assert decided[1].fields == {"row": 1}


def test_abstain_below_overrides_what_decisions_say_of_abstention(held_out):
    below = [0.0, 0.0, 1.0, None] + [None] * (len(held_out) - 4)

    decided = decide(held_out, [Flag()], below)

    assert [one.abstained for one in decided[:4]] == [False, False, bool(held_out.confidence[2] < 1), True]
