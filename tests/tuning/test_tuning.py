"""The choice of an index by calibration: what is good enough, what is chosen, what is refused."""

import numpy as np
import pytest

from knn_ue.errors import InvalidInputError
from knn_ue.stores import IndexOptions
from knn_ue.stores.exact import ExactIndex
from knn_ue.stores.options import SMALL_VALUES, SMALL_VALUES_FOR_WORDS, is_small
from knn_ue.toy import pockets
from knn_ue.tuning import Tolerance, Trial, Tuning, tune_index
from knn_ue.tuning.choose import _best, index_families
from knn_ue.tuning.index_trials import IndexTrials
from knn_ue.types import Outputs


@pytest.fixture(scope="module")
def wide():
    """Train and validation outputs whose features lie in 96 columns, so that there is something to compress."""
    train, validation, _, _ = pockets(n_train=1200, n_validation=300, n_test=10, n_out=10, seed=0)
    turn = np.random.default_rng(0).normal(size=(train.features.shape[1], 96)).astype(np.float32)

    def widened(outputs):
        return Outputs(features=outputs.features @ turn, logits=outputs.logits, labels=outputs.labels)

    return widened(train), widened(validation)


def tune(wide, **options):
    train, validation = wide
    return tune_index(train.features, train.labels, validation, n_neighbors=16, **options)


# Every candidate is built and measured: `make check` leaves what needs it to `make test`.
slow = pytest.mark.slow


@pytest.fixture(scope="module")
def thorough(wide):
    return tune(wide, thorough=True)


def test_a_small_store_is_searched_exactly_and_nothing_is_tried(wide):
    found = tune(wide)

    assert (found.chosen, found.trials) == (IndexOptions(), ())


def test_the_store_of_the_demo_is_searched_exactly():
    random = np.random.default_rng(0)
    vectors, labels = np.ones((7_396, 768), np.float32), np.zeros(7_396, np.int64)
    validation = Outputs(features=vectors[:50], logits=random.normal(size=(50, 2)), labels=labels[:50])

    found = tune_index(vectors, labels, validation)

    assert (found.chosen, found.trials) == (IndexOptions(), ())


@pytest.mark.parametrize("of_words", [False, True])
def test_the_last_exact_store_is_a_small_share_of_the_forward_pass(of_words):
    limit = SMALL_VALUES_FOR_WORDS if of_words else SMALL_VALUES
    # docs/index_results.md, "Beside the forward pass", with the exact search: texts by knn-ue, words by knn-ue-entity
    share, at_values = (0.17, 69_273 * 384) if of_words else (0.0097, 7_000 * 384)

    assert is_small(limit, of_words=of_words)
    assert not is_small(limit + 1, of_words=of_words)
    assert share * limit / at_values < 0.07


@slow
def test_what_is_chosen_is_the_fastest_of_those_that_keep_the_calibration(thorough):
    good = [trial for trial in thorough.trials if trial.good_enough]

    assert thorough.chosen == min(good, key=lambda trial: trial.milliseconds).options


@slow
def test_good_enough_is_what_the_tolerance_says(thorough):
    exact = thorough.trials[0]

    for trial in thorough.trials[1:]:
        within = trial.nll_increase <= 0.001 * exact.nll and trial.ece <= exact.ece + 0.003
        assert trial.good_enough == within


@slow
def test_the_exact_search_comes_first_and_is_always_good_enough(thorough):
    exact = thorough.trials[0]

    assert (exact.options, exact.coverage, exact.nll_increase, exact.good_enough) == (IndexOptions(), 1.0, 0.0, True)


@slow
def test_every_family_and_mode_is_tried_when_thorough(thorough):
    tried = [trial.options for trial in thorough.trials[1:]]

    wanted = [options for family in index_families(1200, 96) for settings in family.modes() for options in settings]
    assert tried == wanted


@pytest.mark.slow
def test_a_memory_limit_excludes_what_holds_more(wide):
    limit = 100_000

    found = tune(wide, tolerance=Tolerance(nll=1.0, ece=1.0, max_bytes=limit))

    chosen = next(trial for trial in found.trials if trial.options == found.chosen)
    assert chosen.n_bytes <= limit
    assert not found.trials[0].good_enough


@pytest.mark.slow
def test_slower_settings_than_an_exact_search_that_does_not_fit_are_tried_too(wide, monkeypatch):
    tried = []

    def measure(self, _index, options, index_bytes, _exact):
        tried.append(options)
        n_bytes = index_bytes + (self.vectors.nbytes if options.recompute else 0)
        good = options.n_probe == 4 and self.fits(n_bytes)
        return Trial(
            options=options,
            milliseconds=1e6,
            n_bytes=n_bytes,
            coverage=1.0,
            nll=1.0,
            ece=0.0,
            nll_increase=0.0,
            good_enough=good,
        )

    monkeypatch.setattr(IndexTrials, "measure", measure)

    found = tune(wide, tolerance=Tolerance(max_bytes=100_000))

    assert (found.chosen.n_probe, found.chosen.recompute) == (4, False)
    assert not any(options.recompute and options.n_probe not in (1, None) for options in tried)  # none of them fits


@pytest.mark.parametrize(("max_bytes", "nearest"), [(200_000, "B"), (1000, "A")])
def test_nearest_is_the_best_that_fits_or_else_the_smallest(max_bytes, nearest):
    def trial(factory, n_bytes, nll_increase):
        return Trial(
            options=IndexOptions(factory=factory),
            milliseconds=1.0,
            n_bytes=n_bytes,
            coverage=1.0,
            nll=1.0,
            ece=0.0,
            nll_increase=nll_increase,
            good_enough=False,
        )

    trials = [trial("Flat", 10**6, 0.0), trial("A", 50_000, 0.5), trial("B", 150_000, 0.3), trial("C", 10**7, -0.1)]

    with pytest.raises(InvalidInputError, match=f"nearest is {nearest} with"):
        _best(trials, Tolerance(max_bytes=max_bytes))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"vectors": [1.0, 2.0]}, "vectors must have two dimensions"),
        ({"vectors": np.full((1200, 96), np.nan)}, "vectors must be finite"),
        ({"vectors": np.ones((1200, 95))}, "validation features must have the 95 columns of vectors, got 96"),
        ({"labels": np.zeros(5, int)}, "labels has 5 rows but 1200 are expected"),
        ({"n_neighbors": 0}, "n_neighbors must be a whole number of at least 1"),
    ],
)
def test_arrays_that_break_a_rule_are_refused(change, words, wide):
    train, validation = wide
    given = {"vectors": train.features, "labels": train.labels, "validation": validation} | change

    with pytest.raises(InvalidInputError, match=words):
        tune_index(**given)


@slow
def test_an_impossible_limit_says_what_came_nearest(wide):
    with pytest.raises(InvalidInputError, match="no index keeps the calibration in max_bytes=1000: nearest is"):
        tune(wide, tolerance=Tolerance(max_bytes=1000))


@pytest.mark.parametrize("wrong", [{"nll": -1.0}, {"ece": -0.1}, {"level": 1.0}, {"max_bytes": 0}])
def test_a_wrong_tolerance_is_refused(wrong):
    with pytest.raises(InvalidInputError, match="must"):
        Tolerance(**wrong)


def test_the_interval_is_that_of_the_paired_mean(wide):
    _, validation = wide
    bench = make_bench(wide, validation)
    differences = np.random.default_rng(0).normal(0.1, 1.0, size=len(validation))

    upper = bench._upper_end(differences)

    expected = differences.mean() + 1.6448536 * differences.std(ddof=1) / np.sqrt(len(differences))
    assert upper == pytest.approx(expected, rel=1e-6)


def test_words_of_one_sentence_count_as_one_draw(wide):
    _, validation = wide
    groups = np.repeat(np.arange(len(validation) // 10), 10)
    grouped = Outputs(features=validation.features, logits=validation.logits, labels=validation.labels, groups=groups)
    differences = np.repeat(np.random.default_rng(0).normal(size=len(validation) // 10), 10)

    alone = make_bench(wide, validation)._upper_end(differences)
    together = make_bench(wide, grouped)._upper_end(differences)

    assert together - differences.mean() == pytest.approx(np.sqrt(10) * (alone - differences.mean()), rel=0.02)


def make_bench(wide, validation):
    train, _ = wide
    return IndexTrials(
        vectors=train.features,
        labels=train.labels,
        validation=validation,
        n_neighbors=8,
        use_labels=True,
        tolerance=Tolerance(),
        scored=lambda outputs, calibrator, found: (
            calibrator.predict(outputs, found=found).confidence,
            np.ones(len(outputs), bool),
        ),
    )


@slow
def test_the_exact_trial_is_that_of_a_plain_fit_on_the_exact_neighbors(wide, thorough):
    from knn_ue import Datastore, KnnUE

    train, validation = wide
    ue = KnnUE(Datastore.build(train.features, train.labels), n_neighbors=16).fit(validation)

    probs = ue.predict_proba(validation)[np.arange(len(validation)), validation.labels]

    assert thorough.trials[0].nll == pytest.approx(-np.log(probs).mean(), rel=1e-9)


def test_an_exact_index_measured_as_a_rival_loses_nothing(wide):
    train, validation = wide
    bench = make_bench(wide, validation)
    exact = bench.measure_exact(ExactIndex(train.features))

    trial = bench.measure(ExactIndex(train.features), IndexOptions(), 0, exact)

    assert (trial.coverage, trial.nll_increase) == (1.0, 0.0)
    assert trial.nll == exact.trial.nll


def trial(milliseconds, nll):
    return Trial(
        options=IndexOptions(),
        milliseconds=milliseconds,
        n_bytes=1,
        coverage=1.0,
        nll=nll,
        ece=0.0,
        nll_increase=0.0,
        good_enough=True,
    )


def test_the_frontier_holds_what_nothing_beats_in_both():
    trials = trial(3.0, 0.1), trial(1.0, 0.3), trial(2.0, 0.2), trial(2.5, 0.4), trial(1.0, 0.5)

    frontier = Tuning(chosen=IndexOptions(), trials=trials, n_queries=1).frontier

    assert [(one.milliseconds, one.nll) for one in frontier] == [(1.0, 0.3), (2.0, 0.2), (3.0, 0.1)]


@pytest.mark.parametrize(("n_rows", "n_columns"), [(1, 2), (30, 3), (500, 16), (10_000, 97), (1_000_000, 1024)])
def test_families_suit_any_size(n_rows, n_columns):
    for family in index_families(n_rows, n_columns):
        assert family.n_lists is None or 1 <= family.n_lists <= max(1, n_rows // 39)
        assert list(family.modes())
