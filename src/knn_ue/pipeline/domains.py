"""The domains of a UE folder: labels of each, the scales fitted on them, and answers by the domain a row asks for.

"general" is what `fit` left behind. "default", where there is one, answers rows that name no domain.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from knn_ue.adapting import LARGEST_WEIGHT, LEAST_WEIGHT, MIN_ROWS, Adaptation, LabeledScores, adapt_units
from knn_ue.answers import AnyAnswer
from knn_ue.arrays import FloatArray, IntArray, check_positive
from knn_ue.calibrators import labeled_scores
from knn_ue.calibrators.contract import Calibrator, Found, take_found
from knn_ue.encoding import Encoder, Example
from knn_ue.encoding.inputs import windows
from knn_ue.errors import InvalidInputError
from knn_ue.folder import ArrayRule, check_arrays, from_plain, to_plain
from knn_ue.folder.schema import Arrays
from knn_ue.pipeline.answers import AbstainBelow, answer_examples, check_abstain_below, with_suggestion
from knn_ue.pipeline.domain_verifier import from_state, inputs_of, learn_domain, to_state, with_verifier
from knn_ue.pipeline.fitted import Domain, Fitted
from knn_ue.types import Outputs
from knn_ue.verifying import Reader

GENERAL = "general"
DEFAULT = "default"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_. -]{0,63}")
_SAME = 1e-4  # difference of log-probabilities of one input, read in two batches
_COMPARED = 1000  # of the added rows
_FEW_ALIKE = 5  # so many may be alike by chance
_UNITS = {"rows", "entities", "sentences"}
_LEARNED = "learned"  # where the state of its verifier is
_ARRAYS = ("log_probs", "predicted", "labels", "weights", "groups")  # of LabeledScores


def check_domain_name(name: str) -> str:
    """Return a name that a new domain may have."""
    if name == GENERAL or not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"a domain needs a name of 1 to 64 letters, digits, spaces and . _ - other than {GENERAL!r}, got {name!r}"
        )
    return name


def adapt_fitted(
    fitted: Fitted,
    labeled: Outputs,
    *,
    domain: str = DEFAULT,
    sample_weight: FloatArray | None = None,
    random_sample: bool = True,
    add: bool = False,
    force: bool = False,
    verifier: "str | Reader | None" = None,
    found: Found | None = None,
) -> tuple[Fitted, Adaptation]:
    """Return what a folder holds after adapting to a domain, and what it changes.

    With `add` the labels join those the domain has, else they replace them, if there are enough. Rows that are no
    random sample are measured, but neither kept nor used unless `force` is given. `verifier` names the reader of one
    that learns from the labels; where the folder has a verifier, its reader is the default.
    """
    check_domain_name(domain)
    scores: Mapping[str, LabeledScores] = labeled_scores(
        fitted.calibrator, labeled, sample_weight=sample_weight, found=found
    )
    before = fitted.domains.get(domain)
    familiarity = n_reference = None
    if fitted.familiarity is not None and fitted.familiarity.space_.measures(labeled):
        familiarity = fitted.familiarity.mean_p_value(labeled)
        n_reference = fitted.familiarity.n_reference(labeled)
    has_own = not fitted.calibrator.judges_given and labeled.groups is None
    reader = verifier or (fitted.calibrator.reader if has_own else None)
    inputs = [] if reader is None else inputs_of(labeled)
    repeated: tuple[str, ...] = ()
    if add and before is not None and (random_sample or force):
        repeated = _repeated(domain, before.labeled["rows"], scores["rows"])
        familiarity = _joint_mean(before.adaptation, familiarity, scores["rows"].n_groups)
        scores = {unit: before.labeled[unit].joined(scores[unit]) for unit in scores}
        random_sample = random_sample and before.adaptation.random_sample
        inputs = [] if before.learned is None else [*before.learned.inputs, *inputs]
    adaptation = adapt_units(
        scores, familiarity=familiarity, n_reference=n_reference, random_sample=random_sample, force=force
    )
    adaptation = replace(adaptation, doubts=(*repeated, *adaptation.doubts))
    if not random_sample and not force:
        return fitted, adaptation
    if before is not None and not force:
        adaptation = replace(adaptation, doubts=(*_lost(domain, before.adaptation, adaptation), *adaptation.doubts))
        if adaptation.n_rows < min(MIN_ROWS, before.adaptation.n_rows):
            return fitted, adaptation
    learned = None
    if reader is not None and len(inputs) == len(scores["rows"]):
        learned, checked = learn_domain(reader, inputs, scores["rows"], allowed=force or random_sample)
        adaptation = with_verifier(adaptation, checked)
    domains = {**fitted.domains, domain: Domain(adaptation=adaptation, labeled=scores, learned=learned)}
    return replace(fitted, domains=domains), adaptation


def _lost(domain: str, before: Adaptation, now: Adaptation) -> tuple[str, ...]:
    """Return what becomes of the labels and the scale that a domain has, where that is not what one expects."""
    if now.n_rows < min(MIN_ROWS, before.n_rows):
        return (
            f"the domain {domain} stays as it was, with its {before.n_rows} labeled rows: add these to them (--add, "
            f"add=True), or give at least {MIN_ROWS}",
        )
    if before.applied and not now.applied:
        return (f"the domain {domain} had a scale, which is removed: it has the general scores now",)
    return ()


def _repeated(domain: str, before: LabeledScores, more: LabeledScores) -> tuple[str, ...]:
    """Return a doubt where most of the added labels seem to be there already: the same scores and labels."""
    compared = more.take(np.arange(min(len(more), _COMPARED)))
    n_same = sum(
        bool(((np.abs(before.log_probs - log_probs).max(axis=1) < _SAME) & (before.labels == label)).any())
        for log_probs, label in zip(compared.log_probs, compared.labels, strict=True)
    )
    if n_same < _FEW_ALIKE or 2 * n_same <= len(compared):
        return ()
    return (
        f"{n_same} of the {len(compared)} added labels look like labels that the domain {domain} has: if they were "
        "added twice, adapt again without --add (add=False), with each row once",
    )


def _joint_mean(before: Adaptation, familiarity: float | None, n_rows: int) -> float | None:
    """Return the mean p-value of the labels a domain has and of `n_rows` more; None where one is not known."""
    if before.familiarity is None or familiarity is None:
        return None
    return (before.n_rows * before.familiarity + n_rows * familiarity) / (before.n_rows + n_rows)


def forget_domain(fitted: Fitted, domain: str) -> Fitted:
    """Return what a folder holds without a domain; its labels are forgotten too."""
    if domain not in fitted.domains:
        raise _unknown(fitted, domain)
    return replace(fitted, domains={name: found for name, found in fitted.domains.items() if name != domain})


def calibrator_of(fitted: Fitted, domain: str | None, *, base: Calibrator | None = None) -> Calibrator:
    """Return the calibrator that answers in a domain; `base` stands for the fitted one, over other stores."""
    calibrator = fitted.calibrator if base is None else base
    if domain == GENERAL or (domain is None and DEFAULT not in fitted.domains):
        return calibrator
    found = fitted.domains.get(domain or DEFAULT)
    if found is None:
        raise _unknown(fitted, domain)
    scaled = calibrator.with_log_scales(found.adaptation.log_scales)
    return scaled if found.learned is None else found.learned.beside(scaled)


def scale_of(fitted: Fitted, domain: str | None) -> str | None:
    """Return the name of the domain whose scale the scores of a domain have; None where they have none."""
    name = domain or DEFAULT
    found = fitted.domains.get(name)
    return name if found is not None and found.adaptation.applied else None


def asked_domains(fitted: Fitted, examples: Sequence[Example], domain: str | None) -> list[str | None]:
    """Return the domain of each example: its own, else `domain`.

    Where the folder has no domains, a field of that name is something else and is left alone.
    """
    if domain is not None:
        calibrator_of(fitted, domain)
    if not fitted.domains:
        return [domain] * len(examples)
    asked = [example.domain or domain for example in examples]
    for name in dict.fromkeys(asked):
        calibrator_of(fitted, name)
    return asked


def answer_in_domains(
    examples: Sequence[Example],
    outputs: Outputs,
    fitted: Fitted,
    *,
    domain: str | None = None,
    base: Calibrator | None = None,
    abstain_below: AbstainBelow = None,
    top: int,
    top_k: int | None = None,
    found: Found | None = None,
) -> list[AnyAnswer]:
    """Return the answer to each example, in order, with the scores of the domain it asks for; one search for all."""
    asked = asked_domains(fitted, examples, domain)
    limits = list(abstain_below) if isinstance(abstain_below, Sequence) else [abstain_below] * len(examples)
    if found is None:
        found = (base or fitted.calibrator).search(outputs)
    answers: dict[int, AnyAnswer] = {}
    names = list(dict.fromkeys(asked))
    for name in names:
        chosen = [number for number, wanted in enumerate(asked) if wanted == name]
        rows = slice(None) if len(names) == 1 else _rows_of(examples, outputs, chosen)
        given = answer_examples(
            [examples[number] for number in chosen],
            outputs if len(names) == 1 else outputs.take(rows),
            calibrator_of(fitted, name, base=base),
            decisions=fitted.decisions,
            abstain_below=[limits[number] for number in chosen],
            top=top,
            top_k=top_k,
            found=found if len(names) == 1 else take_found(found, rows),
            familiarity=fitted.familiarity,
        )
        shown = name or (DEFAULT if DEFAULT in fitted.domains else None)
        answers |= {number: replace(x, domain=shown) for number, x in zip(chosen, given, strict=True)}
    return [answers[number] for number in range(len(examples))]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is wanted of each answer; see `UncertaintyPipeline.__call__`."""

    abstain_below: float | None = None
    top: int = 5
    top_k: int | None = None
    domain: str | None = None
    suggest: bool = False


def answer_stream(examples: Iterable[Example], encoder: Encoder, fitted: Fitted, asked: Asked) -> Iterator[AnyAnswer]:
    """Return the answers to examples, a window of them at a time; what cannot be given is refused before the first."""
    check_abstain_below(asked.abstain_below)
    if asked.top:
        check_positive(asked.top, "top")
    if asked.top_k is not None:
        check_positive(asked.top_k, "top_k")
    if asked.domain is not None:
        calibrator_of(fitted, asked.domain)
    answers = _answer_windows(examples, encoder, fitted, asked)
    return map(with_suggestion, answers) if asked.suggest else answers


def _answer_windows(examples: Iterable[Example], encoder: Encoder, fitted: Fitted, asked: Asked) -> Iterator[AnyAnswer]:
    for window in windows(examples, batch_size=encoder.options.batch_size):
        outputs = encoder.encode(window, with_labels=False)
        if asked.domain is not None or fitted.domains:
            yield from answer_in_domains(
                window,
                outputs,
                fitted,
                domain=asked.domain,
                abstain_below=asked.abstain_below,
                top=asked.top,
                top_k=asked.top_k,
            )
            continue
        yield from answer_examples(
            window,
            outputs,
            fitted.calibrator,
            decisions=fitted.decisions,
            abstain_below=asked.abstain_below,
            top=asked.top,
            top_k=asked.top_k,
            familiarity=fitted.familiarity,
        )


def domain_to_part(domain: Domain) -> tuple[dict[str, Any], Arrays]:
    """Return what a folder holds of a domain."""
    arrays = {
        f"{unit}.{name}": np.ascontiguousarray(getattr(scores, name))
        for unit, scores in domain.labeled.items()
        for name in _ARRAYS
    }
    check_arrays(arrays, _rules_of(domain.adaptation, domain.labeled["rows"].log_probs.shape[1]))
    state = to_plain(domain.adaptation)
    if domain.learned is not None:
        state[_LEARNED], more = to_state(domain.learned)
        arrays |= more
    return state, arrays


def domain_from_part(name: str, state: Mapping[str, Any], arrays: Arrays, n_classes: int) -> Domain:
    """Read what `domain_to_part` returned; ValueError where it is something else."""
    check_domain_name(name)
    adaptation = from_plain(Adaptation, {name: value for name, value in state.items() if name != _LEARNED})
    if "rows" not in adaptation.units or not adaptation.units.keys() <= _UNITS:
        raise ValueError(f"the domain {name} lacks rows, or has units that are unknown")
    check_arrays(arrays, _rules_of(adaptation, n_classes))
    learned = None
    if _LEARNED in state:
        learned = from_state(state[_LEARNED], arrays, n_rows=len(arrays["rows.labels"]), n_classes=n_classes)
    return Domain(
        learned=learned,
        adaptation=adaptation,
        labeled={
            unit: LabeledScores(
                by_odds=unit != "rows",  # as `of_scores` made them
                **{field: arrays[f"{unit}.{field}"] for field in _ARRAYS},
            )
            for unit in adaptation.units
        },
    )


def _rules_of(adaptation: Adaptation, n_classes: int) -> dict[str, ArrayRule]:
    """Return what the arrays of a domain may be."""
    rules: dict[str, ArrayRule] = {}
    for unit in adaptation.units:
        columns = n_classes if unit == "rows" else 2
        classes = ArrayRule(dtype=np.int64, shape=(unit,), least=0, most=columns - 1)
        rules |= {
            f"{unit}.log_probs": ArrayRule(dtype=np.float64, shape=(unit, columns), least=-1e3, most=1e-6),
            f"{unit}.predicted": classes,
            f"{unit}.labels": classes,
            f"{unit}.weights": ArrayRule(dtype=np.float64, shape=(unit,), least=LEAST_WEIGHT, most=LARGEST_WEIGHT),
            f"{unit}.groups": ArrayRule(dtype=np.int64, shape=(unit,), least=0, most=1 << 40),
        }
    return rules


def _rows_of(examples: Sequence[Example], outputs: Outputs, chosen: Sequence[int]) -> IntArray:
    """Return the rows of some examples: in tagging each word is one."""
    if outputs.groups is None:
        return np.array(chosen, dtype=np.int64)
    ends = np.cumsum([len(example.parts) for example in examples])
    parts = [np.arange(ends[number] - len(examples[number].parts), ends[number]) for number in chosen]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _unknown(fitted: Fitted, domain: str | None) -> InvalidInputError:
    known = ", ".join([GENERAL, *fitted.domains])
    return InvalidInputError(
        f"{str(domain)[:64]!r} is not a domain of this folder, which has {known}: choose one, or run knn-ue adapt first"
    )
