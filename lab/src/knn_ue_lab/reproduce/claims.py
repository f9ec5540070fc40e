"""What the paper claims in its tables, as comparisons that can be tested."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from knn_ue_lab.reproduce.measures import OURS, measure_of
from knn_ue_lab.reproduce.plan import Block, PaperTable
from knn_ue_lab.reproduce.published import Published
from knn_ue_lab.reproduce.variants import EXACT, PAPER_NAMES, MethodVariant

ClaimKind = Literal["better", "no worse"]
# What a claim is about: against whom ours is, or what is claimed of search, neighbors and times.
Topic = Literal["softmax", "existing", "others ahead", "labels help", "labels hurt", "neighbors", "search", "time", ""]
# The topics of the paper's tables of calibration, ranking and detection: kNN-UE ahead of the plain softmax or of the
# best existing method, one of them ahead of kNN-UE, kNN-UE ahead of itself without labels, and behind.
CORE: tuple[Topic, ...] = ("softmax", "existing", "others ahead", "labels help", "labels hurt")

OUR_METHODS = ("knn-ue", "knn-ue-no-label")
# "Almost no degradation" is a claim of equality, which no test can show: these are the losses we would call none.
MARGINS = {"ece": 0.01, "e_aurc_published": 0.002, "e_aurc": 0.002}


@dataclass(frozen=True, kw_only=True)
class Claim:
    """`first` does better than `second` (or no worse, within a margin) by a measure on one test set.

    `printed` are the two numbers of the paper; without them the claim is made in words or in a figure. `topic` is what
    it is about.
    """

    table: str
    text: str
    block: Block
    measure: str
    first: MethodVariant
    second: MethodVariant
    kind: ClaimKind = "better"
    printed: tuple[Published, Published] | None = None
    topic: Topic = ""

    @property
    def marked(self) -> bool:
        """Whether the paper calls the first number significant (†): better than existing methods, not than its own."""
        return self.printed is not None and self.printed[0].significant and self.second.method not in OUR_METHODS

    @property
    def margin(self) -> float:
        """By how much the first may be worse, as a fraction."""
        return MARGINS[self.measure] if self.kind == "no worse" else 0.0


@dataclass(frozen=True, kw_only=True)
class TimeClaim:
    """`first` takes at least (or at most) `bound` times as long as `second`; `printed` is the paper's ratio."""

    table: str
    text: str
    setup: str
    part: str
    first: MethodVariant
    second: MethodVariant
    at_least: bool
    bound: float
    printed: float | None


def claims_of(table: PaperTable) -> list[Claim]:
    """Return the comparisons of a table with scores."""
    if table.name in ("sentiment", "nli", "ner", "detection", "brier"):
        return [claim for block in table.blocks if block.paper for claim in _main_claims(table, block)]
    if table.name == "weights":
        return [claim for block in table.blocks if block.paper == "Yelp" for claim in _weight_claims(table, block)]
    if table.name.startswith("top-k"):
        return [claim for block in table.blocks for claim in _neighbor_claims(table, block)]
    if table.name in ("pq", "ivf", "pca", "combined", "recomputed"):
        return [claim for block in table.blocks for claim in _index_claims(table, block)]
    return []


def time_claims_of(table: PaperTable) -> list[TimeClaim]:
    """Return the comparisons of a table with times."""
    if table.name in ("time", "time-elsewhere"):
        return [claim for setup, timing in table.timings for claim in _method_times(table, setup, timing.part)]
    if table.name == "time-k":
        return list(_neighbor_times(table))
    return [
        claim
        for setup, timing in table.timings
        if timing.search_only
        for claim in _search_times(table, setup, timing.part, timing.variants)
    ]


def _main_claims(table: PaperTable, block: Block) -> Iterable[Claim]:
    """kNN-UE against the plain softmax, the best existing method and itself without labels: who wins in print."""
    ours = MethodVariant(method="knn-ue")
    for measure in block.measures:
        printed = _printed(table, block, measure)
        if "knn-ue" not in printed:
            continue
        existing = {name: number for name, number in printed.items() if name not in OUR_METHODS}
        sign = 1 if measure_of(measure).higher_is_better else -1
        best = max(existing, key=lambda name: sign * existing[name].mean)
        for rival in dict.fromkeys(("softmax", best, "knn-ue-no-label")):
            gain = sign * (printed["knn-ue"].mean - printed[rival].mean)
            if gain == 0:
                continue
            pair = (ours, MethodVariant(method=rival)) if gain > 0 else (MethodVariant(method=rival), ours)
            numbers = (printed[pair[0].method], printed[pair[1].method])
            topic: Topic
            if rival in OUR_METHODS:
                topic = "labels help" if gain > 0 else "labels hurt"
            else:
                topic = "others ahead" if gain < 0 else "softmax" if rival == "softmax" else "existing"
            yield _claim(table, block, measure, *pair, numbers=numbers, topic=topic)


def _weight_claims(table: PaperTable, block: Block) -> Iterable[Claim]:
    printed = _printed(table, block, "confidence_wrong")
    yield _claim(
        table,
        block,
        "confidence_wrong",
        MethodVariant(method="knn-ue"),
        MethodVariant(method="knn-ue-no-label"),
        numbers=(printed["knn-ue"], printed["knn-ue-no-label"]),
        text="labels lower the confidence of wrong answers",
        topic="neighbors",
    )


def _neighbor_claims(table: PaperTable, block: Block) -> Iterable[Claim]:
    for measure in ("ece", "e_aurc_published"):
        few, many = (MethodVariant(method="knn-ue", n_neighbors=k) for k in (8, 128))
        text = f"few neighbors are better than many ({few} / {many})"
        yield _claim(table, block, measure, few, many, text=text, topic="neighbors")


def _index_claims(table: PaperTable, block: Block) -> Iterable[Claim]:
    """What the text says of each index, as far as the printed numbers say it too."""
    exact = MethodVariant(method="knn-ue")
    approximate = [variant for variant in table.variants[block.setup] if variant.index != EXACT]
    for variant in approximate:
        for measure in ("ece", "mce", "e_aurc_published"):
            printed = _printed(table, block, measure)
            if str(variant) not in printed:
                continue
            numbers = (printed["knn-ue"], printed[str(variant)])
            if not _said_to_lose(variant, block, measure):
                if measure in MARGINS:
                    text = f"{table.names[variant]}: no loss against the exact search"
                    yield _claim(
                        table, block, measure, variant, exact, numbers=numbers[::-1], kind="no worse", text=text
                    )
            elif numbers[0].mean < numbers[1].mean:
                text = f"{table.names[variant]}: worse than the exact search"
                yield _claim(table, block, measure, exact, variant, numbers=numbers, text=text)
    if table.name == "recomputed":
        yield from _recomputation_claims(table, block, *approximate)


def _said_to_lose(variant: MethodVariant, block: Block, measure: str) -> bool:
    """Say whether the text calls the index worse than the exact search, or says that it loses next to nothing.

    All three combined lose in ECE and MCE; PCA to 64 or 128 columns loses; PQ, also with IVF, only in MCE in domain.
    """
    factory = variant.index.factory
    if "PCA" in factory and "PQ" in factory:
        return measure in ("ece", "mce")
    if "PCA" in factory:
        return factory.startswith(("PCA64,", "PCA128,"))
    return measure == "mce" and block.paper == "bn"


def _recomputation_claims(
    table: PaperTable, block: Block, approximate: MethodVariant, recomputed: MethodVariant
) -> Iterable[Claim]:
    for measure in ("ece", "e_aurc_published"):
        printed = _printed(table, block, measure)
        if printed:
            numbers = (printed[str(approximate)], printed[str(recomputed)])
            text = "approximate distances lose nothing against recomputed ones"
            yield _claim(table, block, measure, approximate, recomputed, numbers=numbers, kind="no worse", text=text)


def _method_times(table: PaperTable, setup: str, part: str) -> Iterable[TimeClaim]:
    assert table.published is not None
    paper = {"nli": ("MNLI", "SNLI"), "ner": ("bn", "nw")}[setup][table.name == "time-elsewhere"]
    knn = ("kNN-UE costs little beside the model", False, 1.25)
    if setup == "ner":
        knn = ("in tagging kNN-UE takes about twice as long", True, 1.5)
    rows = table.published.rows
    for name, (text, at_least, bound) in {
        "knn-ue": knn,
        "mc-dropout": ("MC Dropout costs its 20 passes", True, 10.0),
        "dac": ("DAC costs many times the model", True, 10.0),
        "density-softmax": ("Density Softmax costs little beside the model", False, 1.25),
    }.items():
        ratio = rows[name][paper, "seconds"].mean / rows["softmax"][paper, "seconds"].mean
        yield TimeClaim(
            table=table.name,
            text=f"{text} ({'at least' if at_least else 'at most'} {bound:g} times the softmax)",
            setup=setup,
            part=part,
            first=MethodVariant(method=name),
            second=MethodVariant(method="softmax"),
            at_least=at_least,
            bound=bound,
            printed=ratio,
        )


def _neighbor_times(table: PaperTable) -> Iterable[TimeClaim]:
    for setup, timing in table.timings:
        yield TimeClaim(
            table=table.name,
            text="the number of neighbors does not matter (K = 128 takes at most 1.1 times K = 8)",
            setup=setup,
            part=timing.part,
            first=MethodVariant(method="knn-ue", n_neighbors=128),
            second=MethodVariant(method="knn-ue", n_neighbors=8),
            at_least=False,
            bound=1.1,
            printed=128.39 / 128.98,
        )


def _search_times(table: PaperTable, setup: str, part: str, variants: Iterable[MethodVariant]) -> Iterable[TimeClaim]:
    paper = next(block.paper for block in table.blocks if block.part == part)
    if table.published is None or paper is None:
        return
    exact = MethodVariant(method="knn-ue")
    seconds = {
        variant: table.published.rows[str(variant)][paper, "seconds"].mean
        for variant in variants
        if (paper, "seconds") in table.published.rows.get(str(variant), {})
    }
    pairs = [(variant, exact, 1.0) for variant in seconds if variant != exact]
    if table.name == "recomputed":
        (approximate,) = (variant for variant in seconds if variant != exact and not variant.index.recompute)
        pairs += [(variant, approximate, 5.0) for variant in seconds if variant != exact and variant.index.recompute]
    for first, second, bound in pairs:
        slower = table.name == "recomputed" and first.index.recompute
        other = "the exact search" if second == exact else table.names[second]
        words = "slower" if slower else "faster"
        yield TimeClaim(
            table=table.name,
            text=f"{table.names[first]}: {f'at least {bound:g} times ' if bound > 1 else ''}{words} than {other}",
            setup=setup,
            part=part,
            first=first,
            second=second,
            at_least=slower,
            bound=bound,
            printed=seconds[first] / seconds[second],
        )


def _claim(
    table: PaperTable,
    block: Block,
    measure: str,
    first: MethodVariant,
    second: MethodVariant,
    *,
    numbers: tuple[Published, Published] | None = None,
    kind: ClaimKind = "better",
    text: str | None = None,
    topic: Topic = "search",
) -> Claim:
    words = text or f"{name_of(first)} beats {name_of(second)}"
    return Claim(
        table=table.name,
        text=words,
        block=block,
        measure=measure,
        first=first,
        second=second,
        kind=kind,
        printed=numbers,
        topic=topic,
    )


def ours_of(measure: str) -> str:
    """Return the measure by our definition."""
    return OURS.get(measure, measure)


def _printed(table: PaperTable, block: Block, measure: str) -> dict[str, Published]:
    if table.published is None or block.paper is None:
        return {}
    column = (block.paper, measure)
    return {name: row[column] for name, row in table.published.rows.items() if column in row}


def name_of(variant: MethodVariant) -> str:
    """Return what the paper calls a method."""
    return PAPER_NAMES.get(str(variant), str(variant))
