"""The one place that puts an explanation into words: Python, `knn-ue explain`, the server and its page share it.

The words are derived from the numbers that are shown, so that they cannot contradict them. They separate what
calibration does to every input of the model (in a typical neighborhood) from what the neighborhood of this input adds,
and never claim that a score is right.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

_TYPICAL_SHARE = 0.1  # agreement that differs from the usual by less than this share of the neighbors is not remarked
_RARE = 0.05  # an input below this p-value is not called like the others, flagged or not


class Explained(Protocol):
    """What the words are made of; see `knn_ue.answers.Explanation`."""

    @property
    def label(self) -> str: ...
    @property
    def score(self) -> float: ...
    @property
    def raw_score(self) -> float | None: ...
    @property
    def usual_score(self) -> float | None: ...
    @property
    def n_agreeing(self) -> int | None: ...
    @property
    def usual_n_agreeing(self) -> int | None: ...
    @property
    def n_neighbors(self) -> int: ...
    @property
    def majority_label(self) -> str | None: ...
    @property
    def n_majority(self) -> int | None: ...
    @property
    def raised_by(self) -> tuple[str, ...]: ...
    @property
    def lowered_by(self) -> tuple[str, ...]: ...
    @property
    def familiarity(self) -> float | None: ...
    @property
    def unfamiliar(self) -> bool | None: ...
    @property
    def adapted_to(self) -> str | None: ...
    @property
    def base_score(self) -> float | None: ...
    @property
    def unverified_score(self) -> float | None: ...
    @property
    def verifier(self) -> Mapping[str, float] | None: ...


def percent(fraction: float) -> str:
    """Return a fraction as people read it; what is not all is never printed as 100 %.

    >>> percent(0.8149), percent(0.9999), percent(1.0)
    ('81.5 %', '> 99.9 %', '100 %')
    """
    if fraction >= 1.0 or fraction <= 0.0:
        return f"{100 * fraction:.0f} %"
    if fraction > 0.9995:
        return "> 99.9 %"
    return "< 0.1 %" if fraction < 0.0005 else f"{100 * fraction:.1f} %"


def sentences(explained: Explained) -> dict[str, str]:
    """Return the sentences of an explanation by what they are about; a part without anything to say is left out.

    `familiarity` (whether the input is like the training data), `calibration` (what happens to every input),
    `neighborhood` (what this input's neighborhood adds), `neighbors` (which labels they have), `verifier` (what the
    verifier would answer). Of an answer that was given with the row: `verdict`, what is `for` it and `against` it, and
    `own`, how sure its model said it was.
    """
    if explained.base_score is not None:
        return _verdict(explained, explained.base_score)
    found = {
        "familiarity": familiarity_sentence(explained.familiarity, explained.unfamiliar, explained.adapted_to),
        "calibration": _calibration(explained),
        "neighborhood": _neighborhood(explained),
        "neighbors": _neighbors(explained),
        "verifier": _verifier(explained),
    }
    return {part: sentence for part, sentence in found.items() if sentence}


def familiarity_sentence(
    familiarity: float | None, unfamiliar: bool | None, adapted_to: str | None = None, *, given: bool = False
) -> str:
    """Return what is known of an input, or "" where nothing is; `adapted_to` is the domain whose scale the score has.

    `given`: the answer was given with the input, so that nothing was trained, and inputs are like labeled rows or not.

    >>> familiarity_sentence(0.001, True).split(". ")[0]
    'Unlike the inputs it was trained on (p = 0.001)'
    """
    if familiarity is None:
        return ""
    trained, validation = (
        ("labeled inputs", "labeled inputs") if given else ("inputs it was trained on", "validation inputs")
    )
    if unfamiliar:
        strange = f"Unlike the {trained} (p = {familiarity:.2g})."
        if adapted_to is None:
            return f"{strange} The score was calibrated on other inputs and may be far off for this one."
        return (
            f"{strange} The score was adapted with labels of the domain {adapted_to} and may be far off for an input "
            "that is unlike those."
        )
    if familiarity < _RARE:
        return f"Rare among the {validation}, but not flagged: {percent(familiarity)} are at least as unusual."
    share = f"{100 * familiarity:.0f} %" if familiarity >= 0.1 else percent(familiarity)
    return f"Like the {validation}: {share} of them are at least as unusual."


def _verdict(explained: Explained, base: float) -> dict[str, str]:
    """Return why a given answer is likelier or less likely to be right than the model's answers usually are."""
    than_usual = "more" if explained.score > base else "less"
    known = familiarity_sentence(explained.familiarity, explained.unfamiliar, explained.adapted_to, given=True)
    found = {"familiarity": known} if known else {}
    found |= {
        "verdict": f"Of the labeled answers {percent(base)} are right; this one is {than_usual} likely to be: "
        f"{percent(explained.score)}."
    }
    said = {"for": ("For it", explained.raised_by), "against": ("Against it", explained.lowered_by)}
    found |= {part: f"{begin}: {_listed(reasons)}." for part, (begin, reasons) in said.items() if reasons}
    stated = explained.raw_score
    own = "did not say how sure it is" if stated is None else f"says {percent(stated)}"
    return found | {"own": f"The model that gave the answer {own}."}


def _verifier(explained: Explained) -> str:
    """Return what the verifier would answer, and the score with it."""
    if explained.verifier is None or explained.unverified_score is None:
        return ""
    shares = dict(explained.verifier)
    best = max(shares, key=shares.__getitem__)
    same = best == explained.label
    beside = "" if same else f", {explained.label} {percent(shares[explained.label])}"
    before, after = percent(explained.unverified_score), percent(explained.score)
    moved = f"leaves the score at {after}" if before == after else f"moves the score from {before} to {after}"
    return (
        f"The verifier, a small reader of the input alone, {'also answers' if same else 'would answer'} {best} "
        f"({percent(shares[best])}{beside}), which {moved}."
    )


def _own_score(explained: Explained) -> float:
    """Return the score before the verifier."""
    return explained.score if explained.unverified_score is None else explained.unverified_score


def _calibration(explained: Explained) -> str:
    assert explained.raw_score is not None  # only answers given with the row may have none
    raw, own = percent(explained.raw_score), _own_score(explained)
    if explained.usual_score is None:
        if raw == percent(own):
            return f"Calibration leaves the model's {raw} unchanged."
        verb = _verb(own > explained.raw_score)
        return f"Calibration {verb} the model's {raw} to {percent(own)}{_own_reasons(explained)}."
    usual = percent(explained.usual_score)
    if usual == raw:
        return f"Model-wide: in a typical neighborhood, calibration leaves the model's {raw} unchanged."
    verb = _verb(explained.usual_score > explained.raw_score)
    return f"Model-wide: in a typical neighborhood, calibration {verb} the model's {raw} to {usual}."


def _own_reasons(explained: Explained) -> str:
    """Return the reasons of a method that does not compare with a typical neighborhood; they may speak both ways."""
    raised = f"; raised by {_listed(explained.raised_by)}" if explained.raised_by else ""
    lowered = f"; lowered by {_listed(explained.lowered_by)}" if explained.lowered_by else ""
    return raised + lowered


def _neighborhood(explained: Explained) -> str:
    if explained.usual_score is None:
        return ""
    own = _own_score(explained)
    score = percent(own)
    if score == percent(explained.usual_score):
        return f"This input: its neighborhood hardly changes that ({score})."
    raises = own > explained.usual_score
    because, despite = explained.raised_by, explained.lowered_by
    if not raises:
        because, despite = despite, because
    reasons = f", because of {_listed(because)}" if because else ""
    against = f", despite {_listed(despite)}" if despite else ""
    return f"This input: its neighborhood {_verb(raises)} that to {score}{reasons}{against}."


def _neighbors(explained: Explained) -> str:
    n_agreeing, n = explained.n_agreeing, explained.n_neighbors
    if n_agreeing is None or not n:
        return ""
    count = "All" if n_agreeing == n > 1 else "None of the" if not n_agreeing else f"{n_agreeing} of the"
    usual = explained.usual_n_agreeing
    differs = usual is not None and abs(n_agreeing - usual) >= max(1, _TYPICAL_SHARE * n)
    compared = f" (usually {usual})" if differs else ""
    said = [f"{count} {n} nearest training examples are labeled {explained.label}, as predicted{compared}."]
    if explained.majority_label is not None and explained.n_majority is not None:
        most = (
            "Most of the neighbors are" if 2 * explained.n_majority > n else "Their most common label is another one:"
        )
        labeled = "labeled " if 2 * explained.n_majority > n else ""
        said.append(f"{most} {labeled}{explained.majority_label} ({explained.n_majority} of {n}).")
    if differs and explained.usual_score is not None and not _names_agreement(explained):
        said.append("Agreement has little influence on the scores of this model.")
    if explained.unfamiliar:
        said.append("The input is unfamiliar: the model places it near these examples, but they say little about it.")
    return " ".join(said)


def _names_agreement(explained: Explained) -> bool:
    return any("agreement" in reason for reason in (*explained.raised_by, *explained.lowered_by))


def _verb(raises: bool) -> str:
    return "raises" if raises else "lowers"


def _listed(parts: Sequence[str]) -> str:
    return " and ".join(parts)
