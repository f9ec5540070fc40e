"""Tiny classifiers of three families and two decoders: random weights, a vocabulary made of the toy rows, no download.

Import `tiny_model` and `one_thread` in a conftest to have the fixtures; the functions work without pytest.
"""

import json
import os
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before anything imports the hub: a test must not wait for a network

FAMILIES = ("bert", "roberta", "deberta-v2")
DECODERS = ("gpt2", "llama")  # GPT-2 writes no special tokens, Llama one in front
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

    from knn_ue.encoding.loading import quiet

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


def save_tiny_decoder(
    folder: Path, *, family: str, task: str = "text-classification", padding_side: str = "right", seed: int = 0
) -> Path:
    """Write a decoder-only model; as is common, the token that ends a text also pads.

    `task` is that of a classifier, or "language-model".
    """
    import torch
    from transformers import (
        AutoConfig,
        AutoModelForCausalLM,
        AutoModelForSequenceClassification,
        AutoModelForTokenClassification,
    )

    from knn_ue.encoding.loading import quiet

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _decoder_tokenizer(_words(), begin=family == "llama")
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "</s>"}
    settings |= {"tokenizer_class": "PreTrainedTokenizerFast", "padding_side": padding_side}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    names = CLASS_NAMES.get(task, ("LABEL_0", "LABEL_1"))
    config = AutoConfig.for_model(
        family,
        vocab_size=int(tokenizer.get_vocab_size()),
        hidden_size=HIDDEN_SIZE,
        num_hidden_layers=N_LAYERS,
        num_attention_heads=2,
        max_position_embeddings=MAX_LENGTH,
        initializer_range=0.3,
        bos_token_id=0,
        eos_token_id=2,
        pad_token_id=2,
        id2label=dict(enumerate(names)),
        label2id={name: number for number, name in enumerate(names)},
        **({"intermediate_size": 40, "num_key_value_heads": 2} if family == "llama" else {}),
    )
    auto = {"language-model": AutoModelForCausalLM, "token-classification": AutoModelForTokenClassification}.get(
        task, AutoModelForSequenceClassification
    )
    with torch.random.fork_rng(), quiet():
        torch.manual_seed(seed)
        auto.from_config(config).save_pretrained(folder)
    return folder


def save_tokenizer(folder: Path, family: str) -> int:
    """Make a small tokenizer as the family uses it, write its files, and return the size of its vocabulary."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _TOKENIZERS[family](_words())
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


# For the session: a model trained by a fixture of a module would otherwise come before it.
@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Let torch use one thread, as several processes of pytest share the cores."""
    if find_spec("torch") is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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


def _words() -> list[str]:
    lines = [row["text"] for row in text_rows(40)]
    lines += [f"{row['premise']} {row['hypothesis']}" for row in pair_rows(40)]
    lines += [" ".join(row["tokens"]) for row in tagged_rows(40)]
    return sorted({word for line in lines for word in line.split()})


# The vocabularies are made here, not trained: the trainers of the tokenizers library number equally frequent pieces
# differently in each process, and then a seed does not decide what a tiny model learns.
def _pieces(words: list[str]) -> tuple[list[str], list[str]]:
    """Return how words begin and how they go on: long words have two pieces, numbers one a digit."""
    spelled = [word for word in words if word.isalpha()]
    letters = sorted(set("".join(words)))
    begin = [*letters, *sorted({word[:4] if len(word) > 5 else word for word in spelled} - set(letters))]
    return begin, [*letters, *sorted({word[4:] for word in spelled if len(word) > 5} - set(letters))]


def _bert_tokenizer(words: list[str]) -> Any:
    from tokenizers import BertWordPieceTokenizer
    from tokenizers.processors import BertProcessing

    begin, go_on = _pieces(words)
    pieces = [*("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), *begin, *(f"##{piece}" for piece in go_on)]
    tokenizer = BertWordPieceTokenizer({piece: number for number, piece in enumerate(pieces)}, lowercase=False)
    tokenizer.post_processor = BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def _roberta_tokenizer(words: list[str]) -> Any:
    from tokenizers.processors import RobertaProcessing

    tokenizer = _byte_tokenizer(words)
    tokenizer.post_processor = RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def _decoder_tokenizer(words: list[str], *, begin: bool) -> Any:
    from tokenizers.processors import TemplateProcessing

    tokenizer = _byte_tokenizer(words)
    if begin:
        tokenizer.post_processor = TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 0)]
        )
    return tokenizer


def _byte_tokenizer(words: list[str]) -> Any:
    from tokenizers import AddedToken, ByteLevelBPETokenizer
    from tokenizers.pre_tokenizers import ByteLevel

    begin, go_on = _pieces(words)
    grown = [f"Ġ{piece}" for piece in begin] + go_on
    merges = list(dict.fromkeys((piece[:end], piece[end]) for piece in grown for end in range(1, len(piece))))
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    pieces = dict.fromkeys([*special, *sorted(ByteLevel.alphabet()), *map("".join, merges)])
    tokenizer = ByteLevelBPETokenizer({piece: number for number, piece in enumerate(pieces)}, merges)
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in special])
    return tokenizer


def _deberta_tokenizer(words: list[str]) -> Any:
    from tokenizers import AddedToken, SentencePieceUnigramTokenizer
    from tokenizers.models import Unigram
    from tokenizers.processors import BertProcessing

    begin, go_on = _pieces(words)
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    pieces = dict.fromkeys(["▁", *(f"▁{piece}" for piece in begin), *go_on])
    # Equal scores: what has fewest pieces wins. transformers finds the unknown token by its score of 0.
    scored = [(name, 0.0) for name in special] + [(piece, -5.0) for piece in pieces]
    tokenizer = SentencePieceUnigramTokenizer()
    tokenizer.model = Unigram(scored, unk_id=3, byte_fallback=False)
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in special])
    tokenizer.post_processor = BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return tokenizer


_TOKENIZERS: dict[str, Callable[[list[str]], Any]] = {
    "bert": _bert_tokenizer,
    "roberta": _roberta_tokenizer,
    "deberta-v2": _deberta_tokenizer,
}
