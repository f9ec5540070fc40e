"""Readers: the contract on each registered one, vectors of the user's own, pairs, and the choice under a budget."""

import time

import numpy as np
import pytest

from knn_ue.errors import InvalidInputError
from knn_ue.verifying import READERS, EmbeddingReader, choose_reader, fit_labels, open_reader, read_pairs, take_rows
from knn_ue.verifying.named import KNOWN

TEXTS = [f"{('refund me', 'where is it', 'thank you')[row % 3]} {row}" for row in range(90)]
GOLD = np.arange(90) % 3
ANSWERS = np.where(np.arange(90) % 4, GOLD, (GOLD + 1) % 3)


@pytest.mark.parametrize("name", sorted(READERS.keys() - KNOWN.keys()))
def test_every_reader_gives_one_row_per_text_under_the_same_names(name):
    reader = open_reader(name)

    some, one = reader.read(TEXTS[:5]), reader.read(TEXTS[:1])

    assert reader.name == name and some.keys() == one.keys()
    assert {len(view) for view in some.values()} == {5}


@pytest.mark.parametrize("name", sorted(READERS.keys() - KNOWN.keys()))
def test_a_view_does_not_depend_on_other_rows(name):
    reader = open_reader(name)
    verifier = fit_labels(reader.read(TEXTS), ANSWERS, GOLD)

    alone = verifier.verdict(reader.read(TEXTS[3:4]), ANSWERS[3:4])

    np.testing.assert_allclose(alone, verifier.verdict(reader.read(TEXTS), ANSWERS)[3:4], rtol=1e-5)


def test_an_unknown_reader_is_refused_with_those_there_are():
    with pytest.raises(
        InvalidInputError, match=r"reader must be one of .*, a folder, or a repository owner/name, got .magic."
    ):
        open_reader("magic")


def test_vectors_of_the_users_own_stand_beside_the_instant_views():
    reader = EmbeddingReader("mine", lambda texts: np.ones((len(texts), 2)))

    assert set(reader.read(["a"])) == {"embedding", "static", "characters", "words"}


def test_vectors_of_the_users_own_may_stand_alone():
    reader = EmbeddingReader("mine", lambda texts: np.ones((len(texts), 2)), alone=True)

    assert set(reader.read(["a"])) == {"embedding"}


def test_a_function_that_loses_rows_is_refused():
    reader = EmbeddingReader("mine", lambda _: np.ones((1, 2)))

    with pytest.raises(InvalidInputError, match="mine must return one vector per text, got 1 for 2"):
        reader.read(["a", "b"])


def test_pairs_are_read_joined_and_compared():
    views = read_pairs(open_reader("instant"), [("a man sleeps", "a man is awake"), ("x", "y")])

    assert set(views) == {"static", "characters", "words", "static_compared"}
    assert views["static_compared"].shape == (2, 480)


def test_what_is_compared_does_not_change_with_the_order_of_the_pair():
    reader = open_reader("instant")

    views, swapped = read_pairs(reader, [("one text", "another")]), read_pairs(reader, [("another", "one text")])

    np.testing.assert_array_equal(views["static_compared"], swapped["static_compared"])


class Seeing:
    """Knows the class of each text."""

    name = "seeing"

    def read(self, texts):
        return {"class": np.eye(3)[[int(text.split()[-1]) % 3 for text in texts]]}


class Slow(Seeing):
    """Knows it too, at a price."""

    name = "slow"

    def read(self, texts):
        time.sleep(0.002 * len(texts))
        return super().read(texts)


class Blind:
    """Sees the length of a text."""

    name = "blind"

    def read(self, texts):
        return {"length": np.array([[float(len(text))] for text in texts])}


def test_the_reader_that_sees_more_is_chosen():
    chosen, trials = choose_reader([Blind(), Seeing()], TEXTS, ANSWERS, GOLD, budget_ms=100.0)

    assert chosen.reader.name == "seeing" and [trial.reader.name for trial in trials] == ["blind", "seeing"]


def test_a_reader_above_the_budget_is_not_chosen():
    chosen, _ = choose_reader([Blind(), Slow()], TEXTS, ANSWERS, GOLD, budget_ms=1.0)

    assert chosen.reader.name == "blind"


def test_the_first_reader_is_taken_where_none_is_within_the_budget():
    chosen, _ = choose_reader([Slow(), Slow()], TEXTS, ANSWERS, GOLD, budget_ms=0.001)

    assert chosen.reader.name == "slow"


def test_rows_are_taken_of_dense_and_sparse_views():
    views = open_reader("instant").read(TEXTS[:4])

    assert [len(take_rows(view, np.array([0, 2]))) for view in views.values()] == [2, 2, 2]
