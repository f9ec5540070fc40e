"""A prompted language model: label words are the classes, and the prompt's last token is the feature."""

import json

import numpy as np
import pytest

from held import fitted_in
from knn_ue.encoding.causal import CausalLMEncoder, PromptOptions
from knn_ue.encoding.prompts import Prompt, PromptReader
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.pipeline import UncertaintyPipeline
from tiny_models import DECODERS, HIDDEN_SIZE, pair_rows, save_tiny_decoder, save_tiny_model, text_rows

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

CLOSE = {"rtol": 0, "atol": 2e-5}
PROMPT = "the film: {text}\nwas:"
ONE_TOKEN = {"pos": "great", "neg": "awful"}
SEVERAL = {"pos": "brilliant", "neg": "dreadful", "none": "film"}  # two tokens, two, one
TEXTS = ["great", "the film number 3 was awful indeed", "was", "nobody saw the dog", ""]
every_decoder = pytest.mark.parametrize("family", DECODERS)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return the folders of language models by family; they must not be written to."""
    folder = tmp_path_factory.mktemp("language-models")
    return {family: save_tiny_decoder(folder / family, family=family, task="language-model") for family in DECODERS}


@pytest.fixture(scope="module")
def ue(models, tmp_path_factory):
    """Return a UE folder of a prompted model."""
    folder = tmp_path_factory.mktemp("prompted") / "ue"
    pipe = UncertaintyPipeline(CausalLMEncoder(models["llama"], PROMPT, SEVERAL))
    pipe.fit(text_rows(30), text_rows(20, start=100), n_neighbors=8)
    pipe.save(folder)
    return folder


def slow_outputs(encoder, prompt, words):
    """Return logits and feature of one prompt by plain calls: each word in full, unpadded, without a cache."""
    tokenizer, model = encoder.tokenizer, encoder.model
    ids = tokenizer(prompt)["input_ids"]
    logits = []
    with torch.inference_mode():
        for word in words:
            whole = tokenizer(f"{prompt} {word}")["input_ids"]
            assert whole[: len(ids)] == ids
            said = model(input_ids=torch.tensor([whole])).logits[0].log_softmax(dim=-1)
            logits.append(sum(float(said[place - 1, whole[place]]) for place in range(len(ids), len(whole))))
        hidden = model(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states
    return logits, hidden[-1][0, -1].numpy()


@pytest.mark.parametrize("words", [ONE_TOKEN, SEVERAL], ids=["one token", "several tokens"])
@every_decoder
def test_logits_and_features_are_those_of_plain_calls(models, family, words):
    encoder = CausalLMEncoder(models[family], PROMPT, words, options=PromptOptions(batch_size=3))

    outputs = encoder.encode(TEXTS)

    expected = [slow_outputs(encoder, f"the film: {text}\nwas:", words.values()) for text in TEXTS]
    np.testing.assert_allclose(outputs.logits, [logits for logits, _ in expected], **CLOSE)
    np.testing.assert_allclose(outputs.features, [feature for _, feature in expected], **CLOSE)


def test_labels_are_told_by_the_names_not_the_words(models):
    encoder = CausalLMEncoder(models["gpt2"], PROMPT, ONE_TOKEN)

    outputs = encoder.encode([{"text": "was", "label": "neg"}, {"text": "saw", "label": "pos"}])

    assert (outputs.class_names, outputs.labels.tolist()) == (("pos", "neg"), [1, 0])


def test_no_rows_give_outputs_with_all_columns(models):
    outputs = CausalLMEncoder(models["gpt2"], PROMPT, ONE_TOKEN).encode([])

    assert (outputs.features.shape, outputs.logits.shape) == ((0, HIDDEN_SIZE), (0, 2))


def test_a_model_without_a_padding_token_is_prompted_as_it_is(models):
    model = transformers.AutoModelForCausalLM.from_pretrained(models["gpt2"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(models["gpt2"])
    model.config.pad_token_id = tokenizer.pad_token = None

    outputs = CausalLMEncoder(model, PROMPT, ONE_TOKEN, tokenizer=tokenizer).encode(TEXTS)

    whole = CausalLMEncoder(models["gpt2"], PROMPT, ONE_TOKEN).encode(TEXTS)
    np.testing.assert_allclose(outputs.logits, whole.logits, **CLOSE)


def test_a_long_text_is_cut_and_the_prompt_stays_whole(models):
    encoder = CausalLMEncoder(models["llama"], PROMPT, ONE_TOKEN)
    long = " ".join(["dog"] * 100)

    ids, cut = encoder._reader.read([long])
    encoder.encode([long, "was"])

    assert cut and len(ids) <= encoder.options.max_length
    assert encoder.tokenizer.decode(ids).endswith("\nwas:")
    assert (encoder.n_encoded, encoder.n_truncated) == (2, 1)


def test_of_a_pair_the_longer_text_is_cut(models):
    encoder = CausalLMEncoder(models["llama"], "{premise} so {hypothesis}:", ONE_TOKEN)

    ids, _ = encoder._reader.read(["dog " * 100, "nobody saw it"])

    assert encoder.tokenizer.decode(ids).endswith("so nobody saw it:")


def test_a_text_cannot_write_special_tokens(models):
    encoder = CausalLMEncoder(models["llama"], PROMPT, ONE_TOKEN)

    ids, _ = encoder._reader.read(["was </s> great"])

    assert ids.count(encoder.tokenizer.eos_token_id) == 0


def test_braces_in_a_text_are_text():
    assert Prompt("{premise} {x} {hypothesis}").filled(("{hypothesis}", "b")) == "{hypothesis} {x} b"


def test_a_word_follows_a_new_line_without_a_space(models):
    tokenizer = transformers.AutoTokenizer.from_pretrained(models["gpt2"])
    reader = PromptReader(tokenizer, Prompt("{text}\n"), max_length=30)

    (tokens, _) = reader.label_tokens({"a": "w", "b": "f"})

    assert tokenizer.decode(tokens) == "w"


def test_a_tokenizer_that_ends_texts_leaves_the_prompt_open(models):
    from tokenizers.processors import TemplateProcessing

    tokenizer = transformers.AutoTokenizer.from_pretrained(models["llama"])
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )

    ids, _ = PromptReader(tokenizer, Prompt(PROMPT), max_length=30).read(["was"])

    assert (ids[0], 2 in ids) == (0, False)


def test_chat_messages_become_what_the_chat_template_makes(models):
    tokenizer = transformers.AutoTokenizer.from_pretrained(models["llama"])
    tokenizer.chat_template = (
        "<s>{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
        "{% if add_generation_prompt %}film: {% endif %}"
    )
    model = transformers.AutoModelForCausalLM.from_pretrained(models["llama"])

    encoder = CausalLMEncoder(model, [{"role": "was", "content": "{text}"}], ONE_TOKEN, tokenizer=tokenizer)

    assert encoder.prompt.template == "<s>was: {text}\nfilm:"
    assert encoder._reader.read(["great"])[0].count(0) == 1  # begun once


@pytest.mark.parametrize(
    ("prompt", "labels", "words"),
    [
        ("no field", ONE_TOKEN, r"prompt must contain \{text\}, or \{premise\} and \{hypothesis\}.*got 'no field'"),
        ("{premise} alone", ONE_TOKEN, "prompt must contain"),
        (PROMPT, {"pos": "great"}, "labels must be at least 2 different names, got"),
        (PROMPT, ["great", "great"], "labels must be at least 2 different names"),
        (PROMPT, "great", "labels must be a list of names, or a dict"),
        (PROMPT, {"pos": "great", "neg": " "}, "must be text that is not empty, got 'neg'"),
        (
            PROMPT,
            {"pos": "great", "neg": "great dog"},
            "begins with that of 'pos'.*choose words that begin differently",
        ),
        (PROMPT + " dog" * 40, ONE_TOKEN, "the prompt alone has .* tokens, and max_length=32"),
        ([{"role": "user", "content": "{text}"}], ONE_TOKEN, "has no chat template, so prompt must be a string"),
    ],
)
def test_a_mistake_is_one_sentence(models, prompt, labels, words):
    with pytest.raises(InvalidInputError, match=words):
        CausalLMEncoder(models["gpt2"], prompt, labels)


def test_a_classifier_cannot_be_prompted(tmp_path):
    folder = save_tiny_decoder(tmp_path / "classifier", family="gpt2")

    with pytest.raises(
        InvalidInputError, match="GPT2ForSequenceClassification, which cannot be prompted: give a decod"
    ):
        CausalLMEncoder(folder, PROMPT, ONE_TOKEN)


def test_an_encoder_model_cannot_be_prompted(tmp_path):
    folder = save_tiny_model(tmp_path / "bert", family="bert", task="text-classification")

    with pytest.raises(InvalidInputError, match="which cannot be prompted"):
        CausalLMEncoder(folder, PROMPT, ONE_TOKEN)


def test_a_model_in_memory_needs_its_tokenizer(models):
    model = transformers.AutoModelForCausalLM.from_pretrained(models["gpt2"])

    with pytest.raises(InvalidInputError, match="GPT2LMHeadModel needs its tokenizer: pass tokenizer="):
        CausalLMEncoder(model, PROMPT, ONE_TOKEN)


def test_a_method_that_needs_dropout_passes_is_refused(models):
    pipe = UncertaintyPipeline(CausalLMEncoder(models["gpt2"], PROMPT, ONE_TOKEN))

    with pytest.raises(InvalidInputError, match="'causal-lm' cannot be used with passes=20"):
        pipe.fit(text_rows(10), text_rows(5, start=50), method="mc-dropout")


def test_a_loaded_folder_gives_the_same_answers(ue, models):
    loaded = UncertaintyPipeline.load(ue)
    again = UncertaintyPipeline.from_prompt(models["llama"], PROMPT, SEVERAL)
    again.fit(text_rows(30), text_rows(20, start=100), n_neighbors=8)

    assert loaded("the film was great") == again("the film was great")
    assert loaded.encoder.to_part().plain["prompt"] == PROMPT
    assert loaded.familiarity_ is not None


def test_a_folder_holds_no_pickle(ue):
    names = {path.name for path in ue.rglob("*") if path.is_file()}

    assert "model.safetensors" in names
    assert not {name for name in names if name.endswith((".bin", ".pt", ".pkl"))}


def test_a_model_in_memory_is_written_as_safetensors(models, tmp_path):
    model = transformers.AutoModelForCausalLM.from_pretrained(models["gpt2"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(models["gpt2"])
    pipe = UncertaintyPipeline.from_prompt(model, "{premise} so {hypothesis}:", ONE_TOKEN, tokenizer=tokenizer)
    rows = [row | {"label": "pos" if row["label"] == "entailment" else "neg"} for row in pair_rows(40)]
    pipe.fit(rows[:25], rows[25:], n_neighbors=5).save(tmp_path / "ue")

    loaded = UncertaintyPipeline.load(tmp_path / "ue")

    asked = ("Ada was great", "Ada was lovely")
    assert loaded(asked)[0].score == pytest.approx(pipe(asked)[0].score, abs=1e-6)
    assert loaded.task == "text-pair"


def test_a_folder_with_an_altered_prompt_is_refused(ue, tmp_path):
    import shutil

    copy = shutil.copytree(ue, tmp_path / "ue")
    meta = fitted_in(copy) / "fitted.json"
    plain = json.loads(meta.read_text(encoding="utf-8"))
    text = json.dumps(plain).replace(json.dumps(PROMPT)[1:-1], "no field at all")
    meta.write_text(text, encoding="utf-8")

    with pytest.raises(StorageError):
        UncertaintyPipeline.load(copy)


def test_a_prompted_model_explains(ue):
    (explanation,) = UncertaintyPipeline.load(ue).explain("the film was great", top=3)

    assert len(explanation.neighbors) == 3


@pytest.mark.slow
def test_the_command_fits_predicts_and_explains(models, tmp_path):
    from cli_files import run

    rows = {"train": text_rows(30), "validation": text_rows(20, start=100)}
    for name, made in rows.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
    data = ("--train", tmp_path / "train.jsonl", "--validation", tmp_path / "validation.jsonl", "--neighbors", 8)
    words = ("--label-word", "pos=great", "--label-word", "neg=awful")

    fitted = run("fit", models["gpt2"], *data, "--prompt", r"the film: {text}\nwas:", *words, "--out", tmp_path / "ue")
    predicted = run(
        "predict", tmp_path / "ue", "--input", tmp_path / "validation.jsonl", "--output", tmp_path / "answers.jsonl"
    )
    explained = run("explain", tmp_path / "ue", "the film was great")

    assert fitted.exit_code == 0, fitted.output
    assert explained.exit_code == 0, explained.output
    assert predicted.exit_code == 0, predicted.output
    answers = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text(encoding="utf-8").splitlines()]
    expected = UncertaintyPipeline.load(tmp_path / "ue")([row["text"] for row in rows["validation"]])
    assert [(x["label"], round(x["score"], 5)) for x in answers] == [(x.label, round(x.score, 5)) for x in expected]
    assert [x["input_label"] for x in answers] == [row["label"] for row in rows["validation"]]
    assert UncertaintyPipeline.load(tmp_path / "ue").encoder.to_part().plain["prompt"] == PROMPT


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--prompt", PROMPT], "--prompt needs --label-word"),
        (["--label-word", "pos=great"], "--label-word needs --prompt"),
        (["--prompt", PROMPT, "--label-word", "a", "--label-word", "b", "--task", "ner"], "leave out --task"),
    ],
)
def test_the_command_names_the_option_that_is_missing(models, tmp_path, options, words):
    from cli_files import run

    (tmp_path / "rows.jsonl").write_text(json.dumps(text_rows(1)[0]) + "\n", encoding="utf-8")
    data = ("--train", tmp_path / "rows.jsonl", "--validation", tmp_path / "rows.jsonl", "--out", tmp_path / "ue")

    result = run("fit", models["gpt2"], *data, *options)

    assert result.exit_code != 0 and words in " ".join(result.output.split())


def test_a_language_model_without_a_prompt_is_told_how_to_be_prompted(models):
    with pytest.raises(InvalidInputError, match="is a language model without a classification head: prompt it with"):
        UncertaintyPipeline.from_pretrained(models["llama"])


@pytest.mark.slow
def test_the_server_answers_for_a_prompted_model(ue):
    testclient = pytest.importorskip("starlette.testclient")
    from knn_ue.serving import ServeOptions, create_app

    options = ServeOptions(device="cpu", watch_seconds=0)
    with testclient.TestClient(create_app(ue, options), base_url="http://127.0.0.1") as client:
        answered = client.post("/predict", json={"inputs": ["the film was lovely"]})

    assert answered.status_code == 200, answered.text
    assert answered.json()["answers"][0]["label"] in SEVERAL
