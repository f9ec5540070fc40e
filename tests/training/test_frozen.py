"""What makes training faster: frozen layers that run once, and products in half precision."""

import json
from dataclasses import replace

import numpy as np
import pytest

from knn_ue.errors import InvalidInputError
from knn_ue.training import TrainingOptions
from knn_ue.training.finetune import finetune
from tiny_models import FAMILIES, ROWS, TASKS, save_tiny_model

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

TEXT, PAIR, TAGGING = TASKS
OPTIONS = TrainingOptions(batch_size=8, learning_rate=1e-2, epochs=2, freeze_lower=0.5, max_steps=6)


def trained(folder, family, task, options):
    """Return the weights of a tiny model without dropout, trained with the options."""
    from safetensors.numpy import load_file

    start = save_tiny_model(folder / "start", family=family, task=task, initializer_range=0.05)
    config = json.loads((start / "config.json").read_text())
    config |= {name: 0.0 for name in config if "dropout" in name and isinstance(config[name], float)}
    (start / "config.json").write_text(json.dumps(config))
    finetune(ROWS[task](24), ROWS[task](8, start=200), task=task, encoder=start, out=folder / "model", options=options)
    return load_file(folder / "model" / "model.safetensors")


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("task", [TEXT, TAGGING])
def test_without_dropout_the_same_weights_are_learned(tmp_path, family, task):
    asked_again = trained(tmp_path / "again", family, task, OPTIONS)
    reused = trained(tmp_path / "reused", family, task, replace(OPTIONS, reuse_frozen=True))

    assert asked_again.keys() == reused.keys()
    for name, values in asked_again.items():
        np.testing.assert_allclose(reused[name], values, atol=2e-4, err_msg=name)


def test_a_model_whose_upper_layers_read_more_than_states_is_refused(tiny_model):
    from knn_ue.encoding.huggingface import HuggingFaceEncoder
    from knn_ue.encoding.inputs import read_examples
    from knn_ue.training.frozen import FrozenStates

    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", TEXT), TEXT, device="cpu")
    made = encoder.pieces_of(list(read_examples(ROWS[TEXT](4), TEXT)))
    upper = encoder.model.bert.encoder.layer[-1]
    plain = upper.forward
    upper.forward = lambda states, *args, **kw: plain(states + len(encoder.model.bert.encoder.layer), *args, **kw)

    with pytest.raises(InvalidInputError, match="read more than the layer below"):
        FrozenStates(encoder.forward, made.pieces, n_frozen=1)


def test_there_must_be_frozen_layers_to_reuse():
    with pytest.raises(InvalidInputError, match="reuse_frozen needs frozen layers"):
        TrainingOptions(reuse_frozen=True)


def states_of(encoder, kept=None):
    from knn_ue.encoding.inputs import read_examples
    from knn_ue.training.frozen import FrozenStates

    made = encoder.pieces_of(list(read_examples(ROWS[TEXT](40), TEXT)))
    return FrozenStates(encoder.forward, made.pieces, n_frozen=1, kept=kept)


def test_states_are_kept_for_the_next_training_and_made_again_for_other_layers(tiny_model, tmp_path, monkeypatch):
    from knn_ue.encoding.huggingface import HuggingFaceEncoder
    from knn_ue.training.frozen import FrozenStates

    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", TEXT), TEXT, device="cpu")
    asked = []
    ask = FrozenStates._run_lower
    monkeypatch.setattr(FrozenStates, "_run_lower", lambda self, pieces: asked.append(len(pieces)) or ask(self, pieces))

    first = states_of(encoder, tmp_path / "kept")
    n_first = len(asked)
    second = states_of(encoder, tmp_path / "kept")

    assert [a.tolist() for a in first._states] == [b.tolist() for b in second._states]
    assert len(asked) - n_first == 2  # the longest and the shortest, to see that they are the same
    with torch.no_grad():
        encoder.model.bert.encoder.layer[0].output.dense.bias += 1
    other = states_of(encoder, tmp_path / "kept")
    assert [a.tolist() for a in other._states] == [b.tolist() for b in states_of(encoder)._states]


def test_kept_states_of_other_rows_or_a_damaged_folder_are_not_used(tiny_model, tmp_path):
    from knn_ue.encoding.huggingface import HuggingFaceEncoder
    from knn_ue.folder import Part, write_folder

    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", TEXT), TEXT, device="cpu")
    expected = [one.tolist() for one in states_of(encoder)._states]
    write_folder(tmp_path / "other", Part(kind="frozen-states", arrays={"states": np.zeros((3, 4), np.float32)}))
    (tmp_path / "damaged").mkdir()

    for name in ("other", "damaged"):
        assert [one.tolist() for one in states_of(encoder, tmp_path / name)._states] == expected


def test_half_precision_learns_nearly_the_same_weights_and_keeps_them_whole(tmp_path):
    whole = trained(tmp_path / "whole", "bert", TEXT, OPTIONS)
    half = trained(tmp_path / "half", "bert", TEXT, replace(OPTIONS, precision="bfloat16", reuse_frozen=True))

    assert {values.dtype for values in half.values()} == {np.dtype(np.float32)}
    # Adam moves a weight by about the learning rate a step, whatever rounding does to a gradient.
    assert max(float(np.abs(half[name] - values).max()) for name, values in whole.items()) < 6 * 1e-2
    learned = [name for name, values in whole.items() if not np.array_equal(half[name], values)]
    assert any("classifier" in name for name in learned)
    assert not any("embeddings" in name for name in learned)


def test_an_unknown_precision_is_refused():
    with pytest.raises(InvalidInputError, match="precision must be one of 'float32', 'bfloat16'"):
        TrainingOptions(precision="float16")
