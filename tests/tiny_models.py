"""Tiny classifiers of three families, random weights and a tokenizer trained on the spot: nothing is downloaded.

Import `tiny_model` in a conftest to have the fixture; the functions work without pytest.
"""

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before anything imports the hub: a test must not wait for a network

FAMILIES = ("bert", "roberta", "deberta-v2")
TASKS = ("text-classification", "text-pair", "token-classification")
CLASS_NAMES = {
    "text-classification": ("neg", "pos"),
    "text-pair": ("contradiction", "entailment", "neutral"),
    "token-classification": ("O", "B-LOC", "I-LOC", "B-PER", "I-PER"),
}
MAX_LENGTH = 32
HIDDEN_SIZE = 24
N_LAYERS = 4

_GOOD = ("great", "lovely", "brilliant", "wonderful")
_BAD = ("awful", "boring", "dreadful", "terrible")
_PEOPLE = ("Ada", "Grace", "Alan", "Emmy")
_SURNAMES = ("Lovelace", "Hopper", "Turing", "Noether")
_PLACES = ("Paris", "Oslo", "Lima", "Cairo")


def text_rows(n_rows: int, *, start: int = 0) -> list[dict[str, str]]:
    """Return film reviews in which one word decides the label."""
    rows = []
    for number in range(start, start + n_rows):
        words, label = (_GOOD, "pos") if number % 2 else (_BAD, "neg")
        rows.append({"text": f"the film number {number} was {words[number // 2 % 4]} indeed", "label": label})
    return rows


def pair_rows(n_rows: int, *, start: int = 0) -> list[dict[str, str]]:
    """Return premises with a hypothesis that repeats, denies or ignores them."""
    answers = (("{} was {}", "entailment"), ("{} was not {}", "contradiction"), ("nobody saw the dog", "neutral"))
    rows = []
    for number in range(start, start + n_rows):
        name, word = _PEOPLE[number % 4], _GOOD[number // 4 % 4]
        pattern, label = answers[number % 3]
        premise = f"{name} was {word} {number}"
        rows.append({"premise": premise, "hypothesis": pattern.format(name, word), "label": label})
    return rows


def tagged_rows(n_rows: int, *, start: int = 0) -> list[dict[str, list[str]]]:
    """Return sentences with a person of two words and a place."""
    rows = []
    for number in range(start, start + n_rows):
        person = [_PEOPLE[number % 4], _SURNAMES[number // 2 % 4]]
        tokens = [*person, "went", "to", _PLACES[number // 3 % 4], "in", str(1900 + number), "."]
        rows.append({"tokens": tokens, "tags": ["B-PER", "I-PER", "O", "O", "B-LOC", "O", "O", "O"]})
    return rows


ROWS: dict[str, Callable[..., list[Any]]] = {
    "text-classification": text_rows,
    "text-pair": pair_rows,
    "token-classification": tagged_rows,
}


def save_tiny_model(
    folder: Path,
    *,
    family: str,
    task: str,
    class_names: tuple[str, ...] | None = None,
    initializer_range: float = 0.3,  # far from zero, so that a wrong position or layer shows
    seed: int = 0,
) -> Path:
    """Write a model folder as the hub would serve it: config, weights, tokenizer."""
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoModelForTokenClassification

    from knn_ue.encoding.huggingface import quiet

    names = class_names or CLASS_NAMES[task]
    vocab_size = save_tokenizer(folder, family)
    config = AutoConfig.for_model(
        family,
        vocab_size=vocab_size,
        hidden_size=HIDDEN_SIZE,
        num_hidden_layers=N_LAYERS,
        num_attention_heads=2,
        intermediate_size=40,
        max_position_embeddings=MAX_LENGTH + (2 if family == "roberta" else 0),
        initializer_range=initializer_range,
        id2label=dict(enumerate(names)),
        label2id={name: number for number, name in enumerate(names)},
        **_FAMILY_CONFIG[family],
    )
    auto = AutoModelForTokenClassification if task == "token-classification" else AutoModelForSequenceClassification
    with torch.random.fork_rng(), quiet(), warnings.catch_warnings():
        # Raised by the import of DeBERTa inside transformers; nothing of ours uses torch.jit.
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", DeprecationWarning)
        torch.manual_seed(seed)
        auto.from_config(config).save_pretrained(folder)
    return folder


def save_tokenizer(folder: Path, family: str) -> int:
    """Train a small tokenizer as the family uses it, write its files, and return the size of its vocabulary."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _TOKENIZERS[family](_corpus())
    tokenizer.save(str(folder / "tokenizer.json"))
    special = _ROBERTA_TOKENS if family == "roberta" else _BERT_TOKENS
    kind = {"bert": "BertTokenizer", "roberta": "RobertaTokenizer", "deberta-v2": "DebertaV2Tokenizer"}[family]
    settings = special | {"tokenizer_class": kind, "model_max_length": MAX_LENGTH, "do_lower_case": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return int(tokenizer.get_vocab_size())


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function (family, task) -> model folder; each is made once a session and must not be written to."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    made: dict[tuple[str, str], Path] = {}

    def get(family: str, task: str) -> Path:
        if (family, task) not in made:
            folder = tmp_path_factory.mktemp(f"{family}-{task}")
            made[family, task] = save_tiny_model(folder, family=family, task=task)
        return made[family, task]

    return get


_BERT_TOKENS = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}
_ROBERTA_TOKENS = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "sep_token": "</s>",
    "cls_token": "<s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "mask_token": "<mask>",
}
_FAMILY_CONFIG: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {"pad_token_id": 1, "type_vocab_size": 1},
    "deberta-v2": {  # as DeBERTa-v3 is configured
        "relative_attention": True,
        "position_buckets": 8,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
        "type_vocab_size": 0,
        "pooler_hidden_size": HIDDEN_SIZE,
    },
}


def _corpus() -> list[str]:
    lines = [row["text"] for row in text_rows(40)]
    lines += [f"{row['premise']} {row['hypothesis']}" for row in pair_rows(40)]
    return lines + [" ".join(row["tokens"]) for row in tagged_rows(40)]


def _bert_tokenizer(corpus: list[str]) -> Any:
    from tokenizers import BertWordPieceTokenizer
    from tokenizers.processors import BertProcessing

    tokenizer = BertWordPieceTokenizer(lowercase=False)
    tokenizer.train_from_iterator(corpus, vocab_size=160, min_frequency=1, show_progress=False)
    separator, start = (tokenizer.token_to_id(name) for name in ("[SEP]", "[CLS]"))
    tokenizer.post_processor = BertProcessing(("[SEP]", separator), ("[CLS]", start))
    return tokenizer


def _roberta_tokenizer(corpus: list[str]) -> Any:
    from tokenizers import ByteLevelBPETokenizer
    from tokenizers.processors import RobertaProcessing

    tokenizer = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer.train_from_iterator(corpus, vocab_size=330, min_frequency=1, show_progress=False, special_tokens=special)
    tokenizer.post_processor = RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def _deberta_tokenizer(corpus: list[str]) -> Any:
    from tokenizers import SentencePieceUnigramTokenizer
    from tokenizers.processors import BertProcessing

    tokenizer = SentencePieceUnigramTokenizer()
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    tokenizer.train_from_iterator(
        corpus, vocab_size=160, show_progress=False, special_tokens=special, unk_token="[UNK]"
    )
    tokenizer.post_processor = BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return tokenizer


_TOKENIZERS: dict[str, Callable[[list[str]], Any]] = {
    "bert": _bert_tokenizer,
    "roberta": _roberta_tokenizer,
    "deberta-v2": _deberta_tokenizer,
}
