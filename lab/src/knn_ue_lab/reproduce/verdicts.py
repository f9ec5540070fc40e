"""The paper's claims and ours: holds, does not hold, undecided, or cannot be tested here. Wishes do not count.

A claim holds when our difference has the direction of the paper's and its 95 % interval, over texts and seeds,
excludes zero, also after Holm's correction over the claims of the table, and can be seen in the digits of a table. It
does not hold when the interval excludes an effect of half the paper's size, also after the correction; a claim without
printed numbers when it excludes any gain. A claim of no loss holds when the interval excludes a loss of a stated
margin, and does not hold when it excludes a smaller one. All else is undecided: we saw too little to say.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Literal

from knn_ue_lab.reproduce.cells import Content
from knn_ue_lab.reproduce.claims import Claim, TimeClaim, Topic, name_of, ours_of
from knn_ue_lab.reproduce.comparisons import PairedTests, pair_of
from knn_ue_lab.reproduce.few_seeds import of_bound
from knn_ue_lab.reproduce.measures import VISIBLE, measure_of
from knn_ue_lab.reproduce.scales import PAPER
from knn_ue_lab.reproduce.statistics import FEWEST_SEEDS, PairedTest, holm
from knn_ue_lab.reproduce.task_runner import TaskRunner
from knn_ue_lab.reproduce.variants import PASSES, MethodVariant

# By setup, test set, method and measure.
Means = Mapping[tuple[str, str, str, str], float]
# By setup and method: what to say of a model that did not learn.
Unlearned = Mapping[str, Mapping[MethodVariant, str]]
# The error that a side of a claim would have if it were perfectly calibrated, the lower of both.
Floor = Callable[[Claim, PairedTest], float]
Word = Literal["holds", "does not hold", "undecided", "cannot be tested here"]

ALPHA = 0.05
_MANY = ", but not after correction for many claims"


@dataclass(frozen=True, kw_only=True)
class ClaimVerdict:
    """What became of one claim.

    `paper` and `ours` show the two numbers of each side, ours on the same texts and seeds, `interval` the difference
    with its 95 % bounds. `p` is the p-value of no gain after Holm's correction and `p_against` that of the gain which a
    claim is refuted by, after its own; `t_test` is that of the t-test over seeds.
    `by_our_definition` is the verdict where our definition of the measure is another than the published one. `differs`
    says how encoder and data of the `setup` differ from the paper's. With `one_seed` the interval is that of texts
    alone. `effect` is our gain as a share of the paper's, and `precision` half the width of its interval, in the same
    unit; both are NaN where the paper prints no two numbers. With `no_room` the second side is so good already that
    half the paper's gain cannot be had. `measured` says that there are numbers to judge it by, `marked` that the paper
    calls its number significantly better than existing methods (†). `topic` is what the claim is about.
    """

    table: str
    claim: str
    place: str
    measure: str
    paper: str
    ours: str
    interval: str
    p: float
    t_test: float
    word: Word
    reason: str
    by_our_definition: Word | None = None
    setup: str = ""
    differs: str = ""
    one_seed: bool = False
    effect: float = math.nan
    precision: float = math.nan
    no_room: bool = False
    measured: bool = True
    p_against: float = math.nan
    marked: bool = False
    topic: Topic = ""


def judge(
    claims: Sequence[Claim],
    compared: Mapping[tuple[str, str], PairedTests],
    means: Means,
    unlearned: Unlearned | None = None,
    floor: Floor = lambda _claim, _found: 0.0,
) -> list[ClaimVerdict]:
    """Return a verdict for each claim of a table; `compared` is by (setup, part).

    Claims about a method whose model is `unlearned` cannot be tested.
    """
    ours = [replace(claim, measure=ours_of(claim.measure)) for claim in claims]
    verdicts, again = (_judge(chosen, compared, means, unlearned or {}, floor) for chosen in (claims, ours))
    return [
        replace(verdict, by_our_definition=other.word) if ours_of(claim.measure) != claim.measure else verdict
        for claim, verdict, other in zip(claims, verdicts, again, strict=True)
    ]


def judge_times(claims: Sequence[TimeClaim], cells: Mapping[tuple[str, str], Content]) -> list[ClaimVerdict]:
    """Return a verdict for each claim about times; the interval is that of the rounds, which were timed in turn."""
    return [_time_verdict(claim, cells.get((claim.setup, claim.part))) for claim in claims]


def judge_coverage(setup: str, place: str, method: str, shares: Sequence[float]) -> ClaimVerdict:
    """Return the verdict on "all three together find almost none of the exact neighbors", below 1 %."""
    found = f"{100 * sum(shares) / len(shares):.1f} %" if shares else "–"
    word: Word = "cannot be tested here" if not shares else "holds" if max(shares) < 0.01 else "does not hold"
    reason = "not measured" if not shares else "n_probe is set on the index inside" if word != "holds" else ""
    return ClaimVerdict(
        table="coverage",
        claim="all three combined find almost none of the exact neighbors (below 1 %)",
        place=place,
        measure=f"coverage of {method}",
        paper="0.02 % (bn), 0.04 % (nw)",
        ours=found,
        interval=f"[{100 * min(shares):.1f}, {100 * max(shares):.1f}] over seeds" if shares else "–",
        p=math.nan,
        t_test=math.nan,
        word=word,
        reason=reason,
        setup=setup,
        measured=bool(shares),
        topic="search",
    )


def differences(runner: TaskRunner) -> str:
    """Return how encoder and data of a setup differ from the paper's, nothing where they do not."""
    published = PAPER.encoders[runner.setup.name]
    used = Path(runner.encoder_name).name or "another encoder"
    encoder = "" if runner.encoder_name == published else f"{used} for {published.partition('/')[2]}"
    return "; ".join(part for part in (encoder, runner.setup.differs) if part)


def _judge(
    claims: Sequence[Claim],
    compared: Mapping[tuple[str, str], PairedTests],
    means: Means,
    unlearned: Unlearned,
    floor: Floor,
) -> list[ClaimVerdict]:
    failed = [_failed(claim, unlearned) for claim in claims]
    pairs = [None if why else _pair(claim, compared) for claim, why in zip(claims, failed, strict=True)]
    both = list(zip(claims, pairs, strict=True))
    shown = holm([_looked_at(claim, pair) for claim, pair in both])
    refuted = holm([_refuted(claim, pair) for claim, pair in both])
    verdicts = [_verdict(*one, p, against, means, floor) for one, p, against in zip(both, shown, refuted, strict=True)]
    return [replace(one, reason=why, measured=True) if why else one for one, why in zip(verdicts, failed, strict=True)]


def _failed(claim: Claim, unlearned: Unlearned) -> str:
    """Return which side of a claim did not learn its task, nothing where both did."""
    known = unlearned.get(claim.block.setup, {})
    return "; ".join(f"{variant} {known[variant]}" for variant in (claim.first, claim.second) if variant in known)


def _pair(claim: Claim, compared: Mapping[tuple[str, str], PairedTests]) -> PairedTest | None:
    pairs = compared.get((claim.block.setup, claim.block.part), {}).get(claim.measure, {})
    return pair_of(pairs, str(claim.first), str(claim.second))


def _gain(claim: Claim, found: PairedTest) -> tuple[float, float, float]:
    """Return by how much the first is better than the second, with its bounds: above 0 is better."""
    if measure_of(claim.measure).higher_is_better:
        return found.difference, found.low, found.high
    return -found.difference, -found.high, -found.low


def _looked_at(claim: Claim, found: PairedTest | None) -> float:
    """Return the p-value that counts for Holm's correction: of zero, or of a loss as large as the margin."""
    if found is None or found.n_seeds < FEWEST_SEEDS:
        return math.nan
    if claim.kind == "better":
        return found.p
    gain, low, _ = _gain(claim, found)
    return of_bound(gain, low, -claim.margin, share=found.share, n_seeds=found.n_seeds)


def _refuted(claim: Claim, found: PairedTest | None) -> float:
    """Return the p-value of a gain as large as `_least_effect` or larger, for its own Holm's correction."""
    if found is None or found.n_seeds < FEWEST_SEEDS:
        return math.nan
    gain, _, high = _gain(claim, found)
    return of_bound(-gain, -high, -_least_effect(claim), share=found.share, n_seeds=found.n_seeds)


def _paper_effect(claim: Claim) -> float:
    """Return the paper's gain as a fraction, NaN where it prints no two numbers."""
    if claim.printed is None or claim.kind != "better":
        return math.nan
    return abs(claim.printed[0].mean - claim.printed[1].mean) / measure_of(claim.measure).unit


def _least_effect(claim: Claim) -> float:
    """Return the gain that must be excluded for a claim not to hold: half the paper's, none, or the loss allowed."""
    if claim.kind == "no worse":
        return -claim.margin
    effect = _paper_effect(claim)
    return 0.0 if math.isnan(effect) else effect / 2


def _has_no_room(claim: Claim, found: PairedTest, floor: Floor) -> bool:
    """Say whether the second side is nearer to a perfect score than the gain that the claim is refuted by."""
    higher = measure_of(claim.measure).higher_is_better
    room = 1 - found.second if higher else found.second - floor(claim, found)
    return claim.kind == "better" and room < _least_effect(claim)


def _verdict(
    claim: Claim, found: PairedTest | None, p: float, against: float, means: Means, floor: Floor
) -> ClaimVerdict:
    measure = measure_of(claim.measure)
    both = _both(claim, found, means)
    ours = " / ".join("–" if x is None or math.isnan(x) else f"{measure.unit * x:.2f}" for x in both)
    paper = "in words" if claim.printed is None else f"{claim.printed[0]} / {claim.printed[1]}"
    word: Word
    effect = precision = math.nan
    no_room = False
    if found is None or math.isnan(found.low):
        word, interval, t_test = "cannot be tested here", "–", math.nan
        reason = "the cells, or answers that give their numbers, are not here"
        if found is not None:
            reason = "not defined with every seed" if found.n_seeds else "no seed that both were measured with"
    else:
        gain, low, high = _gain(claim, found)
        interval = f"{measure.unit * gain:+.2f} [{measure.unit * low:+.2f}, {measure.unit * high:+.2f}]"
        word, reason = "undecided", "one seed does not show how far seeds scatter"
        if found.n_seeds >= FEWEST_SEEDS:
            word, reason = _decide(claim, (gain, low, high), p, against)
        no_room = word == "does not hold" and high >= 0 and _has_no_room(claim, found, floor)
        if no_room:  # it would fail whatever the first method does; the opposite says something of the claim
            word, reason = (
                "cannot be tested here",
                f"{name_of(claim.second)} leaves no room for half the paper's effect",
            )
        effect, precision = gain / _paper_effect(claim), (high - low) / 2 / _paper_effect(claim)
        limits = [f"on the first {found.n_texts} texts"] if found.n_texts else []
        reason = "; ".join(part for part in (reason, *limits) if part)
        t_test = found.t_test
    place = claim.block.part
    if claim.block.paper and claim.block.paper.lower() != place:
        place = f"{place} (for {claim.block.paper})"
    return ClaimVerdict(
        table=claim.table,
        claim=claim.text,
        place=place,
        measure=measure.title,
        paper=paper,
        ours=ours,
        interval=interval,
        p=p,
        t_test=t_test,
        word=word,
        reason=reason,
        setup=claim.block.setup,
        one_seed=found is not None and found.n_seeds == 1,
        effect=effect,
        precision=precision,
        no_room=no_room,
        measured=found is not None,
        p_against=against,
        marked=claim.marked,
        topic=claim.topic,
    )


def _both(claim: Claim, found: PairedTest | None, means: Means) -> list[float | None]:
    """Return the two numbers that are compared; without a comparison the tables' own, if they are of the same texts."""
    if found is not None:
        return [found.first, found.second]
    variants = (claim.first, claim.second)
    if any(variant.method == PASSES for variant in variants):
        return [None, None]
    return [means.get((claim.block.setup, claim.block.part, str(variant), claim.measure)) for variant in variants]


def _decide(claim: Claim, gained: tuple[float, float, float], p: float, against: float) -> tuple[Word, str]:
    """Return the verdict on a gain with its bounds; `p` counts for the claim, `against` for its refutation."""
    gain, low, high = gained
    unit = measure_of(claim.measure).unit
    if claim.kind == "no worse":
        return _decide_no_loss(claim, low, high, p, against)
    least = _least_effect(claim)
    half = "half the paper's effect" if claim.printed is not None else "any gain"
    if low > 0 and p < ALPHA and abs(unit * gain) >= VISIBLE:
        return "holds", f"but less than {half}" if high < least else ""
    if high <= least and against < ALPHA:
        opposite = "the opposite was seen; " if high < 0 and abs(unit * gain) >= VISIBLE else ""
        return "does not hold", f"{opposite}{half} is excluded"
    if abs(unit * gain) < VISIBLE:
        return "undecided", f"no difference in the digits shown, and {half} is not excluded"
    if low > 0:
        return "undecided", f"seen{_MANY}"
    if high <= least:
        return "undecided", f"{half} is excluded{_MANY}"
    return "undecided", f"neither no gain nor {half} is excluded"


def _decide_no_loss(claim: Claim, low: float, high: float, p: float, against: float) -> tuple[Word, str]:
    margin = f"{measure_of(claim.measure).unit * claim.margin:g}"
    sure = "it loses significantly, and " if high < 0 else ""
    if low > -claim.margin:
        below = f"{sure}the loss is below {margin}"
        return ("holds", below) if p < ALPHA else ("undecided", f"{below}{_MANY}")
    if high <= -claim.margin:
        lost = f"loses {margin} or more"
        return ("does not hold", lost) if against < ALPHA else ("undecided", f"{lost}{_MANY}")
    return "undecided", f"{sure}a loss of {margin} or more is not excluded"


def _time_verdict(claim: TimeClaim, content: Content | None) -> ClaimVerdict:
    rounds = (content or {}).get("milliseconds", {})
    first, second = rounds.get(str(claim.first)), rounds.get(str(claim.second))
    word: Word
    if not first or not second:
        word, reason, ours, interval = "cannot be tested here", "not timed", "–", "–"
    else:
        ratios = [a / b for a, b in zip(first, second[: len(first)], strict=True)]
        ours = f"{median(ratios):.2f} times"
        interval = f"[{min(ratios):.2f}, {max(ratios):.2f}]"
        kept = [ratio >= claim.bound if claim.at_least else ratio <= claim.bound for ratio in ratios]
        word = "holds" if all(kept) else "undecided" if any(kept) else "does not hold"
        limits = ["measured while other jobs ran"] if (content or {})["load"] > 1.5 else []
        limits += ["one round only"] if len(ratios) == 1 else []
        reason = "; ".join(limits)
    return ClaimVerdict(
        table=claim.table,
        claim=claim.text,
        place=claim.part,
        measure="time",
        setup=claim.setup,
        paper="in words" if claim.printed is None else f"{claim.printed:.2f} times",
        ours=ours,
        interval=interval,
        p=math.nan,
        t_test=math.nan,
        word=word,
        reason=reason,
        measured=bool(first and second),
        topic="time",
    )
