"""What a pipeline says of labeled docs -> what was learned from it, ready for a UE folder."""

from dataclasses import replace

import numpy as np

from knn_ue.calibrators import KnnUEEntity
from knn_ue.familiarity import Familiarity
from knn_ue.pipeline.fitted import Fitted
from knn_ue.pipeline.fitting import fit_outputs
from knn_ue.pipeline.rows import warn_if_weak
from knn_ue.stores import Datastore
from knn_ue.types import Outputs

METHOD = "knn-ue-entity"
# A validation set knows its own domain only, so slopes are held near what held elsewhere. Perturbed copies know more:
# with them a tenth was best on perturbed in-domain sentences (benchmarks/spacy_choices.py), and more is no better.
_RIDGE = 0.1


def learn(train: Outputs, validation: Outputs, copies: Outputs, *, n_neighbors: int) -> Fitted:
    """Store the words of `train`, and fit entity scores and familiarity on `validation` and its perturbed `copies`."""
    warn_if_weak(validation)
    features, labels = train.require_features("learn"), train.require_labels("learn")
    texts = None if train.texts is None else list(train.texts)
    # Ten labeled sentences have a few hundred words: there the neighbors are fewer, not the examples more.
    n_neighbors = min(n_neighbors, max(1, len(train) // 10))
    calibrator = KnnUEEntity(Datastore.build(features, labels, texts=texts), n_neighbors=n_neighbors, ridge=_RIDGE)
    fitted_on, copied = (replace(outputs, views=None) for outputs in (validation, copies))
    none = np.zeros(len(validation), dtype=bool)
    fitted = fit_outputs(METHOD, calibrator, fitted_on, none, (), copies=copied)
    return replace(fitted, familiarity=Familiarity(train).fit(validation))
