"""Given answers as numbers: nothing is dropped."""

from knn_ue.verifying import answer_numbers, n_answers_of, off_list_names

CLASSES = ["refund", "other topic"]


def test_classes_come_first_then_other_then_frequent_answers_outside_the_list():
    answers = ["refund", "I don't know", "", "other topic"]

    assert answer_numbers(answers, CLASSES, ["I don't know"]).tolist() == [0, 3, 2, 1]


def test_an_answer_outside_the_list_has_a_number_of_its_own_from_five_rows():
    answers = ["none"] * 5 + ["refuse"] * 4 + ["refund"] * 9

    assert off_list_names(answers, CLASSES) == ("none",)


def test_the_most_frequent_answer_outside_the_list_comes_first():
    assert off_list_names(["b"] * 5 + ["a"] * 6, CLASSES) == ("a", "b")


def test_there_is_always_a_number_for_what_was_never_seen():
    assert n_answers_of(CLASSES, ["none"]) == 4
