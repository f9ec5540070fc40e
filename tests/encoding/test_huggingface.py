"""Every family and task against a plain transformers forward pass on one unpadded input at a time."""

import shutil
import sys

import numpy as np
import pytest

from knn_ue.encoding.huggingface import HuggingFaceEncoder
from knn_ue.encoding.loading import find_device
from knn_ue.errors import InvalidInputError, MissingExtraError
from marks import slow_but
from tiny_models import CLASS_NAMES, FAMILIES, HIDDEN_SIZE, N_LAYERS, ROWS, TASKS, save_tiny_model

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

CLOSE = {"rtol": 0, "atol": 1e-5}


def plain_forward(encoder, row):
    """Return the encoding and the output of transformers' own call on one row, unpadded and alone."""
    if encoder.task == "token-classification":
        encoding = encoder.tokenizer(row["tokens"], is_split_into_words=True, return_tensors="pt")
    elif encoder.task == "text-pair":
        encoding = encoder.tokenizer(row["premise"], row["hypothesis"], return_tensors="pt")
    else:
        encoding = encoder.tokenizer(row["text"], return_tensors="pt")
    with torch.inference_mode():
        return encoding, encoder.model(**encoding, output_hidden_states=True)


def expected_states(encoder, rows, layer):
    """Return the hidden states at CLS, or at the first sub-word of each word."""
    states = []
    for row in rows:
        encoding, output = plain_forward(encoder, row)
        word_ids = encoding.word_ids(0)
        tagging = encoder.task == "token-classification"
        positions = [word_ids.index(word) for word in range(len(row["tokens"]))] if tagging else [0]
        states += [output.hidden_states[layer][0, position].numpy() for position in positions]
    return np.stack(states)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("family", slow_but("deberta-v2", FAMILIES))
def test_features_are_the_final_layer_of_a_plain_forward_pass(tiny_model, family, task):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model(family, task), task, pooling="cls")
    rows = ROWS[task](5)

    outputs = encoder.encode(rows)

    np.testing.assert_allclose(outputs.features, expected_states(encoder, rows, -1), **CLOSE)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("family", slow_but("deberta-v2", FAMILIES))
def test_logits_are_those_of_a_plain_forward_pass(tiny_model, family, task):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model(family, task), task)
    rows = ROWS[task](3)

    outputs = encoder.encode(rows)

    expected = []
    for row in rows:
        encoding, output = plain_forward(encoder, row)
        if task == "token-classification":
            firsts = [encoding.word_ids(0).index(word) for word in range(len(row["tokens"]))]
            expected += [output.logits[0, first].numpy() for first in firsts]
        else:
            expected.append(output.logits[0].numpy())
    np.testing.assert_allclose(outputs.logits, expected, **CLOSE)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("family", slow_but("deberta-v2", FAMILIES))
def test_labels_and_class_names_are_the_models_own(tiny_model, family, task):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model(family, task), task)
    rows = ROWS[task](4)

    outputs = encoder.encode(rows)

    given = [label for row in rows for label in row.get("tags", [row.get("label")])]
    assert [outputs.class_names[number] for number in outputs.labels] == given
    assert outputs.class_names == CLASS_NAMES[task]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("family", slow_but("deberta-v2", FAMILIES))
def test_results_do_not_depend_on_batch_size(tiny_model, family, task):
    folder, rows = tiny_model(family, task), ROWS[task](9)

    alone = HuggingFaceEncoder.from_pretrained(folder, task, batch_size=1).encode(rows)
    together = HuggingFaceEncoder.from_pretrained(folder, task, batch_size=9).encode(rows)

    np.testing.assert_allclose(together.features, alone.features, **CLOSE)
    np.testing.assert_allclose(together.logits, alone.logits, **CLOSE)


@pytest.mark.parametrize("family", slow_but("deberta-v2", FAMILIES))
def test_results_follow_the_order_of_the_rows(tiny_model, family):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model(family, TASKS[0]), TASKS[0], batch_size=2)
    rows = ["the film", "great", "the film number 3 was awful indeed", "was"]

    outputs, reversed_outputs = encoder.encode(rows), encoder.encode(rows[::-1])

    np.testing.assert_allclose(reversed_outputs.features[::-1], outputs.features, **CLOSE)
    assert outputs.texts == tuple(rows)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("family", slow_but("deberta-v2", FAMILIES))
def test_all_layers_are_the_hidden_states_without_the_embeddings(tiny_model, family, task):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model(family, task), task, all_layers=True)
    rows = ROWS[task](3)

    outputs = encoder.encode(rows)

    assert len(outputs.layers) == N_LAYERS
    for number, layer in enumerate(outputs.layers):
        np.testing.assert_allclose(layer, expected_states(encoder, rows, number + 1), **CLOSE)


@pytest.mark.parametrize("layer", [0, 2, -2])
def test_any_layer_can_be_the_feature(tiny_model, layer):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", TASKS[2]), TASKS[2], layer=layer)
    rows = ROWS[TASKS[2]](3)

    outputs = encoder.encode(rows)

    np.testing.assert_allclose(outputs.features, expected_states(encoder, rows, layer), **CLOSE)


@pytest.mark.parametrize("family", slow_but("deberta-v2", FAMILIES))
def test_mean_pooling_averages_the_real_tokens_only(tiny_model, family):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model(family, TASKS[0]), TASKS[0], pooling="mean")
    rows = [{"text": "great"}, {"text": "the film number 3 was awful indeed"}]

    outputs = encoder.encode(rows)

    expected = [plain_forward(encoder, row)[1].hidden_states[-1][0].mean(dim=0).numpy() for row in rows]
    np.testing.assert_allclose(outputs.features, expected, **CLOSE)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("family", slow_but("deberta-v2", FAMILIES))
def test_the_heads_last_layer_turns_pooled_features_into_logits(tiny_model, family, task):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model(family, task), task, pooling="pooled")

    outputs = encoder.encode(ROWS[task](4))

    classifier = encoder.model.classifier
    linear = getattr(classifier, "out_proj", classifier)
    logits = outputs.features @ linear.weight.detach().numpy().T + linear.bias.detach().numpy()
    np.testing.assert_allclose(logits, outputs.logits, **CLOSE)


def test_rows_may_be_bare_texts_without_labels(tiny_model):
    outputs = HuggingFaceEncoder.from_pretrained(tiny_model("bert", TASKS[0]), TASKS[0]).encode(["a film", "great"])

    assert outputs.labels is None


def test_labels_can_be_left_unread(tiny_model):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", TASKS[0]), TASKS[0])

    outputs = encoder.encode([{"text": "a film", "label": "of another world"}], with_labels=False)

    assert outputs.labels is None


def test_a_label_the_model_does_not_know_is_named(tiny_model):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", TASKS[0]), TASKS[0])

    with pytest.raises(InvalidInputError, match=r"row 1 has the label 'maybe'.*its 2 labels are: neg, pos"):
        encoder.encode([{"text": "a film", "label": "pos"}, {"text": "great", "label": "maybe"}])


def test_a_pair_is_shown_as_premise_and_hypothesis(tiny_model):
    outputs = HuggingFaceEncoder.from_pretrained(tiny_model("bert", TASKS[1]), TASKS[1]).encode([("a film", "great")])

    assert outputs.texts == ("a film → great",)


def test_groups_are_the_numbers_of_the_sentences(tiny_model):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", TASKS[2]), TASKS[2], context_words=0)

    outputs = encoder.encode([["Ada", "went"], [], ["to", "Paris", "."]])

    assert outputs.groups.tolist() == [0, 0, 2, 2, 2]
    assert outputs.texts == ("Ada", "went", "to", "Paris", ".")


@pytest.mark.parametrize("task", TASKS)
def test_no_rows_give_outputs_of_length_zero(tiny_model, task):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", task), task, pooling="cls", all_layers=True)

    outputs = encoder.encode([])

    assert outputs.features.shape == (0, HIDDEN_SIZE)
    assert outputs.logits.shape == (0, len(CLASS_NAMES[task]))


@pytest.mark.parametrize("family", slow_but("deberta-v2", FAMILIES))
def test_an_empty_text_gets_its_row(tiny_model, family):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model(family, TASKS[0]), TASKS[0], pooling="cls")

    outputs = encoder.encode(["", {"text": "a film"}])

    np.testing.assert_allclose(outputs.features[:1], expected_states(encoder, [{"text": ""}], -1), **CLOSE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": 5}, "layer=5 does not exist: the model has layers 1 to 4"),
        ({"max_length": 2}, "max_length=2 leaves no room beside the special tokens"),
        ({"pooling": "max"}, "pooling must be one of 'cls', 'last', 'mean', 'cls\\+mean', 'pooled', got 'max'"),
        ({"pooling": "pooled", "layer": 1}, "layer=1 has no effect"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1"),
    ],
)
def test_an_impossible_option_is_refused(tiny_model, options, message):
    with pytest.raises(InvalidInputError, match=message):
        HuggingFaceEncoder.from_pretrained(tiny_model("roberta", TASKS[0]), TASKS[0], **options).encode(["a film"])


# Each fails in its own way: no such name, a build without it, a missing module, no kernels, no data.
@pytest.mark.parametrize("name", ["", "toaster", "xpu:99", "privateuseone", "vulkan", "meta"])
def test_a_device_that_cannot_be_used_is_named(name):
    with pytest.raises(InvalidInputError, match=f"device '{name}' cannot be used here"):
        find_device(name)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_a_model_reads_no_more_than_its_positions_whatever_is_asked(tiny_model, family):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model(family, TASKS[0]), TASKS[0], max_length=500)

    encoder.encode(["a film " * 100])

    assert (encoder.options.max_length, encoder.n_truncated) == (32, 1)


def test_mean_pooling_of_words_is_refused(tiny_model):
    with pytest.raises(InvalidInputError, match="a tagged word is represented by its first sub-word"):
        HuggingFaceEncoder.from_pretrained(tiny_model("bert", TASKS[2]), TASKS[2], pooling="mean")


def test_a_model_that_is_not_there_is_named():
    with pytest.raises(InvalidInputError, match="the model no/such-model cannot be loaded"):
        HuggingFaceEncoder.from_pretrained("no/such-model", "text-classification")


def test_an_encoder_without_a_trained_head_is_refused(tiny_model, tmp_path):
    folder = tiny_model("bert", TASKS[0])
    with pytest.raises(InvalidInputError, match=r"has no trained classification head .*knn-ue train"):
        HuggingFaceEncoder.from_pretrained(_without_head(folder, tmp_path), TASKS[0])


@pytest.mark.parametrize(("saved_for", "used_for"), [(TASKS[0], TASKS[2]), (TASKS[2], TASKS[1])])
def test_a_model_with_the_other_kind_of_head_is_refused(tiny_model, saved_for, used_for):
    with pytest.raises(InvalidInputError, match=rf"holds a Bert\w+, which cannot do {used_for}"):
        HuggingFaceEncoder.from_pretrained(tiny_model("bert", saved_for), used_for)


def test_a_folder_without_a_tokenizer_is_refused(tiny_model, tmp_path):
    shutil.copytree(tiny_model("bert", TASKS[0]), tmp_path / "model")
    (tmp_path / "model" / "tokenizer.json").unlink()

    with pytest.raises(InvalidInputError, match=r"has no tokenizer|cannot be loaded"):
        HuggingFaceEncoder.from_pretrained(tmp_path / "model", TASKS[0])


def test_a_regression_model_is_refused(tmp_path):
    folder = save_tiny_model(tmp_path, family="bert", task=TASKS[0], class_names=("score",))

    with pytest.raises(InvalidInputError, match="it must have at least 2 classes"):
        HuggingFaceEncoder.from_pretrained(folder, TASKS[0])


def test_a_half_precision_model_is_read_in_float32(tiny_model, tmp_path):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", TASKS[0]), TASKS[0])
    encoder.model.half().save_pretrained(tmp_path)
    encoder.tokenizer.save_pretrained(tmp_path)

    assert HuggingFaceEncoder.from_pretrained(tmp_path, TASKS[0]).model.dtype == torch.float32


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16])
def test_a_half_precision_model_in_memory_is_told_what_a_folder_does(tiny_model, precision):
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", TASKS[0]), TASKS[0])
    model = encoder.model.to(precision).train()

    with pytest.warns(UserWarning, match="a saved folder computes in float32"):
        found = HuggingFaceEncoder.from_model(model, encoder.tokenizer)

    assert not found.model.training and found.encode(["fine"]).features.dtype == np.float32


def test_loading_and_encoding_write_nothing_to_the_terminal(tiny_model, capfd):
    HuggingFaceEncoder.from_pretrained(tiny_model("deberta-v2", TASKS[2]), TASKS[2]).encode([["word"] * 200])

    assert capfd.readouterr() == ("", "")


def test_a_missing_library_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr("knn_ue.errors.find_spec", lambda _name: None)

    with pytest.raises(MissingExtraError, match=r'HuggingFaceEncoder needs torch.*pip install "knn-ue\[hf\]"'):
        HuggingFaceEncoder.from_pretrained("anything", "text-classification")


def test_a_folder_with_only_a_sentencepiece_model_loads_as_deberta_v3_does(tiny_model, tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    pytest.importorskip("google.protobuf")
    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("deberta-v2", TASKS[2]), TASKS[2])
    encoder.model.save_pretrained(tmp_path)
    pieces = {"pad": "[PAD]", "bos": "[CLS]", "eos": "[SEP]", "unk": "[UNK]"}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(row["tokens"]) for row in ROWS[TASKS[2]](40)]),
        model_prefix=str(tmp_path / "spm"),
        vocab_size=60,
        minloglevel=2,
        **{f"{name}_id": number for number, name in enumerate(pieces)},
        **{f"{name}_piece": piece for name, piece in pieces.items()},
    )

    outputs = HuggingFaceEncoder.from_pretrained(tmp_path, TASKS[2]).encode([["Ada", "went", "to", "Paris"]])

    assert len(outputs) == 4


def _without_head(folder, target):
    from transformers import BertModel

    BertModel.from_pretrained(folder).save_pretrained(target)
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(target)
    return target


@pytest.mark.parametrize("lower_cases", [True, False])
def test_whether_the_tokenizer_sees_the_case_of_words_is_said(tiny_model, lower_cases):
    from tokenizers import normalizers

    encoder = HuggingFaceEncoder.from_pretrained(tiny_model("bert", "token-classification"), "token-classification")
    steps = [normalizers.Lowercase()] if lower_cases else []
    encoder.tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(steps)

    outputs = HuggingFaceEncoder(encoder.model, encoder.tokenizer, encoder.task).encode([["In", "Oslo"], ["it"]])

    assert outputs.words == ("In", "Oslo", "it")
    assert outputs.sees_case is not lower_cases
