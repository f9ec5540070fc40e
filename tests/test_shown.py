"""Objects say what they are at a prompt and in a notebook; nothing of the data reaches the page unescaped."""

import re

import numpy as np
import pytest

from knn_ue import Datastore, Familiarity, KnnUE, Outputs, TemperatureScaling, UncertaintyPipeline, evaluate
from knn_ue.answers import Answer, AnswerList, Entity, MissedEntity, NeighborExample, SentenceAnswer, Word

EVIL = '<script>alert("x")</script>'


@pytest.fixture
def outputs():
    random = np.random.default_rng(0)
    features = random.normal(size=(60, 3))
    labels = (features[:, 0] > 0).astype(int)
    logits = np.stack([-features[:, 0], features[:, 0]], axis=1) * 5
    return Outputs(features=features, logits=logits, labels=labels, texts=[EVIL] * 60, class_names=[EVIL, "b"])


@pytest.fixture
def fitted(outputs):
    store = Datastore.build(outputs.features, outputs.labels, texts=outputs.texts)
    return KnnUE(store, n_neighbors=4).fit(outputs)


NEAR = NeighborExample(id=3, label=EVIL, distance=0.5, text=EVIL, agrees=True)
ANSWER = Answer(
    label=None, score=0.5, raw_score=0.9, abstained=True, would_be=EVIL, probabilities={EVIL: 0.5}, neighbors=(NEAR,)
)
ENTITY = Entity(type=EVIL, text=EVIL, start=0, end=1, score=0.5, raw_score=0.9, abstained=False, neighbors=(NEAR,))
SENTENCE = SentenceAnswer(
    words=(Word(word=EVIL, tag=EVIL, score=0.5, raw_score=0.9, abstained=False),),
    entities=(ENTITY,),
    score=0.25,
    missed=(MissedEntity(type=EVIL, text=EVIL, start=0, end=1, score=0.1),),
)


def page_of(thing):
    page = thing._repr_html_()
    assert page.count("<table>") == page.count("</table>")
    return page


@pytest.mark.parametrize(
    "thing", [ANSWER, SENTENCE, NEAR, ENTITY, AnswerList([ANSWER, ANSWER]), AnswerList([SENTENCE])], ids=repr
)
def test_answers_are_escaped(thing):
    page = page_of(thing)

    assert "<script>" not in page and "&lt;script&gt;" in page


def test_explanations_and_evaluations_are_escaped(fitted, outputs):
    (explanation, *_) = fitted.explain(outputs.take(slice(0, 1)))
    evaluation = evaluate({EVIL: fitted}, outputs)

    for page in (page_of(explanation), page_of(evaluation)):
        assert "<script>" not in page and "&lt;script&gt;" in page


def test_a_long_list_of_answers_ends_with_how_many_more():
    page = page_of(AnswerList([ANSWER] * 70))

    assert "and 20 more" in page and page.count("<tr>") == 51


def test_a_list_of_answers_is_a_list():
    assert AnswerList([ANSWER]) == [ANSWER]


def test_a_store_says_how_much_it_holds(fitted):
    assert repr(fitted.store) == "Datastore(examples=60, columns=3, index=the exact search, where=memory)"


def test_a_calibrator_says_what_was_fitted(fitted, outputs):
    assert re.search(r"params=WeightParams\(alpha=[\d.]{1,6}(e[+-]\d+)?, tau=", repr(fitted))
    assert "usual distance term=" in repr(fitted)
    assert "typical" not in repr(fitted)
    assert "fitted=no: call fit(validation)" in repr(TemperatureScaling())
    assert "temperature=" in repr(TemperatureScaling().fit(outputs))


def test_familiarity_says_what_it_was_fitted_on(outputs):
    assert repr(Familiarity(outputs)) == "Familiarity(false_alarm_rate=0.01, fitted=no: call fit(validation))"
    assert repr(Familiarity(outputs).fit(outputs)) == "Familiarity(false_alarm_rate=0.01, fitted on=60 rows)"


def test_outputs_say_their_shape_and_not_their_numbers(outputs):
    assert repr(outputs) == f"Outputs(rows=60, classes={EVIL}, b, features=3, with=labels, texts)"
    assert "<script>" not in page_of(outputs)


def test_a_pipeline_says_what_to_do_next_and_how_it_was_fitted():
    from test_seams_encoder import BagEncoder, rows

    pipe = UncertaintyPipeline(BagEncoder())
    assert "call fit(train_rows, validation_rows)" in repr(pipe)

    pipe.fit(rows(60), rows(40, 100), n_neighbors=5, allow_leakage=True)
    assert "method=knn-ue, fitted on=40 validation rows, stored=60 examples" in repr(pipe)
    assert "<td" in page_of(pipe)


def test_an_evaluation_becomes_a_frame_with_its_intervals(fitted, outputs):
    pytest.importorskip("pandas")
    evaluation = evaluate(fitted, outputs, n_bootstrap=5)

    frame = evaluation.to_pandas()

    row = frame[(frame.table == "test") & (frame.method == "calibrated") & (frame.metric == "ece")].iloc[0]
    assert row.value == evaluation["calibrated"]["ece"]
    assert row.low <= row.high


def test_an_evaluation_prints_its_tables(fitted, outputs):
    evaluation = evaluate(fitted, outputs)

    assert str(evaluation) == evaluation.to_markdown()
    assert repr(evaluation) == "Evaluation(n=60, methods=raw, calibrated, tables=test)"
