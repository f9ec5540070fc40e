"""Frames go through the whole pipeline; answers give the distribution over labels."""

import pytest

from knn_ue.errors import InvalidInputError
from pipelines import TEXT, WORDS
from tiny_models import ROWS

pd = pytest.importorskip("pandas")


def frame_of(rows):
    return pd.DataFrame({"review": [row["text"] for row in rows], "sentiment": [row["label"] for row in rows]})


def test_a_frame_is_answered_row_by_row(fitted):
    rows = ROWS[TEXT](5, start=300)

    answers = fitted[TEXT](frame_of(rows), text="review")

    assert answers == fitted[TEXT](rows)


def test_a_frame_without_our_column_is_refused_and_never_its_names_answered(fitted):
    with pytest.raises(InvalidInputError, match=r"the frame must have the columns text; missing: .*text='review'"):
        fitted[TEXT](frame_of(ROWS[TEXT](5)))


def test_frames_are_evaluated_like_rows(fitted):
    rows = ROWS[TEXT](20, start=300)

    assert fitted[TEXT].evaluate(frame_of(rows), text="review", label="sentiment").to_json() == (
        fitted[TEXT].evaluate(rows).to_json()
    )


def test_columns_cannot_be_named_for_rows_that_have_none(fitted):
    with pytest.raises(InvalidInputError, match=r"columns are named for files, frames and data sets.*leave out text"):
        fitted[TEXT](["a text"], text="review")


def test_top_k_gives_the_most_likely_labels_first(fitted):
    (answer,) = fitted[TEXT]("a text", top_k=2)

    labels, probs = list(answer.probabilities), list(answer.probabilities.values())

    assert len(labels) == 2 and labels[0] == answer.label
    assert probs[0] == pytest.approx(answer.score) and probs == sorted(probs, reverse=True)


def test_the_whole_distribution_sums_to_one(fitted):
    pipe = fitted[WORDS]

    (answer,) = pipe("Ada wrote", top_k=len(pipe.class_names))

    assert [sum(word.probabilities.values()) for word in answer.words] == pytest.approx([1, 1])


def test_probabilities_are_given_only_where_they_are_asked_for(fitted):
    (answer,) = fitted[TEXT]("a text")

    assert answer.probabilities is None and "probabilities" not in answer.to_dict()


def test_numbers_are_read_in_the_order_of_the_model_and_this_is_said(fitted):
    pipe = fitted[TEXT]
    rows = ROWS[TEXT](20, start=300)
    numbered = [{"text": row["text"], "label": pipe.class_names.index(row["label"])} for row in rows]

    with pytest.warns(UserWarning, match=f"read as class numbers in the model's order: 0 = {pipe.class_names[0]}"):
        found = pipe.evaluate(numbered)

    assert found.to_json() == pipe.evaluate(rows).to_json()


@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_text_is_refused_as_in_files(fitted, empty):
    with pytest.raises(InvalidInputError, match="row 1 must not be an empty text"):
        fitted[TEXT](["fine", empty])
