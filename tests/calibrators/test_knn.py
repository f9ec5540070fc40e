"""KnnUE: options, parameters by hand, explanations, and the promise never to change a prediction."""

import numpy as np
import pytest

from knn_ue.arrays import softmax
from knn_ue.calibrators import KnnUE
from knn_ue.errors import InvalidInputError
from knn_ue.stores import Datastore
from knn_ue.types import Outputs
from knn_ue.weighting import WeightParams, knn_weight


def build(outputs: Outputs, **options) -> Datastore:
    return Datastore.build(outputs.features, outputs.labels, texts=list(outputs.texts), **options)


def scaled(outputs: Outputs, factor: float) -> Outputs:
    return Outputs(features=outputs.features * factor, logits=outputs.logits, labels=outputs.labels)


@pytest.fixture(scope="module")
def fitted(hard_toy):
    return KnnUE(build(hard_toy[0]), n_neighbors=16).fit(hard_toy[1])


def test_probabilities_follow_the_formula_from_the_fitted_parameters(fitted, hard_toy):
    test = hard_toy[2]
    neighbors = fitted.store.search(test.features, 16)

    by_hand = softmax(test.logits, knn_weight(neighbors, test.predicted, fitted.params_).total)

    np.testing.assert_allclose(fitted.predict_proba(test), by_hand, rtol=1e-12)


@pytest.mark.parametrize("use_labels", [True, False])
@pytest.mark.parametrize("distance", ["euclidean", "squared"])
@pytest.mark.parametrize("factor", [1024.0, 1 / 1024])
def test_the_scale_of_the_features_does_not_matter(hard_toy, use_labels, distance, factor):
    train, validation, test, _ = hard_toy

    def probabilities(by: float):
        store = Datastore.build(train.features * by, train.labels)
        ue = KnnUE(store, n_neighbors=16, use_labels=use_labels, distance=distance).fit(scaled(validation, by))
        return ue.predict_proba(scaled(test, by))

    np.testing.assert_allclose(probabilities(factor), probabilities(1.0), atol=1e-6)


def test_the_fitted_parameters_have_the_papers_names(fitted):
    assert {"alpha", "tau", "lam", "b"} <= set(vars(fitted.params_))


def test_without_labels_the_labels_of_the_store_are_never_used(hard_toy):
    train, validation, test, _ = hard_toy
    shuffled = Datastore.build(train.features, np.zeros(len(train), int))

    plain = KnnUE(build(train), n_neighbors=16, use_labels=False).fit(validation).predict_proba(test)

    blind = KnnUE(shuffled, n_neighbors=16, use_labels=False).fit(validation).predict_proba(test)
    np.testing.assert_array_equal(blind, plain)


def test_neighbors_that_disagree_lower_the_confidence(fitted, hard_toy):
    test = hard_toy[2]
    explained = fitted.explain(test)
    agreeing = np.array([row.n_agreeing for row in explained])
    confidence = np.array([row.score - row.raw_score for row in explained])

    assert confidence[agreeing <= 8].mean() < confidence[agreeing == 16].mean()


def test_parameters_set_by_hand_need_no_fit(hard_toy):
    train, _, test, _ = hard_toy
    params = WeightParams(alpha=0.5, tau=1.0, lam=0.5, b=0.1)
    ue = KnnUE(build(train), n_neighbors=3, params=params)

    neighbors = ue.store.search(test.features, 3)

    expected = softmax(test.logits, knn_weight(neighbors, test.predicted, params).total)
    np.testing.assert_allclose(ue.predict_proba(test), expected)


def test_parameters_set_by_hand_are_not_fitted_over(hard_toy):
    params = WeightParams(alpha=0.5, tau=1.0, lam=0.5, b=0.1)

    ue = KnnUE(build(hard_toy[0]), n_neighbors=3, params=params).fit(hard_toy[1])

    assert ue.params_ == params


def test_parameters_set_by_hand_survive_saving(hard_toy, tmp_path):
    params = WeightParams(alpha=0.5, tau=1.0, lam=0.5, b=0.1)
    ue = KnnUE(build(hard_toy[0]), n_neighbors=3, params=params)
    ue.save(tmp_path / "ue")

    loaded = KnnUE.load(tmp_path / "ue")

    np.testing.assert_array_equal(loaded.predict_proba(hard_toy[2]), ue.predict_proba(hard_toy[2]))


def test_a_negative_b_by_hand_is_refused(hard_toy):
    ue = KnnUE(build(hard_toy[0]), params=WeightParams(alpha=0.5, tau=1.0, lam=0.5, b=-0.63))

    with pytest.raises(InvalidInputError, match=r"b must be at least 0, got -0\.63"):
        ue.predict_proba(hard_toy[2])


def test_a_negative_b_with_the_floor_keeps_every_prediction(hard_toy):
    params = WeightParams(alpha=0.5, tau=1.0, lam=1.5, b=-0.63)
    ue = KnnUE(build(hard_toy[0]), params=params, positivity="floor")

    for outputs in hard_toy:
        np.testing.assert_array_equal(ue.predict_proba(outputs).argmax(axis=1), outputs.predicted)


def test_the_fitted_floor_survives_saving(hard_toy, tmp_path):
    ue = KnnUE(build(hard_toy[0]), n_neighbors=16, positivity="floor").fit(hard_toy[1])
    ue.save(tmp_path / "ue")

    loaded = KnnUE.load(tmp_path / "ue")

    np.testing.assert_array_equal(loaded.predict_proba(hard_toy[2]), ue.predict_proba(hard_toy[2]))


def test_more_neighbors_than_examples_cannot_be_fitted(hard_toy):
    small = Datastore.build(hard_toy[0].features[:5], hard_toy[0].labels[:5])

    with pytest.raises(InvalidInputError, match="n_neighbors=32 exceeds the 5 stored examples: lower it or add more"):
        KnnUE(small).fit(hard_toy[1])


def test_removing_most_examples_after_the_fit_never_breaks_prediction(hard_toy):
    store = build(hard_toy[0])
    ue = KnnUE(store, n_neighbors=16).fit(hard_toy[1])
    store.remove(store.ids[3:])

    probs = ue.predict_proba(hard_toy[2])

    np.testing.assert_array_equal(probs.argmax(axis=1), hard_toy[2].predicted)


def test_prediction_from_an_empty_store_is_uniform_but_keeps_the_answer(hard_toy):
    store = build(hard_toy[0])
    ue = KnnUE(store, n_neighbors=16, use_labels=False).fit(hard_toy[1])
    store.remove(store.ids)

    probs = ue.predict_proba(hard_toy[2])

    np.testing.assert_allclose(probs, 1 / 3, atol=1e-6)
    np.testing.assert_array_equal(probs.argmax(axis=1), hard_toy[2].predicted)


def test_examples_added_later_count_at_once(hard_toy):
    train, validation, _, far = hard_toy
    store = build(train)
    ue = KnnUE(store, n_neighbors=16, use_labels=False).fit(validation)
    before = ue.weight(far).mean()
    store.add(far.features, far.labels)

    assert ue.weight(far).mean() > before


def test_an_added_example_survives_in_the_saved_folder(fitted, hard_toy, tmp_path):
    fitted.save(tmp_path / "ue")
    KnnUE.load(tmp_path / "ue").store.add(hard_toy[3].features, hard_toy[3].labels)

    assert len(KnnUE.load(tmp_path / "ue").store) == len(fitted.store) + len(hard_toy[3])


def test_saving_over_the_folder_it_came_from_keeps_the_journal(fitted, hard_toy, tmp_path):
    fitted.save(tmp_path / "ue")
    loaded = KnnUE.load(tmp_path / "ue")
    loaded.store.add(hard_toy[3].features, hard_toy[3].labels)
    loaded.fit(hard_toy[1]).save(tmp_path / "ue")

    again = KnnUE.load(tmp_path / "ue")

    np.testing.assert_array_equal(again.predict_proba(hard_toy[2]), loaded.predict_proba(hard_toy[2]))


def test_features_are_needed(fitted, hard_toy):
    with pytest.raises(InvalidInputError, match="KnnUE needs features"):
        fitted.predict_proba(Outputs(logits=hard_toy[2].logits))


def test_an_unknown_option_names_the_choices(hard_toy):
    with pytest.raises(InvalidInputError, match="distance must be one of 'euclidean', 'squared', got 'cosine'"):
        KnnUE(build(hard_toy[0]), distance="cosine").fit(hard_toy[1])


def test_explanations_add_up(fitted, hard_toy):
    for row in fitted.explain(hard_toy[2].take(slice(0, 20))):
        assert row.weight == pytest.approx(row.distance_term + row.label_term)


def test_explanations_show_the_nearest_examples_with_their_texts(fitted, hard_toy):
    train, _, test, _ = hard_toy
    neighbors = fitted.store.search(test.features[:1], 16)

    (explanation,) = fitted.explain(test.take([0]), top=3)

    assert [near.id for near in explanation.neighbors] == neighbors.ids[0, :3].tolist()
    assert [near.text for near in explanation.neighbors] == [train.texts[i] for i in neighbors.ids[0, :3]]
    assert [near.label for near in explanation.neighbors] == [
        train.class_names[train.labels[i]] for i in neighbors.ids[0, :3]
    ]


def test_a_distant_row_is_explained_by_its_distance(fitted, hard_toy):
    (explanation,) = fitted.explain(hard_toy[3].take([0]))

    assert "more distant neighbors than usual" in explanation.lowered_by


def test_an_explanation_reads_as_text(fitted, hard_toy):
    shown = str(fitted.explain(hard_toy[2].take([0]), top=2)[0])

    assert hard_toy[2].texts[0] in shown
    assert "->" in shown
    assert shown.count("agrees") + shown.count("differs") == 2


def test_more_explained_neighbors_than_searched_are_all_there_is(fitted, hard_toy):
    assert len(fitted.explain(hard_toy[2].take([0]), top=99)[0].neighbors) == 16


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_neighbors", 65_537), ("n_neighbors", 0), ("tau_range", (2.0, 1.0)), ("distance", "x"), ("positivity", "x")],
)
def test_what_could_not_be_loaded_again_is_not_saved(name, value, toy, tmp_path):
    train, validation, _ = toy
    ue = KnnUE(Datastore.build(train.features, train.labels), n_neighbors=8).fit(validation)
    setattr(ue, name, value)

    with pytest.raises(InvalidInputError, match=name):
        ue.save(tmp_path / "ue")

    assert not (tmp_path / "ue").exists()
