"""What a pipeline says of labeled docs -> what was learned from it, ready for a UE folder."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from knn_ue.calibrators import EntityScores, KnnUEEntity, VerifiedEntities
from knn_ue.decisions import Decision
from knn_ue.familiarity import Familiarity
from knn_ue.pipeline.answers import score_answers
from knn_ue.pipeline.fitted import Fitted
from knn_ue.pipeline.fitting import fit_outputs
from knn_ue.pipeline.rows import warn_if_weak
from knn_ue.pipeline.verified import word_reader_for
from knn_ue.stores import Datastore
from knn_ue.types import Outputs, join_outputs
from knn_ue.verifying import Reader

METHOD = "knn-ue-entity"
WITHOUT_STORE = "entity-scores"
# A validation set knows its own domain only, so slopes are held near what held elsewhere. Perturbed copies know more:
# with them a tenth was best on perturbed in-domain sentences (benchmarks/spacy_choices.py), and more is no better.
_RIDGE = 0.1


def learn(
    train: Outputs,
    validation: Outputs,
    copies: Outputs,
    *,
    reader: "str | Reader | None",
    n_neighbors: int,
    held_out: Outputs | None = None,
    decisions: Sequence[Decision] = (),
) -> Fitted:
    """Fit entity scores and familiarity on labeled outputs; `copies` are those of perturbed validation docs.

    With a `reader` a verifier learns from all of them and nothing is stored. Without one, or where "auto" finds none or
    fewer than 50 sentences, the words of `train` are stored. `decisions` are fitted on docs that are `held_out`.
    """
    warn_if_weak(validation)
    familiarity = Familiarity(train).fit(validation if held_out is None else join_outputs(validation, held_out))
    train, validation, copies = (replace(outputs, views=None) for outputs in (train, validation, copies))
    opened = word_reader_for(reader, join_outputs(train, validation))
    if opened is None:
        fitted = _with_store(train, validation, copies, n_neighbors)
    else:
        fitted = _with_reader(train, validation, copies, opened)
    if held_out is not None:
        fitted = _promised(fitted, replace(held_out, views=None), decisions)
    return replace(fitted, familiarity=familiarity)


def _promised(fitted: Fitted, held_out: Outputs, decisions: Sequence[Decision]) -> Fitted:
    others, scored = (score_answers(outputs, fitted.calibrator) for outputs in (fitted.validation, held_out))
    scored = replace(scored, others=others)
    return replace(
        fitted,
        validation=join_outputs(fitted.validation, held_out),
        held_out=np.append(fitted.held_out, np.ones(len(held_out), dtype=bool)),
        decisions=tuple(decision.fit(scored) for decision in decisions),
    )


def _with_reader(train: Outputs, validation: Outputs, copies: Outputs, reader: Reader) -> Fitted:
    calibrator = VerifiedEntities(EntityScores(ridge=_RIDGE), reader)
    calibrator.fit_robust(join_outputs(train, validation), copies)
    return Fitted(
        method=WITHOUT_STORE,
        calibrator=calibrator,
        validation=validation,
        held_out=np.zeros(len(validation), dtype=bool),
        decisions=(),
        drift=None,
        verifier_gain=calibrator.gain,
    )


def _with_store(train: Outputs, validation: Outputs, copies: Outputs, n_neighbors: int) -> Fitted:
    features, labels = train.require_features("learn"), train.require_labels("learn")
    texts = None if train.texts is None else list(train.texts)
    # Ten labeled sentences have a few hundred words: there the neighbors are fewer, not the examples more.
    n_neighbors = min(n_neighbors, max(1, len(train) // 10))
    calibrator = KnnUEEntity(Datastore.build(features, labels, texts=texts), n_neighbors=n_neighbors, ridge=_RIDGE)
    none = np.zeros(len(validation), dtype=bool)
    return fit_outputs(METHOD, calibrator, validation, none, (), copies=copies)
