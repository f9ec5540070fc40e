"""The plan, as data: every table and figure of the paper, the cells each needs, and tables of our own."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from knn_ue_lab.detection import DETECTORS
from knn_ue_lab.reproduce.indexes import paper_indexes
from knn_ue_lab.reproduce.measures import OURS
from knn_ue_lab.reproduce.published import PUBLISHED, PublishedTable
from knn_ue_lab.reproduce.run import Job
from knn_ue_lab.reproduce.setups import ScoredSet, Setup
from knn_ue_lab.reproduce.timing import Timing
from knn_ue_lab.reproduce.variants import ENTITY_PLATT, RIVALS, MethodVariant, methods_of

Kind = Literal["scores", "time", "toy"]

SWEPT_NEIGHBORS = (8, 16, 32, 64, 128)
_CALIBRATION = ("ece", "mce", "class_auroc", "e_aurc_published")
_ENTITIES = ("f1", "ece", "mce", "e_aurc_published")
# What the field asks for since: calibration without bins and near and far, ranking, proper scores in two parts, risk.
_PARTS = ("brier_calibration", "brier_refinement", "nll_calibration", "nll_refinement")
_NEWER = ("smooth_ece", "piece", "augrc", "brier", *_PARTS, "risk_at_80", "coverage_at_5")
_WEIGHTS = ("weight_right", "weight_wrong", "confidence_right", "confidence_wrong")
_DETECTION = ("fpr95", "detection_auroc", "aupr_in_published", "aupr_out_published")
# Features of the small encoder have 384 columns, those of the paper's 768: both allow every index of the paper.
_N_COLUMNS = 384


@dataclass(frozen=True, kw_only=True)
class Block:
    """The numbers of one test set: `part` of a setup, standing for the paper's set `paper` where it does."""

    setup: str
    part: str
    paper: str | None
    measures: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """One table or figure: its rows are methods, its columns the measures of some test sets.

    `needs` are the setups it cannot do without. `timings` are by setup.
    """

    name: str
    title: str
    needs: tuple[str, ...]
    blocks: tuple[Block, ...] = ()
    variants: Mapping[str, tuple[MethodVariant, ...]] = field(default_factory=dict)
    names: Mapping[MethodVariant, str] = field(default_factory=dict)
    kind: Kind = "scores"
    timings: tuple[tuple[str, Timing], ...] = ()
    published: PublishedTable | None = None
    figure: bool = False

    @property
    def missing(self) -> tuple[str, ...]:
        """The setups it needs that there are no data for."""
        return tuple(name for name in self.needs if name not in self.setups)

    @property
    def setups(self) -> tuple[str, ...]:
        """The setups it is made of."""
        return tuple(dict.fromkeys([*(block.setup for block in self.blocks), *(setup for setup, _ in self.timings)]))

    def jobs(self, n_seeds: int, trained_seeds: int | None = None) -> list[Job]:
        """Return the cells it needs; times are measured with the first seed only, where all methods are.

        Methods that train their own model are measured with the first `trained_seeds` seeds. Other ways to search and
        mc-dropout are measured with the last: a run that continues from committed cells has only their plain models.
        """
        few = n_seeds if trained_seeds is None else min(n_seeds, trained_seeds)
        setups = dict.fromkeys(block.setup for block in self.blocks)
        scored = [
            Job(setup=setup, what=variant, seed=seed)
            for seed in range(n_seeds)
            for setup in setups
            for variant in self.variants.get(setup, ())
            if variant.is_post_hoc or seed in (range(few) if variant.trains else range(n_seeds - few, n_seeds))
        ]
        timed = self.timings if few else ()
        return scored + [Job(setup=setup, what=timing, seed=0) for setup, timing in timed]


def make_plan(setups: Iterable[Setup]) -> dict[str, PaperTable]:
    """Return every table by name, for the data at hand; a table whose data are missing says so."""
    by_name = {setup.name: setup for setup in setups}
    tables = [
        _scores("sentiment", "Sentiment analysis", by_name, _CALIBRATION),
        _detection(by_name),
        _scores("nli", "Natural language inference", by_name, _CALIBRATION),
        _scores("ner", "Named entity recognition (entities)", by_name, _ENTITIES),
        _weights(by_name),
        _neighbors("top-k-sentiment", "sentiment", by_name),
        _neighbors("top-k-ner", "ner", by_name),
        _time("time", "Inference time, in domain", by_name, place=0),
        _time("time-elsewhere", "Inference time, out of domain", by_name, place=1),
        _time_of_rivals(by_name),
        _time_by_neighbors(by_name),
        _indexes("combined", "PQ, IVF and PCA combined", by_name),
        _coverage(by_name),
        _indexes("pq", "Product quantization", by_name),
        _indexes("ivf", "Clustering (IVF behind PQ)", by_name),
        _indexes("pca", "Dimension reduction", by_name),
        _indexes("recomputed", "Recomputed distances", by_name),
        _brier(by_name),
        PaperTable(
            name="toy", title="ECE and E-AURC in two toy cases", needs=(), kind="toy", published=PUBLISHED["toy"]
        ),
        _scores("intent", "Intents (not in the paper)", by_name, ("ece", "mce", "auroc", "e_aurc")),
        _human(by_name),
        _newer(by_name),
    ]
    return {table.name: table for table in tables}


def _scores(name: str, title: str, setups: Mapping[str, Setup], measures: tuple[str, ...]) -> PaperTable:
    blocks = [_block(setups[name], one, _with_ours(("right", *measures))) for one in _labeled(setups, name)]
    return _table(name, title, (name,), blocks, setups)


def _detection(setups: Mapping[str, Setup]) -> PaperTable:
    blocks = [
        _block(setup, one, _with_ours(_DETECTION))
        for setup in setups.values()
        for one in setup.sets
        if one.role in ("out", "outside")
    ]
    detectors = tuple(MethodVariant(method=name) for name in DETECTORS)
    return _table("detection", "Out-of-distribution detection", ("sentiment",), blocks, setups, more=detectors)


def _weights(setups: Mapping[str, Setup]) -> PaperTable:
    blocks = [_block(setups["sentiment"], one, _WEIGHTS) for one in _labeled(setups, "sentiment")]
    variants = tuple(MethodVariant(method=name) for name in ("knn-ue-no-label", "knn-ue"))
    title = "W and confidence of right and wrong answers"
    return _table("weights", title, ("sentiment",), blocks, setups, variants=variants)


def _neighbors(name: str, setup: str, setups: Mapping[str, Setup]) -> PaperTable:
    measures = _with_ours(("ece", "e_aurc_published"))
    blocks = [_block(setups[setup], one, measures) for one in _searched(setups, setup)]
    variants = tuple(MethodVariant(method="knn-ue", n_neighbors=k) for k in SWEPT_NEIGHBORS)
    return _table(name, f"Number of neighbors, {setup}", (setup,), blocks, setups, variants=variants, figure=True)


def _indexes(name: str, title: str, setups: Mapping[str, Setup]) -> PaperTable:
    blocks = [_block(setups["ner"], one, _with_ours(_ENTITIES[1:])) for one in _searched(setups, "ner")]
    plain = tuple(MethodVariant(method=method) for method in ("softmax", "knn-ue-no-label", "knn-ue"))
    rows = {MethodVariant(method="knn-ue", index=index): shown for shown, index in paper_indexes(_N_COLUMNS)[name]}
    searched = (MethodVariant(method="knn-ue"), *rows)
    timings = [
        (block.setup, Timing(part=block.part, variants=searched, name=f"search-{name}", search_only=True))
        for block in blocks
    ]
    return _table(name, title, ("ner",), blocks, setups, variants=(*plain, *rows), names=rows, timings=tuple(timings))


def _coverage(setups: Mapping[str, Setup]) -> PaperTable:
    blocks = [_block(setups["ner"], one, ("coverage",)) for one in _searched(setups, "ner")]
    tables = paper_indexes(_N_COLUMNS)
    shown = [*tables["combined"], *(row for row in tables["pca"] if row[0] == "PCA 128")]
    rows = {
        MethodVariant(method="knn-ue", index=index): f"only {name}" if name == "PCA 128" else name
        for name, index in shown
    }
    return _table(
        "coverage", "Coverage of the exact neighbors", ("ner",), blocks, setups, variants=tuple(rows), names=rows
    )


def _brier(setups: Mapping[str, Setup]) -> PaperTable:
    blocks = [_block(setups[name], one, ("brier",)) for name in ("sentiment", "nli") for one in _labeled(setups, name)]
    return _table("brier", "Brier score", ("sentiment", "nli"), blocks, setups)


def _human(setups: Mapping[str, Setup]) -> PaperTable:
    blocks = [
        _block(setups[name], one, ("human", "right", "ece"))
        for name in ("sentiment", "nli")
        for one in _labeled(setups, name)
    ]
    return _table("human", "Distance to human label distributions (not in the paper)", (), blocks, setups)


def _newer(setups: Mapping[str, Setup]) -> PaperTable:
    blocks = [_block(setup, one, _NEWER) for setup in setups.values() for one in setup.labeled]
    return _table("newer", "Measures that came after the paper", (), blocks, setups)


def _time(name: str, title: str, setups: Mapping[str, Setup], *, place: int) -> PaperTable:
    timings = []
    for setup in ("nli", "ner"):
        for one in _labeled(setups, setup)[place : place + 1]:
            timed = [method for method in methods_of(setups[setup].task) if method not in RIVALS]
            variants = tuple(MethodVariant(method=method) for method in timed)
            timings.append((setup, Timing(part=one.name, variants=variants)))
    return _table(name, title, ("nli", "ner"), [], setups, timings=tuple(timings), kind="time")


def _time_of_rivals(setups: Mapping[str, Setup]) -> PaperTable:
    """Methods that came after the paper, beside the softmax and ours: all of them read the plain model."""
    timings = []
    for setup in ("nli", "ner"):
        for one in _labeled(setups, setup)[:1]:
            known = methods_of(setups[setup].task)
            chosen = ("softmax", "temperature", *RIVALS, "knn-ue", "knn-ue-entity")
            # platt-entity is a step of these experiments after the softmax, not a calibrator that could be timed.
            timed = [MethodVariant(method=name) for name in chosen if name in known and name != ENTITY_PLATT]
            timings.append((setup, Timing(part=one.name, variants=tuple(timed), name="time-rivals")))
    title = "Inference time of methods that came after the paper"
    return _table("time-rivals", title, ("nli", "ner"), [], setups, timings=tuple(timings), kind="time")


def _time_by_neighbors(setups: Mapping[str, Setup]) -> PaperTable:
    variants = (
        MethodVariant(method="softmax"),
        *(MethodVariant(method="knn-ue", n_neighbors=k) for k in SWEPT_NEIGHBORS),
    )
    timings = tuple(
        ("sentiment", Timing(part=one.name, variants=variants, name="time-k"))
        for one in _labeled(setups, "sentiment")[:1]
    )
    title = "Inference time by the number of neighbors"
    return _table("time-k", title, ("sentiment",), [], setups, timings=timings, kind="time")


def _table(
    name: str,
    title: str,
    needs: tuple[str, ...],
    blocks: Sequence[Block],
    setups: Mapping[str, Setup],
    *,
    variants: tuple[MethodVariant, ...] | None = None,
    names: Mapping[MethodVariant, str] | None = None,
    timings: tuple[tuple[str, Timing], ...] = (),
    kind: Kind = "scores",
    figure: bool = False,
    more: tuple[MethodVariant, ...] = (),
) -> PaperTable:
    chosen = {
        block.setup: variants
        or (*(MethodVariant(method=method) for method in methods_of(setups[block.setup].task)), *more)
        for block in blocks
    }
    return PaperTable(
        name=name,
        title=title,
        needs=needs,
        blocks=tuple(blocks),
        variants=chosen,
        names=names or {},
        kind=kind,
        timings=timings,
        published=PUBLISHED.get(name),
        figure=figure,
    )


def _block(setup: Setup, one: ScoredSet, measures: tuple[str, ...]) -> Block:
    return Block(setup=setup.name, part=one.name, paper=one.stands_for, measures=measures)


def _labeled(setups: Mapping[str, Setup], name: str) -> tuple[ScoredSet, ...]:
    return setups[name].labeled if name in setups else ()


def _searched(setups: Mapping[str, Setup], name: str) -> tuple[ScoredSet, ...]:
    return setups[name].searched if name in setups else ()


def _with_ours(measures: tuple[str, ...]) -> tuple[str, ...]:
    """Return the measures, each published one followed by ours."""
    return tuple(name for measure in measures for name in (measure, OURS.get(measure)) if name is not None)
