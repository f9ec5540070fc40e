"""`CausalLMEncoder`: a language model that was never trained for the task, asked with a prompt."""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from annotated_types import Interval, Len

from knn_ue.arrays import check_positive
from knn_ue.encoding.contract import Encoder, EncoderPart
from knn_ue.encoding.forward import ViewReader
from knn_ue.encoding.inputs import Example, all_labeled, class_numbers, read_examples, windows
from knn_ue.encoding.inspection import check_layer, is_decoder_only, max_length_of
from knn_ue.encoding.loading import check_tokenizer, find_device, load_language_model, load_tokenizer, loading
from knn_ue.encoding.model_files import (
    HubModel,
    ModelSource,
    open_with_model,
    part_with_model,
)
from knn_ue.encoding.prompts import Messages, Prompt, PromptReader, label_words, template_of
from knn_ue.errors import InvalidInputError, StorageError
from knn_ue.folder import as_written, from_plain
from knn_ue.tasks import TASKS, Task
from knn_ue.types import Outputs, Step, join_columns

Arrays = dict[str, npt.NDArray[Any]]

_DEFAULT_MAX_LENGTH = 2048


_MOST_ROWS, _MOST_TOKENS = 1 << 16, 1 << 20


@dataclass(frozen=True, kw_only=True)
class PromptOptions:
    """How prompts are read.

    `layer` is the hidden state that is the feature: -1 the final one, 0 the embeddings. `max_length` counts the tokens
    of the prompt and of the longest label word; None is what the model can read, at most 2048. `views` adds what
    familiarity looks at.
    """

    layer: Annotated[int, Interval(ge=-1000, le=1000)] = -1
    max_length: Annotated[int, Interval(ge=1, le=_MOST_TOKENS)] | None = None
    batch_size: Annotated[int, Interval(ge=1, le=_MOST_ROWS)] = 16
    views: bool = True

    def __post_init__(self) -> None:
        for name, most in (("batch_size", _MOST_ROWS), ("max_length", _MOST_TOKENS)):
            value = getattr(self, name)
            if value is not None:
                check_positive(value, name)
                if value > most:
                    raise InvalidInputError(f"{name} must be at most {most}, got {value}: lower it")


@dataclass(frozen=True, kw_only=True)
class _StoredEncoder:
    """What a UE folder holds of this encoder, beside the files of the model."""

    prompt: Annotated[str, Len(1, 1 << 20)]
    words: Annotated[tuple[str, ...], Len(2, 10_000)]
    options: PromptOptions
    model: HubModel


class CausalLMEncoder(Encoder):
    """A decoder-only language model (GPT-2, Llama, ...) as a classifier: no training, only a prompt and label words.

    `model` is a folder, a name on the hub, or a model in memory with its `tokenizer`. `prompt` holds `{text}`, or
    `{premise}` and `{hypothesis}`; chat messages ({"role", "content"}) are written as the tokenizer's chat template
    says. `labels` are names that are words themselves, or a dict {label: word}.

    The logit of a label is the log probability of its word after the prompt: the logit of its token but for a constant
    that all labels share, and the sum over its tokens where it has several. The feature is the last hidden state of
    the prompt's last token. A long text is cut at its end so that the prompt stays whole, and counted in
    `n_truncated`::

        encoder = CausalLMEncoder("model", "Review: {text}\\nSentiment:", {"pos": "positive", "neg": "negative"})
        pipe = UncertaintyPipeline(encoder).fit(labeled_rows, validation_rows)
    """

    kind: ClassVar[str] = "causal-lm"
    options: PromptOptions

    def __init__(
        self,
        model: Any,
        prompt: str | Messages,
        labels: Sequence[str] | Mapping[str, str],
        *,
        tokenizer: Any = None,
        device: str = "auto",
        trust_remote_code: bool = False,
        options: PromptOptions | None = None,
    ) -> None:
        words = label_words(labels)
        self.source: ModelSource | None = None  # where the model came from; None where it was in memory
        if isinstance(model, (str, Path)):
            model, tokenizer, self.source = _load(model, device=device, trust_remote_code=trust_remote_code)
        self.model, self.tokenizer = _checked_model(model, tokenizer)
        self.prompt = Prompt(template_of(prompt, self.tokenizer))
        self.words = tuple(words.values())
        self.task: Task = self.prompt.task
        self.class_names = tuple(words)
        self.n_encoded = self.n_truncated = 0
        self._use(options or PromptOptions(), words)
        with loading(getattr(self.source, "folder", None) or type(self.model).__name__):
            self._try_out()

    def _use(self, options: PromptOptions, words: Mapping[str, str]) -> None:
        config = self.model.config.get_text_config()
        check_layer(config, options.layer)
        length = max_length_of(self.model, self.tokenizer, options.max_length or _DEFAULT_MAX_LENGTH)
        self.options = replace(options, max_length=length)
        self._tokens = PromptReader(self.tokenizer, self.prompt, max_length=length).label_tokens(words)
        room = length - max(map(len, self._tokens)) + 1
        self._reader = PromptReader(self.tokenizer, self.prompt, max_length=room)
        self._views = None
        if options.views:
            self._views = ViewReader(config.num_hidden_layers, config.hidden_size, tagging=False)
        self._accepted = frozenset(signature(self.model.forward).parameters)

    def with_options(self, **changes: Any) -> Encoder:
        """Return an encoder with the same model in memory and other options."""
        if changes.keys() - asdict(self.options).keys():
            return super().with_options(**changes)
        changed = copy.copy(self)
        changed._use(replace(self.options, **changes), dict(zip(self.class_names, self.words, strict=True)))
        return changed

    def to_part(self) -> EncoderPart:
        """Return prompt, words, options and model: the name and commit of one from the hub, else its files."""
        stored = _StoredEncoder(
            prompt=self.prompt.template,
            words=tuple(self.words),
            options=self.options,
            model=HubModel.of(self.source),
        )
        return part_with_model(self, self.source, self._write_files, stored)

    @classmethod
    def from_part(cls, part: EncoderPart, *, device: str, trust_remote_code: bool) -> Self:
        """Load the model of a UE folder after verifying its files; one from the hub must be at the same commit."""
        find_device(device)  # what the user asks for is not the folder's fault
        with as_written(Path(part.where), "pipeline"):
            stored = from_plain(_StoredEncoder, part.plain)
            labels = dict(zip(part.class_names, stored.words, strict=True))
        encoder = open_with_model(
            part,
            stored.model,
            lambda model: cls(
                model,
                stored.prompt,
                labels,
                device=device,
                trust_remote_code=trust_remote_code,
                options=stored.options,
            ),
        )
        if encoder.task != part.task:
            raise StorageError(f"{part.where} has a prompt for {encoder.task}, not {part.task}: restore a backup")
        return encoder

    def encode(self, rows: Iterable[object], *, with_labels: bool = True, progress: Step | None = None) -> Outputs:
        """Encode examples, or rows of any shape that `inputs` reads; the contract says the rest."""
        total = len(rows) if isinstance(rows, Sequence) else None
        columns: dict[str, list[Any]] = {}
        labeled: bool | None = None
        start = 0
        for examples in windows(read_examples(rows, self.task), batch_size=self.options.batch_size):
            shown = [example.parts for example in examples]
            part: dict[str, Any] = (
                {"pairs": shown} if TASKS[self.task].is_pair else {"texts": [text for (text,) in shown]}
            )
            if with_labels:
                labeled = all_labeled(examples, start=start, expected=labeled)
                if labeled:
                    part["labels"] = class_numbers(examples, self.class_names, start=start)
            arrays = self._empty_arrays(len(examples))
            for done in self._fill(arrays, examples):
                if progress is not None:
                    progress(start + done, total)
            start += len(examples)
            for name, values in (part | arrays).items():
                columns.setdefault(name, []).append(values)
        if not columns:
            columns = {name: [values] for name, values in self._empty_arrays(0).items()}
        return join_columns(columns, class_names=self.class_names)

    def _fill(self, arrays: Arrays, examples: Sequence[Example]) -> Iterator[int]:
        """Write what the model says into the rows of the arrays; yield how many are done, all at the end."""
        read = [self._reader.read(example.parts) for example in examples]
        self.n_encoded += len(examples)
        self.n_truncated += sum(cut for _, cut in read)
        order = sorted(range(len(read)), key=lambda row: len(read[row][0]), reverse=True)
        for start in range(0, len(order), self.options.batch_size):
            rows = order[start : start + self.options.batch_size]
            for name, values in self._run([read[row][0] for row in rows]).items():
                arrays[name][rows] = values
            yield min(start + self.options.batch_size, len(order))

    def _run(self, prompts: Sequence[Sequence[int]]) -> Arrays:
        """Run the model on prompts, padded on the left so that all end in the last column."""
        import torch

        longest = max(map(len, prompts))
        ids = np.zeros((len(prompts), longest), dtype=np.int64)  # which token pads does not matter: it is masked
        mask = np.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            ids[row, longest - len(prompt) :] = prompt
            mask[row, longest - len(prompt) :] = 1
        device = next(self.model.parameters()).device
        seen = torch.from_numpy(mask).to(device)
        self.model.eval()
        several = any(len(tokens) > 1 for tokens in self._tokens)
        with torch.inference_mode():
            result = self._call(torch.from_numpy(ids).to(device), seen, 1, output_hidden_states=True, use_cache=several)
            logits = self._word_logits(result, seen)
            last = torch.full((len(prompts),), longest - 1, device=device)
            which = torch.arange(len(prompts), device=device)
            hidden = result.hidden_states
            arrays = {"features": hidden[self.options.layer][:, -1].float(), "logits": logits}
            if self._views is not None:
                arrays["views"] = self._views.read(hidden, seen, which, last)
        return {name: values.cpu().numpy() for name, values in arrays.items()}

    def _word_logits(self, result: Any, seen: Any) -> Any:
        """Return the log probability of each label's word after the prompts, the sum over its tokens."""
        import torch

        first = result.logits[:, -1].float().log_softmax(dim=-1)
        columns = []
        for tokens in self._tokens:
            logit = first[:, tokens[0]]
            if len(tokens) > 1:
                told = torch.tensor([tokens[:-1]] * len(seen), device=seen.device)
                more = torch.cat([seen, torch.ones_like(told)], dim=1)
                # A call writes into the cache, and the next word needs it as it was.
                cache = copy.deepcopy(result.past_key_values)
                rest = self._call(told, more, len(tokens) - 1, past_key_values=cache, use_cache=True).logits
                wanted = torch.tensor(tokens[1:], device=seen.device).expand(len(seen), -1)[:, :, None]
                probs = rest[:, -len(tokens) + 1 :].float().log_softmax(dim=-1)
                logit = logit + probs.gather(2, wanted)[:, :, 0].sum(dim=1)
            columns.append(logit)
        return torch.stack(columns, dim=1)

    def _call(self, ids: Any, seen: Any, n_logits: int, **extra: Any) -> Any:
        """Call the model on the last columns of what is `seen`; logits of more than the last ones would be huge."""
        positions = (seen.cumsum(dim=1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        optional = {"attention_mask": seen, "position_ids": positions, "logits_to_keep": n_logits}
        return self.model(input_ids=ids, **{k: v for k, v in optional.items() if k in self._accepted}, **extra)

    def _empty_arrays(self, n_rows: int) -> Arrays:
        width = self.model.config.get_text_config().hidden_size
        arrays: Arrays = {
            "logits": np.zeros((n_rows, len(self.class_names)), dtype=np.float32),
            "features": np.zeros((n_rows, width), dtype=np.float32),
        }
        if self._views is not None:
            arrays["views"] = np.zeros((n_rows, *self._views.shape), dtype=np.float16)
        return arrays

    def _try_out(self) -> None:
        ids, _ = self._reader.read(["a"] * len(TASKS[self.task].input_keys))
        if not all(np.isfinite(values).all() for values in self._run([ids]).values()):
            raise ValueError("it gives no finite numbers")

    def _write_files(self, folder: Path) -> None:
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def _load(path: str | Path, *, device: str, trust_remote_code: bool) -> tuple[Any, Any, ModelSource]:
    place = find_device(device)
    source = ModelSource.of(path)
    path = source.folder or path
    tokenizer = load_tokenizer(path, "text-classification", trust_remote_code=trust_remote_code)
    model = load_language_model(path, trust_remote_code=trust_remote_code)
    if source.name is not None:
        source = replace(source, commit=getattr(model.config, "_commit_hash", None))
    return model.to(place), tokenizer, source


def _checked_model(model: Any, tokenizer: Any) -> tuple[Any, Any]:
    """Return model and tokenizer, also of a `transformers.pipeline(...)`; raise unless it is a language model."""
    if tokenizer is None:
        tokenizer = getattr(model, "tokenizer", None)
        model = getattr(model, "model", model) if tokenizer is not None else model
    name = type(model).__name__
    if tokenizer is None:
        raise InvalidInputError(f"{name} needs its tokenizer: pass tokenizer=...")
    if not is_decoder_only(model.config) or model.get_output_embeddings() is None:
        raise InvalidInputError(
            f"{name} is not a decoder-only language model, so it cannot be prompted: use one such as GPT-2 or Llama, "
            "loaded with AutoModelForCausalLM"
        )
    return model.eval(), check_tokenizer(tokenizer, name)
