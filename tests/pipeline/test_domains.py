import numpy as np
import pytest

from held import fitted_in
from knn_ue import Outputs
from knn_ue.errors import InvalidInputError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.pipeline.domains import adapt_fitted
from knn_ue.pipeline.folder import OpenedFolder
from pipelines import PAIR, TEXT, WORDS, said_by_the_model, scores_of
from tiny_models import ROWS


def copy_of(pipe):
    return UncertaintyPipeline(pipe.encoder, pipe.fitted_)


def shifted(pipe, n=40):
    """Rows of a domain in which the model is wrong on every third row."""
    return said_by_the_model(pipe, n, start=300, wrong_every=3)


@pytest.fixture
def adapted(fitted):
    pipe = copy_of(fitted[TEXT])
    pipe.adapt(shifted(pipe), domain="reviews", force=True)
    return pipe


@pytest.mark.parametrize("task", [TEXT, PAIR, WORDS])
def test_only_the_scores_change_and_only_in_the_domain(fitted, task):
    pipe = copy_of(fitted[task])
    inputs = ROWS[task](6, start=500)
    before = pipe(inputs)

    adaptation = pipe.adapt(shifted(pipe), domain="reviews", force=True)
    general, there = pipe(inputs), pipe(inputs, domain="reviews")

    assert adaptation.applied and general == before
    assert [getattr(x, "label", None) for x in there] == [getattr(x, "label", None) for x in before]
    assert scores_of(there) != scores_of(before)
    assert {x.domain for x in there} == {"reviews"}


def test_the_default_domain_answers_inputs_that_name_none(fitted):
    pipe = copy_of(fitted[TEXT])
    before = pipe("a text")

    pipe.adapt(shifted(pipe), force=True)

    assert pipe("a text")[0].score != before[0].score
    assert pipe("a text", domain="general")[0].score == before[0].score


def test_each_row_may_name_its_own_domain(adapted):
    rows = [{"text": "good plot", "domain": "reviews"}, {"text": "good plot"}, {"text": "dull", "domain": "general"}]

    answers = adapted(rows)

    assert [x.domain for x in answers] == ["reviews", None, "general"]
    assert answers[0].score == pytest.approx(adapted("good plot", domain="reviews")[0].score, rel=1e-5)
    assert answers[1].score == pytest.approx(adapted("good plot")[0].score, rel=1e-5)


@pytest.mark.slow
def test_words_of_mixed_domains_stay_with_their_sentence(fitted):
    pipe = copy_of(fitted[WORDS])
    pipe.adapt(shifted(pipe), domain="reviews", force=True)
    rows = [dict(row) for row in ROWS[WORDS](4, start=500)]
    rows[1]["domain"] = rows[3]["domain"] = "reviews"

    mixed = pipe(rows)
    general, there = pipe(rows, domain=None), [pipe([row], domain="reviews")[0] for row in rows]

    assert general == mixed
    assert [[w.word for w in x.words] for x in mixed] == [list(row["tokens"]) for row in rows]
    np.testing.assert_allclose(scores_of([mixed[1]]), scores_of([there[1]]), rtol=1e-4)


def test_an_unknown_domain_is_refused_with_those_there_are(adapted):
    with pytest.raises(InvalidInputError, match="which has general, reviews"):
        adapted("a text", domain="tweets")
    with pytest.raises(InvalidInputError, match="'tweets' is not a domain"):
        adapted([{"text": "a text", "domain": "tweets"}])


def test_a_folder_without_domains_leaves_a_field_of_that_name_alone(fitted):
    assert fitted[TEXT]([{"text": "a text", "domain": "books"}])[0].domain is None


def test_forgetting_a_domain_undoes_it(adapted, fitted):
    adapted.forget_domain("reviews")

    assert adapted.domains_ == {} and adapted("a text") == fitted[TEXT]("a text")
    with pytest.raises(InvalidInputError, match="is not a domain"):
        adapted.forget_domain("reviews")


def test_domains_are_saved_and_opened_again(adapted, tmp_path):
    adapted.save(tmp_path / "ue")

    opened = UncertaintyPipeline.load(tmp_path / "ue", device="cpu")

    assert opened.domains_ == adapted.domains_
    assert opened("a text", domain="reviews") == adapted("a text", domain="reviews")


@pytest.mark.slow
def test_adapting_a_folder_leaves_what_was_fitted_as_it_is(fitted, tmp_path):
    pipe = copy_of(fitted[TEXT])
    pipe.save(tmp_path / "ue")
    before = fitted_in(tmp_path / "ue")
    outputs = pipe.outputs(shifted(pipe))

    OpenedFolder.open(tmp_path / "ue").edit(lambda now: adapt_fitted(now, outputs, domain="reviews", force=True))

    assert fitted_in(tmp_path / "ue") == before
    assert list(UncertaintyPipeline.load(tmp_path / "ue", device="cpu").domains_) == ["reviews"]


@pytest.mark.slow
def test_labels_are_added_to_those_the_domain_has(fitted):
    pipe = copy_of(fitted[TEXT])
    pipe.adapt(shifted(pipe, 20), domain="reviews")

    assert pipe.adapt(shifted(pipe, 20), domain="reviews", add=True).n_rows == 40
    assert pipe.adapt(shifted(pipe, 20), domain="reviews").n_rows == 20


def test_labels_that_are_added_twice_raise_a_doubt(fitted):
    pipe = copy_of(fitted[TEXT])
    rows = said_by_the_model(pipe, 40, start=300, wrong_every=3)
    pipe.adapt(rows[:20], domain="reviews")

    other, again = (pipe.adapt(added, domain="reviews", add=True) for added in (rows[20:], rows[:20]))

    assert not any("added labels look like" in doubt for doubt in other.doubts)
    assert again.doubts[0].startswith("20 of the 20 added labels look like labels that the domain reviews has")


def test_too_few_labels_do_not_replace_those_a_domain_has(adapted):
    before = adapted.fitted_

    adaptation = adapted.adapt(shifted(adapted, 3), domain="reviews")

    assert adapted.fitted_ is before
    assert "the domain reviews stays as it was, with its 40 labeled rows" in adaptation.doubts[0]


def test_labels_without_a_gain_say_that_the_scale_is_removed(adapted):
    adaptation = adapted.adapt(shifted(adapted), domain="reviews")

    assert not adaptation.applied, adaptation
    assert "the domain reviews had a scale, which is removed" in adaptation.doubts[0]
    assert adapted("a text", domain="reviews")[0].score == adapted("a text")[0].score


@pytest.mark.parametrize("task", [TEXT, PAIR, WORDS])
def test_copies_of_one_row_are_one_row(fitted, task):
    pipe = copy_of(fitted[task])

    adaptation = pipe.adapt(shifted(pipe, 4) * 5, domain="reviews")

    assert adaptation.n_rows == 4 and not adaptation.applied
    assert adaptation.units["rows"].n >= 20


def test_corrections_alone_are_measured_but_not_kept(fitted):
    pipe = copy_of(fitted[TEXT])

    adaptation = pipe.adapt(shifted(pipe), domain="reviews", random_sample=False)

    assert not adaptation.applied and pipe.domains_ == {}
    assert "not a random sample" in adaptation.doubts[0]


def test_refitting_keeps_the_domains(adapted):
    adapted.use_index("exact")

    assert list(adapted.domains_) == ["reviews"]


@pytest.mark.parametrize("name", ["general", "", "a/b", "x" * 65])
def test_a_domain_needs_a_plain_name(fitted, name):
    pipe = copy_of(fitted[TEXT])

    with pytest.raises(InvalidInputError, match="a domain needs a name"):
        pipe.adapt(shifted(pipe), domain=name)


def test_evaluation_and_explanation_are_those_of_the_domain(adapted):
    rows = shifted(adapted)

    there, general = adapted.evaluate(rows, domain="reviews"), adapted.evaluate(rows)
    (why,) = adapted.explain("a text", domain="reviews")
    (answer,) = adapted("a text", domain="reviews")

    assert there["knn-ue"]["nll"] < general["knn-ue"]["nll"]
    assert there["knn-ue"]["accuracy"] == general["knn-ue"]["accuracy"]
    assert why.score == pytest.approx(answer.score)
    assert why.weight == pytest.approx(why.distance_term + why.label_term)


@pytest.mark.parametrize("task", [TEXT, WORDS])
def test_an_explanation_names_the_domain_whose_scale_the_score_has(fitted, task):
    pipe = copy_of(fitted[task])
    pipe.adapt(shifted(pipe), domain="reviews", force=True)
    pipe.adapt(shifted(pipe, 3), domain="unscaled")
    inputs = ROWS[task](1, start=500)

    names = [pipe.explain(inputs, domain=domain)[0].adapted_to for domain in ("reviews", "unscaled", "general", None)]

    assert names == ["reviews", None, None, None]


@pytest.mark.slow
def test_weights_of_rows_count(fitted):
    pipe = copy_of(fitted[TEXT])
    rows = [row | {"sample_weight": 3.0 if number % 3 else 1.0} for number, row in enumerate(shifted(pipe))]

    weighted = pipe.adapt(rows, domain="a")

    assert weighted.main.accuracy != pipe.adapt(shifted(pipe), domain="b").main.accuracy


def test_outputs_need_labels(fitted):
    with pytest.raises(InvalidInputError, match="needs labels"):
        copy_of(fitted[TEXT]).adapt(Outputs(logits=np.zeros((3, 2)), features=np.zeros((3, 4))))


@pytest.mark.parametrize("strategy", ["random", "stratified"])
def test_a_text_that_is_often_in_the_pool_is_labeled_once_and_weighs_more(fitted, strategy):
    pool = [{"text": "good plot"}] * 5 + ROWS[TEXT](14, start=700)

    rows = fitted[TEXT].sample(pool, 100, strategy=strategy)

    weights = {row.example.parts[0]: row.sample_weight for row in rows}
    assert len(rows) == len(weights) == 15 and sum(weights.values()) == pytest.approx(15)
    others = [weight for text, weight in weights.items() if text != "good plot"]
    assert others == pytest.approx([weights["good plot"] / 5] * 14)


@pytest.mark.parametrize("strategy", ["random", "stratified"])
@pytest.mark.parametrize("task", [TEXT, PAIR, WORDS])
def test_a_sample_holds_rows_of_the_pool_without_their_answers(fitted, task, strategy):
    pool = ROWS[task](30, start=700)

    rows = [row.to_dict(task) for row in fitted[task].sample(pool, 12, strategy=strategy)]

    assert len(rows) == 12 and sum(row["sample_weight"] for row in rows) == pytest.approx(12, abs=1e-3)
    assert all(row.get("label", row.get("tags")) is None for row in rows)
