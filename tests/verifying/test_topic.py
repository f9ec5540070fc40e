"""Familiarity for given answers: what a text is about, compared with the labeled ones."""

import numpy as np
import pytest

from knn_ue.errors import InvalidInputError
from knn_ue.types import Outputs
from knn_ue.verifying.topic import TOPIC, TopicSpace, _specific

FOOD = ["a warm soup with bread", "fresh bread and cheese", "cheese for dinner", "an apple after the soup"]
SPORT = ["the goalkeeper lost the match", "a late goal decided the league"]


def outputs_of(texts):
    return Outputs(logits=np.zeros((len(texts), 2)), texts=texts)


def test_the_score_is_minus_the_mean_cosine_with_the_labeled_texts():
    space, left_out = TopicSpace.measure(outputs_of(FOOD))

    labeled, asked = _specific(FOOD), _specific(SPORT)

    np.testing.assert_allclose(space.score(outputs_of(SPORT)), -(asked @ labeled.T).mean(axis=1))
    others = [-(labeled[row] @ np.delete(labeled, row, axis=0).T).mean() for row in range(len(FOOD))]
    np.testing.assert_allclose(left_out, others)


def test_another_topic_is_less_familiar_than_each_labeled_text():
    space, left_out = TopicSpace.measure(outputs_of(FOOD))

    assert space.score(outputs_of(SPORT)).min() > left_out.max()


def test_what_is_saved_is_the_same_and_something_else_is_refused():
    space, _ = TopicSpace.measure(outputs_of(FOOD))

    np.testing.assert_array_equal(TopicSpace.from_arrays(space.to_arrays()).direction, space.direction)
    for hostile in (np.zeros(3), np.full_like(space.direction, np.nan), space.direction.astype(np.float32)):
        with pytest.raises(ValueError, match=TOPIC):
            TopicSpace.from_arrays({TOPIC: hostile})


def test_a_text_of_which_nothing_is_known_and_outputs_without_texts():
    space, _ = TopicSpace.measure(outputs_of(FOOD))

    assert np.isfinite(space.score(outputs_of(["", "\u2603"]))).all()
    bare = Outputs(logits=np.zeros((1, 2)))
    assert not space.measures(bare)
    with pytest.raises(InvalidInputError, match="reads texts"):
        space.score(bare)
