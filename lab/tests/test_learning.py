"""A model that did not learn its task is told apart, and counts neither as best nor as a rival."""

from dataclasses import dataclass, field
from itertools import combinations
from types import SimpleNamespace

import pytest

from knn_ue.data import TaggedRow, TextRow
from knn_ue_lab.reproduce.learning import below, unlearned
from knn_ue_lab.reproduce.plan import Block
from knn_ue_lab.reproduce.run import Job, Outcome
from knn_ue_lab.reproduce.statistics import PairedTest
from knn_ue_lab.reproduce.tables import Filler
from knn_ue_lab.reproduce.variants import MethodVariant

PLAIN, OTHER = MethodVariant(method="softmax"), MethodVariant(method="posterior")


@dataclass
class FakeRunner:
    task: str
    rows: list
    name: str = "sentiment"
    setup: SimpleNamespace = field(init=False)
    data: SimpleNamespace = field(init=False)

    def __post_init__(self):
        self.setup = SimpleNamespace(name=self.name, task=self.task, sets=(SimpleNamespace(name="home"),))
        self.data = SimpleNamespace(sets={"home": SimpleNamespace(rows=self.rows)})


def outcome(measure, plain, other):
    numbers = {PLAIN: plain, OTHER: other}
    return Outcome(
        found={
            Job(setup="sentiment", what=variant, seed=seed): {"sets": {"home": {measure: value}}}
            for variant, values in numbers.items()
            for seed, value in enumerate(values)
        }
    )


TEXTS = [TextRow("x", label) for label in ("pos", "pos", "pos", "neg", "neg")] * 40  # 60 % are pos
TAGGED = [TaggedRow(("Ada", "ran"), ("B-PER", "O"))] * 100


def test_in_classification_the_most_frequent_class_is_nothing_learned():
    runner = FakeRunner("text-classification", TEXTS)

    assert unlearned(runner, outcome("right", [0.8], [0.69])) == {OTHER: "did not learn: accuracy 69 %"}
    assert unlearned(runner, outcome("right", [0.8], [0.71])) == {}


def test_detectors_read_the_plain_model_and_mean_nothing_where_that_did_not_learn():
    runner = FakeRunner("text-classification", TEXTS)
    energy = MethodVariant(method="energy")
    cell = {Job(setup="sentiment", what=energy, seed=0): {"sets": {"home": {"confidence": 0.9}}}}

    learned, not_learned = (outcome("right", [plain], [plain]) for plain in (0.8, 0.61))

    assert energy not in unlearned(runner, Outcome(found=learned.found | cell))
    assert unlearned(runner, Outcome(found=not_learned.found | cell))[energy] == "did not learn: accuracy 61 %"


def test_in_tagging_entities_count():
    runner = FakeRunner("token-classification", TAGGED)

    assert unlearned(runner, outcome("f1", [0.8, 0.8], [0.0, 0.7])) == {OTHER: "did not learn: F1 35 %"}
    assert unlearned(runner, outcome("f1", [0.8, 0.8], [0.2, 0.7])) == {}


@pytest.mark.parametrize("plain", [0.5, 0.4, 0.53])
def test_where_the_plain_model_knows_nothing_all_are_told_that_know_nothing_either(plain):
    means = {PLAIN: plain, OTHER: 0.1, MethodVariant(method="sngp"): 0.7}

    assert list(below(means, plain=plain, chance=0.5, noise=0.04)) == [PLAIN, OTHER]


def test_a_tagger_that_finds_next_to_nothing_did_not_learn():
    runner = FakeRunner("token-classification", TAGGED)

    assert set(unlearned(runner, outcome("f1", [0.02], [0.01]))) == {PLAIN, OTHER}


def test_without_the_plain_model_there_is_nothing_to_compare_with():
    found = outcome("right", [], [0.1])

    assert unlearned(FakeRunner("text-classification", TEXTS), found) == {}


def test_other_setups_and_cells_without_scores_do_not_count():
    found = outcome("right", [0.8], [0.75])
    found.found[Job(setup="nli", what=OTHER, seed=0)] = {"sets": {"home": {"right": 0.0}}}
    found.found[Job(setup="sentiment", what=OTHER, seed=1)] = {"sets": {"home": {}}}

    assert unlearned(FakeRunner("text-classification", TEXTS), found) == {}


def best_of(texts, n_seeds=2):
    """Return which of three methods is best, each pair compared on so many seeds; the lowest error is OTHER's."""
    variants = [PLAIN, MethodVariant(method="knn-ue"), OTHER]
    errors, right = (0.09, 0.03, 0.01), (0.8, 0.8, 0.61)
    found = {
        Job(setup="sentiment", what=variant, seed=0): {"sets": {"home": {"ece": error, "right": share}}}
        for variant, error, share in zip(variants, errors, right, strict=True)
    }
    block = Block(setup="sentiment", part="home", paper=None, measures=("ece",))
    pairs = {
        (str(a), str(b)): PairedTest(
            first=x, second=y, difference=x - y, low=x - y, high=x - y, p=0.001, t_test=0.5, n_seeds=n_seeds
        )
        for (a, x), (b, y) in combinations(zip(variants, errors, strict=True), 2)
    }

    filler = Filler(runners={"sentiment": FakeRunner("text-classification", texts)}, outcome=Outcome(found=found))
    return filler._best(block, variants, "ece", pairs)


def test_the_lowest_error_is_not_best_where_the_model_did_not_learn():
    assert best_of(TEXTS) == MethodVariant(method="knn-ue")
    assert best_of([TextRow("x", str(number)) for number in range(9)]) == OTHER  # 61 % is much where chance is 11 %


def test_nobody_is_best_for_sure_with_one_seed():
    assert best_of(TEXTS, n_seeds=1) is None
