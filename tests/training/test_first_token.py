"""A last layer that computes the first token alone: the same answers and, with dropout, the same training."""

from contextlib import nullcontext

import numpy as np
import pytest

from knn_ue.training import TrainingOptions
from knn_ue.training.finetune import finetune
from tiny_models import FAMILIES, ROWS, TASKS

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

TEXT, PAIR, _ = TASKS
LIKE_BERT = ("bert", "roberta")


def loaded(folder, task=TEXT):
    """Return a model and a padded batch of texts of several lengths."""
    from knn_ue.encoding.huggingface import HuggingFaceEncoder
    from knn_ue.encoding.inputs import read_examples

    encoder = HuggingFaceEncoder.from_pretrained(folder, task, device="cpu")
    rows = [*ROWS[task](4), *([{"text": "great", "label": "pos"}] if task == TEXT else [])]
    return encoder.model, encoder.forward.inputs_of(encoder.pieces_of(list(read_examples(rows, task))).pieces)


def answers(model, inputs):
    with torch.inference_mode():
        return model(**inputs, output_hidden_states=True)


@pytest.mark.parametrize("task", [TEXT, PAIR])
@pytest.mark.parametrize("family", LIKE_BERT)
def test_the_answers_stay_and_the_last_layer_computes_one_token(family, task, tiny_model):
    from knn_ue.training.first_token import first_token_only

    model, inputs = loaded(tiny_model(family, task), task)
    before = answers(model.eval(), inputs)

    with first_token_only(model, inputs) as is_on:
        within = answers(model, inputs)

    assert is_on
    assert within.hidden_states[-1].shape[1] == 1 < within.hidden_states[-2].shape[1]
    torch.testing.assert_close(within.logits, before.logits)
    assert answers(model, inputs).hidden_states[-1].shape == before.hidden_states[-1].shape


@pytest.mark.parametrize("family", [one for one in FAMILIES if one not in LIKE_BERT])
def test_a_layer_with_other_parts_stays_as_it_is(family, tiny_model):
    from knn_ue.training.first_token import first_token_only

    model, inputs = loaded(tiny_model(family, TEXT))

    with first_token_only(model, inputs) as is_on:
        assert not is_on
        assert answers(model, inputs).hidden_states[-1].shape[1] == inputs["input_ids"].shape[1]


def test_a_model_that_reads_other_tokens_stays_as_it_is(tiny_model):
    from knn_ue.training.first_token import first_token_only

    model, inputs = loaded(tiny_model("bert", TEXT))
    read_first = model.bert.pooler.forward
    model.bert.pooler.forward = lambda states: read_first(states.mean(dim=1, keepdim=True))
    before = answers(model.eval(), inputs)

    with first_token_only(model, inputs) as is_on:
        within = answers(model, inputs)

    assert not is_on
    torch.testing.assert_close(within.logits, before.logits, rtol=0, atol=0)


@pytest.mark.parametrize("family", LIKE_BERT)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_with_dropout_the_same_weights_are_learned(family, precision, tiny_model, tmp_path, monkeypatch):
    from safetensors.numpy import load_file

    from knn_ue.training import trainer

    def learned(name):
        options = TrainingOptions(
            batch_size=8, learning_rate=1e-3, epochs=2, freeze_lower=0.5, reuse_frozen=True, precision=precision
        )
        rows, out = ROWS[TEXT](24), tmp_path / name
        finetune(rows, ROWS[TEXT](8, start=200), task=TEXT, encoder=tiny_model(family, TEXT), out=out, options=options)
        return load_file(out / "model.safetensors")

    first = learned("first")
    monkeypatch.setattr(trainer, "first_token_only", lambda *_: nullcontext())
    whole = learned("whole")

    # Nothing depends on the biases of keys: their gradients are rounding alone, which Adam makes as large as any.
    changed = [np.abs(first[name] - values).ravel() for name, values in whole.items() if "key.bias" not in name]
    assert np.concatenate(changed).mean() < (1e-7 if precision == "float32" else 1e-4)
