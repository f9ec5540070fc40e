"""Test rows -> outputs and what each row counts: for `UncertaintyPipeline.evaluate`, the command and Ray."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from knn_ue.arrays import FloatArray
from knn_ue.calibrators import Calibrator
from knn_ue.data.columns import Columns
from knn_ue.encoding import Encoder, Example
from knn_ue.evaluation import TEST, check_set_name
from knn_ue.pipeline.rows import Rows, labeled_examples, maybe_labeled_examples
from knn_ue.pipeline.sampling import weights_of
from knn_ue.types import Outputs, Progress, Step


def compared(calibrator: Calibrator, method: str) -> dict[str, Calibrator]:
    """Return a fitted method by its name, behind the plain ones that it is always compared with.

    Where a verifier stands beside it, the method alone comes before both together.
    """
    if calibrator.plain is not calibrator:
        return {**calibrator.plain.rivals(), method: calibrator.plain, f"{method} + verifier": calibrator}
    return {**calibrator.rivals(), method: calibrator}


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodedSets:
    """What the model says about the test rows and those of other domains, and what rows count where they say so."""

    test: Outputs
    out_of_domain: Mapping[str, Outputs]
    sample_weight: Mapping[str, FloatArray]


class Encodes(Protocol):
    """The one method of an encoder that turns examples into outputs, wherever the model runs."""

    def encode(self, examples: Iterable[Example], *, with_labels: bool = True, progress: Step | None = None) -> Outputs:
        """See `Encoder.encode`."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class ReadSets:
    """Test rows and those of other domains, before the model sees them; `Outputs` stay what they are.

    `unlabeled` says of a set why its labels are left out.
    """

    test: Sequence[Example] | Outputs
    out_of_domain: Mapping[str, Sequence[Example] | Outputs]
    unlabeled: Mapping[str, str] = field(default_factory=dict)

    def encode(self, encoder: Encodes, progress: Progress | None = None) -> EncodedSets:
        """Return what the model says; rows count by their field `sample_weight`."""
        rows = {TEST: self.test, **self.out_of_domain}
        outputs = {}
        for name, found in rows.items():
            if isinstance(found, Outputs):
                outputs[name] = found
                continue
            step = None if progress is None else partial(progress, name)
            outputs[name] = encoder.encode(found, with_labels=name not in self.unlabeled, progress=step)
        weights = {name: None if isinstance(found, Outputs) else weights_of(found) for name, found in rows.items()}
        return EncodedSets(
            test=outputs.pop(TEST),
            out_of_domain=outputs,
            sample_weight={name: found for name, found in weights.items() if found is not None},
        )


def read_sets(
    encoder: Encoder, test: Rows | Outputs, out_of_domain: Mapping[str, Rows | Outputs], columns: Columns
) -> ReadSets:
    """Read all rows before the model sees one: a bad line is found at once. Test rows need labels."""
    task, names = encoder.task, encoder.class_names
    if not isinstance(test, Outputs):
        test = labeled_examples(test, task, names, name="test", columns=columns, words_of=encoder.words_of)
    others: dict[str, Sequence[Example] | Outputs] = {}
    unlabeled = {}
    for name, rows in out_of_domain.items():
        check_set_name(name)
        if isinstance(rows, Outputs):
            others[name] = rows
            continue
        others[name], reason = maybe_labeled_examples(rows, task, names, columns=columns, words_of=encoder.words_of)
        if reason is not None:
            unlabeled[name] = reason
    return ReadSets(test=test, out_of_domain=others, unlabeled=unlabeled)
