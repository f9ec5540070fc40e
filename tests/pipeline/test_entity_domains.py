import numpy as np
import pytest

from knn_ue import Datastore, KnnUEEntity, adapt_calibrator
from knn_ue.entities import find_entities
from knn_ue.toy import tagged_sentences


@pytest.fixture(scope="module")
def sentences():
    train, validation, _ = tagged_sentences(overconfident_by=1.0, seed=0)
    _, labeled, test = tagged_sentences(overconfident_by=6.0, n_validation=60, seed=1)
    ue = KnnUEEntity(Datastore.build(train.features, train.labels), n_neighbors=8).fit(validation)
    return ue, labeled, test


@pytest.mark.slow
def test_entities_and_sentences_get_scales_of_their_own(sentences):
    ue, labeled, test = sentences

    adapted, adaptation = adapt_calibrator(ue, labeled)
    right = ue.read(test).spans.same_in(find_entities(test, test.labels))
    gaps = [abs(x.read(test).scores.mean() - right.mean()) for x in (ue, adapted)]

    assert list(adaptation.units) == ["rows", "entities", "sentences"]
    assert adaptation.main is adaptation.units["entities"] and gaps[1] < gaps[0]


def test_a_sentence_is_never_surer_than_its_least_sure_part(sentences):
    ue, _, test = sentences

    reading = ue.with_log_scales({"entities": -1.0, "sentences": 1.5}).read(test)
    least = reading.none_missed.copy()
    np.minimum.at(least, reading.spans.sentence, reading.scores)

    assert (reading.sentence_scores <= least).all()


@pytest.mark.slow
def test_an_adapted_calibrator_is_saved_with_its_scales(sentences, tmp_path):
    ue, labeled, test = sentences
    adapted, _ = adapt_calibrator(ue, labeled)

    adapted.save(tmp_path / "ue")

    np.testing.assert_array_equal(KnnUEEntity.load(tmp_path / "ue").read(test).scores, adapted.read(test).scores)
