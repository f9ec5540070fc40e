"""Cells are measured once, repeat to the last digit, and survive each other's failures."""

import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest

from knn_ue.encoding.huggingface import HuggingFaceEncoder
from knn_ue.methods import METHODS
from knn_ue.stores import IndexOptions
from knn_ue.tasks import TASKS
from knn_ue_lab.reproduce import run
from knn_ue_lab.reproduce.cells import CellStore
from knn_ue_lab.reproduce.plan import make_plan
from knn_ue_lab.reproduce.recheck import largest_difference
from knn_ue_lab.reproduce.run import Job, in_order, read_jobs, run_jobs
from knn_ue_lab.reproduce.setups import folder_setups, vader_setups
from knn_ue_lab.reproduce.task_runner import TaskRunner
from knn_ue_lab.reproduce.timing import Timing
from knn_ue_lab.reproduce.variants import ENTITY_PLATT, PAPER_NAMES, RIVALS, MethodVariant, methods_of
from tiny_data import tiny_scale, write_data

POST_HOC = ("softmax", "temperature", "knn-ue")


def runners(data, encoder, folder, scale=None, lines=None):
    store = CellStore(folder / "cells", folder / "work")
    say = (lambda _line: None) if lines is None else lines.append
    return {
        setup.name: TaskRunner(setup, scale or tiny_scale(), store, encoder, say, "cpu")
        for setup in folder_setups(data)
    }


def jobs(setup="sentiment", methods=POST_HOC, seeds=(0,)):
    return [Job(setup=setup, what=MethodVariant(method=name), seed=seed) for seed in seeds for name in methods]


@pytest.fixture(scope="module")
def measured(data, encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("measured")
    lines: list[str] = []
    found = runners(data, encoder, folder, lines=lines)
    return folder, found, run_jobs(found, jobs(), lines.append), lines


def test_one_training_serves_all_post_hoc_methods(measured):
    _, _, outcome, lines = measured

    assert sum("training" in line for line in lines) == 1
    assert len(outcome.found) == 3
    assert not outcome.failed


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        ({"home": {"n_answers": 9, "right": 0.84, "ece": 0.03}}, "home right 84.0, ece 3.0"),
        ({"home": {"n_answers": 9}, "away": {"detection_auroc": 0.7}}, "OOD detection AUROC away 70.0"),
        ({"home": {"n_answers": 0}}, "home without any answer"),
        ({"home": {"n_answers": 9}}, "home measured"),
    ],
)
def test_the_line_of_a_cell_says_what_was_measured(sets, said):
    assert run.summary({"sets": sets}) == said


def test_a_cell_holds_the_scores_of_every_set_and_what_it_was_made_of(measured):
    _, _, outcome, _ = measured

    content = outcome.found[jobs()[2]]

    assert set(content["sets"]) == {"home", "away"}
    assert {"ece", "mce", "e_aurc", "auroc", "brier", "weight_right"} <= set(content["sets"]["home"])
    assert {"fpr95", "detection_auroc"} <= set(content["sets"]["away"])
    assert content["options"]["n_neighbors"] == 32


def test_what_is_measured_is_read_and_not_measured_again(measured, data, encoder, monkeypatch):
    folder, _, outcome, _ = measured
    monkeypatch.setattr(run, "score_cell", lambda *_: pytest.fail("measured again"))

    again = run_jobs(runners(data, encoder, folder), jobs(), lambda _line: None)

    assert again.found == outcome.found
    assert read_jobs(runners(data, encoder, folder), jobs()).found == outcome.found


def test_detectors_are_measured_on_the_outputs_of_the_same_model(measured, data, encoder):
    folder, _, _, _ = measured
    lines: list[str] = []
    wanted = jobs(methods=("energy", "familiarity"))

    outcome = run_jobs(runners(data, encoder, folder, lines=lines), wanted, lines.append)

    assert not outcome.failed
    assert not any("training" in line for line in lines)
    for content in outcome.found.values():
        assert {"fpr95", "detection_auroc"} <= set(content["sets"]["away"])
        assert "ece" not in content["sets"]["home"]


@pytest.mark.slow
def test_the_same_seed_elsewhere_gives_the_same_numbers(measured, encoder, tmp_path):
    other = write_data(tmp_path / "elsewhere")

    again = run_jobs(runners(other, encoder, tmp_path), jobs(), lambda _line: None)

    for job, content in measured[2].found.items():
        assert largest_difference(content, again.found[job]) == 0.0
        assert content["key"] == again.found[job]["key"]


def elsewhere(measured, data, encoder, tmp_path, *, suffixes):
    """Return the runners of another machine, which has only the files of measured cells that end so."""
    folder, *_ = measured
    for file in (folder / "cells").rglob("*"):
        if file.suffix in suffixes:
            copy = tmp_path / "cells" / file.relative_to(folder / "cells")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    store = CellStore(tmp_path / "cells", tmp_path / "work")
    return {name: replace(runner, store=store) for name, runner in runners(data, encoder, folder).items()}


def test_scores_without_their_answers_are_measured_again(measured, data, encoder, tmp_path):
    outcome = measured[2]
    only_cells = elsewhere(measured, data, encoder, tmp_path, suffixes=(".json",))
    lines: list[str] = []

    again = run_jobs(only_cells, jobs(methods=("softmax",)), lines.append)

    assert any("seed 0" in line for line in lines)
    assert largest_difference(again.found[jobs()[0]], outcome.found[jobs()[0]]) == 0.0


def test_cells_with_their_answers_are_all_that_another_machine_needs(measured, data, encoder, tmp_path):
    outcome = measured[2]
    with_answers = elsewhere(measured, data, encoder, tmp_path, suffixes=(".json", ".npz"))
    lines: list[str] = []

    again = run_jobs(with_answers, jobs(methods=("softmax",)), lines.append)

    assert lines == []
    assert again.found[jobs()[0]] == outcome.found[jobs()[0]]


def test_cells_that_are_there_count_as_done_before_their_turn(measured, data, encoder, tmp_path):
    other = elsewhere(measured, data, encoder, tmp_path, suffixes=(".json", ".npz"))
    first = jobs(methods=("softmax",))[0]
    (other["sentiment"].store.cells / run.cell_name(other["sentiment"], first).file).unlink()
    lines: list[str] = []

    run_jobs(other, jobs(), lines.append)

    assert [line for line in lines if "seed 0" in line and line.endswith("nothing left")]


def test_another_option_is_another_cell(measured, data, encoder):
    folder, found, _, _ = measured
    scale = tiny_scale()
    slower = {name: replace(options, learning_rate=1e-3) for name, options in scale.options.items()}
    changed = runners(data, encoder, folder, replace(scale, options=slower))
    job = jobs()[0]

    assert run.cell_name(changed["sentiment"], job).key != run.cell_name(found["sentiment"], job).key
    assert not read_jobs(changed, jobs()).found


def test_a_cell_that_fails_is_told_and_the_rest_goes_on(measured, data, encoder):
    folder = measured[0]
    too_many = Job(setup="sentiment", what=MethodVariant(method="knn-ue", n_neighbors=1000), seed=0)
    lines: list[str] = []

    outcome = run_jobs(runners(data, encoder, folder), [too_many, *jobs()], lines.append)

    assert outcome.failed == {too_many: "n_neighbors=1000 exceeds the 96 stored examples: lower it or add more"}
    assert len(outcome.found) == 3
    assert any("FAILED: n_neighbors=1000" in line for line in lines)


def test_a_cell_another_process_is_at_is_left_to_it_and_read_when_it_is_done(measured, data, encoder):
    _, found, _, _ = measured
    job = jobs()[0]
    name = run.cell_name(found["sentiment"], job)
    (found["sentiment"].store.cells / name.file).unlink()
    lines: list[str] = []
    runner = found["sentiment"]

    with runner.store.reserved(f"cell-{name.key}", wait=False):
        assert not run._do(
            job, runner, run.Outcome(), run._Clock("small", [job], {}), lines.append, "", False, wait=False
        )
    assert run._do(job, runner, run.Outcome(), run._Clock("small", [job], {}), lines.append, "", False, wait=True)


def test_methods_of_the_plain_model_come_first_with_all_seeds_and_long_cells_last():
    mixed = [
        Job(setup="nli", what=MethodVariant(method="knn-ue"), seed=1),
        Job(setup="nli", what=Timing(part="x", variants=(MethodVariant(method="softmax"),)), seed=0),
        Job(setup="nli", what=MethodVariant(method="mc-dropout"), seed=0),
        Job(setup="nli", what=MethodVariant(method="label-smoothing"), seed=0),
        Job(setup="nli", what=MethodVariant(method="sngp"), seed=0),
        Job(setup="ner", what=MethodVariant(method="dac"), seed=0),
        Job(setup="ner", what=MethodVariant(method="dac"), seed=0),
        Job(setup="ner", what=MethodVariant(method="knn-ue", n_neighbors=8), seed=0),
    ]

    assert in_order(mixed) == [mixed[number] for number in (5, 0, 7, 2, 4, 3, 1)]


def test_a_plan_that_is_stopped_has_a_seed_of_every_task_before_a_second_one(data):
    tables = make_plan(folder_setups(data)).values()

    planned = in_order(job for table in tables for job in table.jobs(3, 1))
    plain = [job for job in planned if isinstance(job.what, MethodVariant) and job.what.is_post_hoc]

    assert planned[: len(plain)] == plain
    assert [job.seed for job in plain] == sorted(job.seed for job in plain)
    for seed in range(3):
        assert {job.setup for job in plain if job.seed == seed} == {"sentiment", "nli", "ner"}


def test_the_time_left_is_judged_by_the_cells_there_are():
    measured, waiting, other = (Job(setup="ner", what=MethodVariant(method="knn-ue"), seed=seed) for seed in (0, 1, 2))
    found = {measured: {"seconds": 1000.0}}

    assert run.time_left("small", [measured, waiting, other], found) == 2000.0
    assert run.time_left("small", [waiting], {}) == run.guess("small", waiting)


def test_what_is_timed_searches_for_itself(measured, data, encoder, monkeypatch):
    found = runners(data, encoder, measured[0])
    monkeypatch.setattr("knn_ue_lab.reproduce.score.SharedSearch", lambda *_: pytest.fail("a search that is not timed"))
    timed = Timing(
        part="home", variants=(MethodVariant(method="softmax"), MethodVariant(method="knn-ue")), name="alone"
    )

    outcome = run_jobs(found, [Job(setup="sentiment", what=timed, seed=0)], lambda _line: None)

    assert not outcome.failed


@pytest.mark.slow
def test_passes_with_dropout_are_timed_on_the_same_rows_as_all(measured, data, encoder, monkeypatch):
    found = runners(data, encoder, measured[0], replace(tiny_scale(), timed_rows=40, repeats=1))
    encode, timed = HuggingFaceEncoder.encode, {}

    def spied(self, rows, **options):
        if not options.get("with_labels", True):
            timed[self.options.passes] = list(rows)
        return encode(self, rows, **options)

    monkeypatch.setattr(HuggingFaceEncoder, "encode", spied)
    both = Timing(
        part="home", variants=(MethodVariant(method="softmax"), MethodVariant(method="mc-dropout")), name="same"
    )

    outcome = run_jobs(found, [Job(setup="sentiment", what=both, seed=0)], lambda _line: None)

    assert not outcome.failed
    assert timed[1] == timed[20]
    assert len(timed[1]) > 32


def test_times_and_coverage_are_measured(measured, data, encoder):
    folder = measured[0]
    found = runners(data, encoder, folder)
    index = MethodVariant(method="knn-ue", index=IndexOptions(factory="PCA8,Flat", recompute=False))
    plain = MethodVariant(method="knn-ue")
    wanted = [
        Job(setup="sentiment", what=index, seed=0),
        Job(setup="sentiment", what=Timing(part="home", variants=(MethodVariant(method="softmax"), plain)), seed=0),
        Job(setup="sentiment", what=Timing(part="home", variants=(plain, index), search_only=True), seed=0),
    ]

    outcome = run_jobs(found, wanted, lambda _line: None)

    assert not outcome.failed
    assert list(outcome.found[wanted[0]]["sets"]) == list(outcome.found[wanted[0]]["coverage"]) == ["home", "away"]
    assert 0 < outcome.found[wanted[0]]["coverage"]["home"] <= 1
    assert all(len(rounds) == 2 for rounds in outcome.found[wanted[1]]["milliseconds"].values())
    assert set(outcome.found[wanted[2]]["milliseconds"]) == {str(plain), str(index)}


def test_variants_of_a_search_are_scored_on_the_two_sets_they_are_compared_on():
    setup = vader_setups()[0]
    runner = SimpleNamespace(setup=setup, data=SimpleNamespace(sets={one.name: one for one in setup.sets}))
    plain = MethodVariant(method="knn-ue")

    assert list(TaskRunner.sets_of(runner, plain)) == ["movies", "amazon", "nyt", "tweets"]
    assert list(TaskRunner.sets_of(runner, replace(plain, n_neighbors=8))) == ["movies", "amazon"]
    assert list(TaskRunner.sets_of(runner, replace(plain, index=IndexOptions(factory="PCA8,Flat")))) == [
        "movies",
        "amazon",
    ]


def test_the_papers_methods_are_all_of_ours_but_a_few():
    of_ours = {"mahalanobis", "knn-ue-entity", "entity-scores", "verdict", "span-verdict"}
    assert set(METHODS) - set(PAPER_NAMES) == {*of_ours, *RIVALS} - {ENTITY_PLATT}
    assert not {"verdict", "span-verdict"} & {name for task in TASKS for name in methods_of(task)}
    assert "e-ner" in methods_of("token-classification")
    assert "e-ner" not in methods_of("text-pair")


@pytest.mark.slow
@pytest.mark.parametrize("setup", ["sentiment", "nli", "ner"])
def test_every_method_of_every_task_gets_its_cell(data, encoder, tmp_path, setup):
    found = runners(data, encoder, tmp_path)
    wanted = jobs(setup, methods_of(found[setup].setup.task))

    outcome = run_jobs(found, wanted, lambda _line: None)

    assert not outcome.failed
    assert len(outcome.found) == len(wanted)


@pytest.mark.slow
def test_the_epsilon_of_label_smoothing_is_chosen_with_the_first_seed_and_kept(data, encoder, tmp_path):
    lines: list[str] = []
    found = runners(data, encoder, tmp_path, lines=lines)

    run_jobs(found, jobs(methods=("label-smoothing",), seeds=(0, 1)), lines.append)

    trained = [line.split()[1] for line in lines if "training" in line]
    chosen = found["sentiment"].chosen_epsilon()
    assert trained == [
        "model-label-smoothing-epsilon0.1.seed0",
        "model-label-smoothing-epsilon0.3.seed0",
        f"model-label-smoothing-epsilon{chosen}.seed1",
    ]
    scores = [
        found["sentiment"].model_cell(METHODS["label-smoothing"].training(epsilon=epsilon), 0)["score"]
        for epsilon in (0.1, 0.3)
    ]
    assert chosen == (0.1 if scores[0] >= scores[1] else 0.3)


@pytest.mark.slow
def test_seeds_share_what_frozen_layers_say_and_cells_are_those_of_a_seed_alone(data, encoder, tmp_path):
    plain = tiny_scale()
    options = {name: replace(one, freeze_lower=0.5, reuse_frozen=True) for name, one in plain.options.items()}
    scale = replace(plain, options=options)

    both = run_jobs(runners(data, encoder, tmp_path / "both", scale), jobs(seeds=(0, 1)), lambda _line: None)
    alone = run_jobs(runners(data, encoder, tmp_path / "alone", scale), jobs(seeds=(1,)), lambda _line: None)

    assert not both.failed
    assert len(list((tmp_path / "both" / "work" / "frozen").iterdir())) == 1
    layers = [len(list((tmp_path / one / "work" / "layers" / "sentiment").iterdir())) for one in ("both", "alone")]
    assert layers[0] == layers[1] > 0  # the second seed had no batch to read that the first had not read
    for job, content in alone.found.items():
        assert largest_difference(content, both.found[job]) == 0.0


@pytest.mark.parametrize(("known", "expected"), [({"avx512_bf16": True}, "bfloat16"), ({"avx512_f": True}, "float32")])
def test_training_is_in_bfloat16_only_where_the_processor_has_it(data, encoder, tmp_path, monkeypatch, known, expected):
    import torch

    plain = tiny_scale()
    options = {name: replace(one, precision="bfloat16") for name, one in plain.options.items()}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: known)
    runner = runners(data, encoder, tmp_path, replace(plain, options=options))["sentiment"]

    content = runner.model_cell(METHODS["softmax"].training(), 0)

    assert content["precision"] == expected
    assert runner.model_name(METHODS["softmax"].training(), 0).key == content["key"]


def test_a_model_that_is_trained_again_is_trained_in_the_precision_its_cell_names(data, encoder, tmp_path, monkeypatch):
    import torch

    plain = tiny_scale()
    options = {name: replace(one, precision="bfloat16") for name, one in plain.options.items()}
    runner = runners(data, encoder, tmp_path, replace(plain, options=options))["sentiment"]
    training = METHODS["softmax"].training()
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    first = runner.model_cell(training, 0)

    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    shutil.rmtree(runner.model(training, 0))
    runner.model(training, 0)

    again = runner.model_cell(training, 0)
    assert again["precision"] == "float32" and again["history"] == first["history"]
