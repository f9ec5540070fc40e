"""A prompt template and the words that stand for labels, as a tokenizer reads them.

The prompt is the template with `{text}`, or `{premise}` and `{hypothesis}`, replaced; nothing else in braces is. A
label's word follows it after one space, or directly where the prompt ends with a new line.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knn_ue.errors import InvalidInputError
from knn_ue.tasks import TASKS, Task

_FIELD = re.compile(r"\{(text|premise|hypothesis)\}")
_SHOWN = 60
_MOST_TOKENS = 64  # of a word

Messages = Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class Prompt:
    """A checked template; spaces at its end are dropped, since they belong to the word that follows.

    >>> Prompt("Review: {text}\\nSentiment: ").filled(("Lovely.",))
    'Review: Lovely.\\nSentiment:'
    >>> Prompt("{premise} Therefore {hypothesis}?").task
    'text-pair'
    """

    template: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "template", self.template.rstrip(" "))
        if self._fields not in ({"text"}, {"premise", "hypothesis"}):
            raise InvalidInputError(
                "prompt must contain {text}, or {premise} and {hypothesis}, where the example goes, got "
                f"{_shown(self.template)}"
            )

    @property
    def _fields(self) -> set[str]:
        return set(_FIELD.findall(self.template))

    @property
    def task(self) -> Task:
        """What the fields of the template make it for."""
        return "text-classification" if self._fields == {"text"} else "text-pair"

    @property
    def separator(self) -> str:
        """What stands between the prompt and a label's word."""
        return "" if self.template.endswith("\n") else " "

    def filled(self, parts: Sequence[str]) -> str:
        """Return the prompt of an example; what its texts have in braces stays."""
        values = dict(zip(TASKS[self.task].input_keys, parts, strict=True))
        return _FIELD.sub(lambda found: values[found[1]], self.template)


class PromptReader:
    """Examples -> token numbers of prompts of at most `max_length`; of a longer one the longest text is cut."""

    def __init__(self, tokenizer: Any, prompt: Prompt, *, max_length: int) -> None:
        self._tokenizer, self.prompt, self.max_length = tokenizer, prompt, max_length
        begins = tokenizer.bos_token is not None and prompt.template.startswith(tokenizer.bos_token)
        self._adds_special = not begins  # as chat templates do, which write it themselves
        specials = set(tokenizer.all_special_ids)
        probe = tokenizer("a")["input_ids"]
        # A tokenizer that ends texts would leave nothing to say.
        self._n_ends = next((n for n, number in enumerate(reversed(probe)) if number not in specials), 0)
        added = [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]
        self._reserved = [token for token in {*tokenizer.all_special_tokens, *added} if len(token) > 1]
        n_own = len(self._ids(prompt.filled([""] * len(TASKS[prompt.task].input_keys))))
        if n_own >= max_length:
            raise InvalidInputError(
                f"the prompt alone has {n_own} tokens, and max_length={max_length} leaves no room for a text: shorten "
                "it, or raise max_length as far as the model allows"
            )

    def read(self, parts: Sequence[str]) -> tuple[list[int], bool]:
        """Return the token numbers of the prompt, and whether a text was cut.

        A text cannot write special tokens: a space is put into what looks like one.
        """
        texts = [self._plain(part) for part in parts]
        ids = self._ids(self.prompt.filled(texts))
        if len(ids) <= self.max_length:
            return ids, False
        ends = [self._ends_of_tokens(text) for text in texts]
        while len(ids) > self.max_length:
            longest = max(range(len(ends)), key=lambda number: len(ends[number]))
            del ends[longest][-(len(ids) - self.max_length) :]
            kept = [text[: found[-1]] if found else "" for text, found in zip(texts, ends, strict=True)]
            ids = self._ids(self.prompt.filled(kept))
        return ids, True

    def label_tokens(self, words: Mapping[str, str]) -> list[list[int]]:
        """Return the tokens with which each label's word continues the prompt; raise where labels cannot be told."""
        start = self.prompt.filled(["a"] * len(TASKS[self.prompt.task].input_keys))
        before = self._ids(start)
        tokens: dict[str, list[int]] = {}
        for name, word in words.items():
            joint = self._ids(start + self.prompt.separator + word.strip())
            if joint[: len(before)] != before or len(joint) == len(before):
                raise InvalidInputError(
                    f"the word {word!r} of the label {name!r} merges with the end of the prompt, "
                    f"{_shown(start[-20:])}: end the prompt with a colon or a new line"
                )
            tokens[name] = joint[len(before) :]
        self._check_words(words, tokens)
        return list(tokens.values())

    def _check_words(self, words: Mapping[str, str], tokens: Mapping[str, list[int]]) -> None:
        unknown = self._tokenizer.unk_token_id
        for name, own in tokens.items():
            if unknown is not None and unknown in own:
                raise InvalidInputError(
                    f"the tokenizer does not know the word {words[name]!r} of the label {name!r}: choose another word"
                )
            if len(own) > _MOST_TOKENS:
                raise InvalidInputError(
                    f"the word of the label {name!r} has {len(own)} tokens, at most {_MOST_TOKENS} are read: choose a "
                    "shorter one"
                )
            other = next((n for n, longer in tokens.items() if n != name and longer[: len(own)] == own), None)
            if other is not None:
                raise InvalidInputError(
                    f"the word {words[other]!r} of the label {other!r} begins with that of {name!r}, {words[name]!r}, "
                    "so it could never be more probable: choose words that begin differently"
                )

    def _ids(self, text: str) -> list[int]:
        # Longer than the model reads is cut above: verbose=False silences the tokenizer's warning.
        encoded = self._tokenizer(text, add_special_tokens=self._adds_special, verbose=False)
        ids: list[int] = list(encoded["input_ids"])
        return ids[: len(ids) - self._n_ends] if self._adds_special else ids

    def _ends_of_tokens(self, text: str) -> list[int]:
        encoded = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return [end for _, end in encoded["offset_mapping"]]

    def _plain(self, text: str) -> str:
        for token in self._reserved:
            text = text.replace(token, f"{token[0]} {token[1:]}")
        return text


def template_of(prompt: str | Messages, tokenizer: Any) -> str:
    """Return the template of a prompt; chat messages become what the tokenizer's chat template makes of them."""
    if isinstance(prompt, str):
        return prompt
    if getattr(tokenizer, "chat_template", None) is None:
        raise InvalidInputError(
            "the tokenizer has no chat template, so prompt must be a string, got a list of messages"
        )
    made: str = tokenizer.apply_chat_template(
        [dict(each) for each in prompt], tokenize=False, add_generation_prompt=True
    )
    return made


def label_words(labels: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """Return the word of each label; a list of labels names the words themselves.

    >>> label_words(["positive", "negative"])
    {'positive': 'positive', 'negative': 'negative'}
    """
    if isinstance(labels, str):
        raise InvalidInputError(f"labels must be a list of names, or a dict of names and words, got {labels!r}")
    given = list(labels.items()) if isinstance(labels, Mapping) else [(name, name) for name in labels]
    words = dict(given)
    for name, word in given:
        if not (isinstance(name, str) and isinstance(word, str) and name and word.strip()):
            raise InvalidInputError(f"a label and its word must be text that is not empty, got {name!r}: {word!r}")
    if len(words) < 2 or len(words) < len(given):
        raise InvalidInputError(f"labels must be at least 2 different names, got {[name for name, _ in given]}")
    return words


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}...")
