import numpy as np
import pytest

from knn_ue.errors import InvalidInputError
from knn_ue.pipeline import UncertaintyPipeline
from knn_ue.types import Outputs, join_outputs
from pipelines import PAIR, TEXT, WORDS, fit
from tiny_models import ROWS


@pytest.mark.slow
@pytest.mark.parametrize("task", [TEXT, PAIR, WORDS])
def test_a_robust_fit_sees_a_perturbed_copy_of_each_row_and_keeps_it(models, fitted, task, tmp_path):
    robust = fit(models[task], task, robust=True)
    robust.save(tmp_path / "ue")
    opened = UncertaintyPipeline.load(tmp_path / "ue", device="cpu")

    assert opened.fitted_.copies is not None and len(opened.validation_) == len(fitted[task].validation_)
    assert robust.calibrator_.params_ != fitted[task].calibrator_.params_
    refitted = opened.use_index("exact").calibrator_.params_
    assert refitted.alpha == pytest.approx(robust.calibrator_.params_.alpha, rel=1e-3)


def test_held_out_rows_are_not_perturbed_into_the_fit(models):
    with pytest.warns(UserWarning, match="cannot be promised"):
        robust = fit(models[TEXT], TEXT, robust=True, target_risk=0.3)

    assert len(robust.fitted_.copies) == int((~robust.fitted_.held_out).sum())


def test_outputs_cannot_be_perturbed(fitted):
    pipe = UncertaintyPipeline(fitted[TEXT].encoder)

    with pytest.raises(InvalidInputError, match="robust needs the validation rows"):
        pipe.fit(ROWS[TEXT](20), fitted[TEXT].validation_, n_neighbors=8, robust=True)


def test_joined_outputs_keep_sentences_apart():
    first = Outputs(logits=np.zeros((2, 2)), labels=[0, 1], groups=[3, 3], class_names=("O", "B-X"))
    second = Outputs(logits=np.ones((2, 2)), labels=[1, 1], groups=[3, 4], texts=["a", "b"])

    joined = join_outputs(first, second)

    assert joined.groups.tolist() == [3, 3, 7, 8] and joined.texts is None
    assert joined.labels.tolist() == [0, 1, 1, 1]
