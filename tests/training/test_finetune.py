"""Fine-tuning of tiny models: what is learned, kept, told and written."""

import json
from dataclasses import replace

import numpy as np
import pytest

from knn_ue.encoding.huggingface import HuggingFaceEncoder
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.training import TrainingOptions
from knn_ue.training.finetune import finetune
from knn_ue.training.folder import read_record
from knn_ue.training.labels import score_outputs
from knn_ue.training.method import TrainingMethod
from tiny_models import CLASS_NAMES, FAMILIES, ROWS, TASKS, save_tiny_model, text_rows

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

TEXT, PAIR, TAGGING = TASKS
QUICK = TrainingOptions(
    batch_size=8, learning_rate=1e-2, epochs=6, patience=6, warmup=0.1, schedule="linear", max_steps=72
)
BRIEF = replace(QUICK, max_steps=3)


@pytest.fixture(scope="session")
def start(tmp_path_factory):
    """Return a function (family, task) -> an encoder folder from which a few steps lead somewhere."""
    made = {}

    def get(family, task):
        if (family, task) not in made:
            folder = tmp_path_factory.mktemp(f"start-{family}-{task}")
            made[family, task] = save_tiny_model(folder, family=family, task=task, initializer_range=0.05)
        return made[family, task]

    return get


def train(start, out, *, family="bert", task=TEXT, options=BRIEF, rows=None, validation=None, **more):
    """Fine-tune a tiny model on its toy rows."""
    rows = ROWS[task](96) if rows is None else rows
    validation = ROWS[task](32, start=200) if validation is None else validation
    return finetune(rows, validation, task=task, encoder=start(family, task), out=out, options=options, **more)


def weights(folder):
    from safetensors.numpy import load_file

    return load_file(folder / "model.safetensors")


# Which families and tasks go together, test_contract.py tries: here each learns once.
@pytest.mark.parametrize(
    ("task", "family", "chance"), [(TEXT, "bert", 0.5), (PAIR, "roberta", 0.4), (TAGGING, "deberta-v2", 0.1)]
)
def test_every_family_learns_and_every_task_is_learned(start, tmp_path, task, family, chance):
    # Gentler than QUICK: at 1e-2 a model this tiny stays at chance level from some seeds.
    options = replace(QUICK, learning_rate=2e-3)

    result = train(start, tmp_path / "model", family=family, task=task, options=options)

    assert result.best > chance + 0.15


@pytest.mark.parametrize("task", TASKS)
def test_the_saved_model_scores_what_was_reported(start, tmp_path, task):
    result = train(start, tmp_path / "model", task=task, options=replace(QUICK, max_steps=30))

    outputs = HuggingFaceEncoder.from_pretrained(tmp_path / "model", task).encode(ROWS[task](32, start=200))
    scores = score_outputs(outputs, entities=task == TAGGING)
    assert scores[result.metric] == pytest.approx(result.best)


def test_the_best_weights_are_kept_not_the_last(start, tmp_path, monkeypatch):
    scores = iter([0.5, 0.9, 0.7, 0.6])
    seen = []

    def fake(outputs, *, entities):
        seen.append(outputs.logits)
        return {"accuracy": next(scores)}

    monkeypatch.setattr("knn_ue.training.trainer.score_outputs", fake)
    result = train(start, tmp_path / "model", options=replace(QUICK, epochs=4))

    outputs = HuggingFaceEncoder.from_pretrained(tmp_path / "model", TEXT).encode(ROWS[TEXT](32, start=200))
    assert result.best == 0.9
    np.testing.assert_allclose(outputs.logits, seen[1], atol=1e-5)


def test_training_stops_when_the_score_no_longer_rises(start, tmp_path, monkeypatch):
    monkeypatch.setattr("knn_ue.training.trainer.score_outputs", lambda _outputs, **_: {"accuracy": 0.5})

    result = train(start, tmp_path / "model", options=replace(QUICK, patience=2))

    assert len(result.history) == 3


def test_max_steps_ends_training_and_the_model_is_still_validated(start, tmp_path):
    result = train(start, tmp_path / "model", options=replace(QUICK, max_steps=5))

    assert (result.n_steps, len(result.history)) == (5, 1)


@pytest.mark.parametrize("task", TASKS)
def test_the_same_seed_gives_the_same_weights(start, tmp_path, task):
    train(start, tmp_path / "one", task=task)
    torch.rand(3)
    train(start, tmp_path / "two", task=task)

    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert all(np.array_equal(one[name], two[name]) for name in one)


def test_another_seed_gives_other_weights(start, tmp_path):
    train(start, tmp_path / "one")
    train(start, tmp_path / "two", options=replace(BRIEF, seed=1))

    name = "bert.encoder.layer.0.output.dense.weight"
    assert not np.array_equal(weights(tmp_path / "one")[name], weights(tmp_path / "two")[name])


def test_the_callers_randomness_is_left_alone(start, tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)

    train(start, tmp_path / "model")

    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_fast_preset_leaves_embeddings_and_lower_layers_as_they_were(start, tmp_path, family):
    train(start, tmp_path / "model", family=family, options=replace(BRIEF, freeze_lower=0.5))

    before, after = weights(start(family, TEXT)), weights(tmp_path / "model")
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert not any("embeddings" in name or ".layer.0." in name or ".layer.1." in name for name in changed)
    assert all(any(f".layer.{layer}." in name for name in changed) for layer in (2, 3))


def test_the_folder_is_a_plain_hugging_face_model(start, tmp_path):
    train(start, tmp_path / "model", task=PAIR)

    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    assert tuple(model.config.id2label.values()) == CLASS_NAMES[PAIR]
    assert tokenizer.model_max_length == 32


def test_the_fast_preset_fits_a_model_that_reads_less_than_it_asks_for(start, tmp_path):
    train(start, tmp_path / "model", options=TrainingOptions.fast(max_steps=2))

    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "model").model_max_length == 32


def test_nothing_but_the_model_is_written(start, tmp_path):
    train(start, tmp_path / "model")

    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert names >= {
        "config.json",
        "knn_ue_training.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert not any(word in name for name in names for word in ("checkpoint", "optimizer", "state", "training_args"))


def test_the_record_says_how_the_model_was_trained(start, tmp_path):
    result = train(start, tmp_path / "model")

    record = read_record(tmp_path / "model")
    assert (record["method"], record["task"]) == ("plain", TEXT)
    assert TrainingOptions(**record["options"]) == BRIEF
    assert (record["result"]["n_train"], record["result"]["n_validation"]) == (96, 32)
    assert record["result"]["best"] == result.best
    assert record["versions"]["torch"] == str(torch.__version__)


def test_every_step_and_every_epoch_is_told(start, tmp_path):
    told = []

    train(start, tmp_path / "model", options=replace(QUICK, epochs=2), on_progress=told.append)

    assert [progress.step for progress in told if progress.scores is None] == list(range(1, 25))
    assert [progress.step for progress in told if progress.scores is not None] == [12, 24]
    assert {progress.total_steps for progress in told} == {24}
    assert told[-1].loss > 0


def test_training_writes_nothing_to_the_terminal(start, tmp_path, capfd):
    train(start, tmp_path / "model")

    assert capfd.readouterr() == ("", "")


def test_ctrl_c_leaves_nothing_behind(start, tmp_path):
    def interrupt(progress):
        if progress.step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(start, tmp_path / "model", on_progress=interrupt)

    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_is_refused_before_training(start, tmp_path):
    train(start, tmp_path / "model")
    told = []

    with pytest.raises(StorageError, match="already holds a model"):
        train(start, tmp_path / "model", on_progress=told.append)

    assert told == []


def test_a_full_disk_leaves_nothing_behind(start, tmp_path, monkeypatch):
    from safetensors import SafetensorError

    def fail(*_arguments, **_options):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    start("bert", TEXT)  # it is saved by the same function, once a session
    monkeypatch.setattr("transformers.PreTrainedModel.save_pretrained", fail)

    with pytest.raises(StorageError, match="No space left on device"):
        train(start, tmp_path / "model")

    assert list(tmp_path.iterdir()) == []


def test_a_loss_that_explodes_says_what_to_lower(start, tmp_path):
    class Exploding(TrainingMethod):
        def loss(self, answers, labels, done):
            return super().loss(answers, labels, done) * float("inf")

    with pytest.raises(InvalidInputError, match=r"the training loss became inf at step 1: lower learning_rate=0\.01"):
        train(start, tmp_path / "model", method=Exploding())


def test_a_loss_sees_labeled_rows_only_and_how_far_training_is(start, tmp_path):
    seen = []

    class Watched(TrainingMethod):
        name = "mine"

        def loss(self, answers, labels, done):
            seen.append((answers.shape, labels.shape, done))
            return super().loss(answers, labels, done)

    train(start, tmp_path / "model", task=TAGGING, method=Watched())

    # Eight sentences of eight words, whatever the number of sub-words.
    assert seen == [((64, 5), (64,), step / 3) for step in range(3)]
    assert read_record(tmp_path / "model")["method"] == "mine"


def test_a_long_sentence_is_learned_from_in_windows(start, tmp_path):
    labels = []

    class Watched(TrainingMethod):
        def loss(self, answers, found, done):
            labels.append(len(found))
            return super().loss(answers, found, done)

    rows = [{"tokens": ["Ada", "went"] * 50, "tags": ["B-PER", "O"] * 50}]
    train(start, tmp_path / "model", task=TAGGING, rows=rows, validation=rows, method=Watched())

    assert labels == [100, 100, 100]


def test_texts_that_were_cut_are_counted(start, tmp_path):
    rows = [*text_rows(8), {"text": "film " * 100, "label": "pos"}]

    assert train(start, tmp_path / "model", rows=rows).n_truncated == 1


def test_a_head_for_the_same_classes_is_kept_in_its_order(tmp_path):
    folder = save_tiny_model(tmp_path / "start", family="bert", task=TEXT, class_names=("pos", "neg"))

    options = replace(BRIEF, learning_rate=1e-12)
    result = finetune(text_rows(8), text_rows(8), task=TEXT, encoder=folder, out=tmp_path / "model", options=options)

    assert result.class_names == ("pos", "neg")
    np.testing.assert_allclose(
        weights(tmp_path / "model")["classifier.weight"], weights(folder)["classifier.weight"], atol=1e-6
    )


def test_classes_are_in_the_order_of_their_numbers_not_of_the_file(tmp_path):
    folder = save_tiny_model(tmp_path / "start", family="bert", task=TEXT, class_names=("pos", "neg"))
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {"1": "neg", "0": "pos"}  # as where "10" stands before "2"
    (folder / "config.json").write_text(json.dumps(config))

    options = replace(BRIEF, learning_rate=1e-12)
    result = finetune(text_rows(8), text_rows(8), task=TEXT, encoder=folder, out=tmp_path / "model", options=options)

    assert result.class_names == ("pos", "neg")


def test_a_head_for_other_classes_of_the_same_number_starts_anew(tmp_path):
    folder = save_tiny_model(tmp_path / "start", family="bert", task=TEXT, class_names=("cat", "dog"))

    options = replace(BRIEF, learning_rate=1e-12)
    finetune(text_rows(8), text_rows(8), task=TEXT, encoder=folder, out=tmp_path / "model", options=options)

    assert not np.allclose(weights(tmp_path / "model")["classifier.weight"], weights(folder)["classifier.weight"])
    assert json.loads((tmp_path / "model" / "config.json").read_text())["id2label"] == {"0": "neg", "1": "pos"}


def test_an_unknown_validation_label_is_named_before_training(start, tmp_path):
    with pytest.raises(InvalidInputError, match="validation row 0 has the label 'odd'"):
        train(start, tmp_path / "model", validation=[{"text": "a film", "label": "odd"}])


def test_a_head_may_learn_at_its_own_rate_under_the_same_schedule(start, tmp_path):
    from knn_ue_lab.training.posterior import Posterior

    moved = {}
    for rate in (1e-9, 1e-2):
        method = Posterior(head_learning_rate=rate)
        train(start, tmp_path / str(rate), method=method, options=replace(BRIEF, learning_rate=1e-9, seed=3))
        moved[rate] = torch.from_numpy(load_head_arrays(tmp_path / str(rate))["flows.center"])

    assert (moved[1e-2] - moved[1e-9]).abs().max() > 1e-3


def load_head_arrays(folder):
    from safetensors.numpy import load_file

    return load_file(folder / "knn_ue_head.safetensors")
