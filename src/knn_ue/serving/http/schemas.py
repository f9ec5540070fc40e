"""What clients send and get, as OpenAPI shows it; what they get is `knn_ue.answers`, read by pydantic as it is."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from knn_ue.answers import Answer, AnyAnswer, SentenceAnswer
from knn_ue.serving.options import MOST_ITEMS
from knn_ue.serving.problems import TOO_MANY
from knn_ue.serving.work.explaining import Why
from knn_ue.tasks import Task

TOP = 5
MAX_TOP = 100
_MOST_WORDS = 100_000
_MOST_KEYS = 16


def _check_few(value: Any, most: int, kind: type[list[Any]] | type[dict[str, Any]]) -> Any:
    """Refuse what is too long before each part of it is looked at: that would keep everyone else waiting."""
    if isinstance(value, kind) and len(value) > most:
        raise PydanticCustomError(TOO_MANY, "may hold {most} at a time, got {n}", {"most": most, "n": len(value)})
    return value


_FewItems = BeforeValidator(lambda value: _check_few(value, MOST_ITEMS, list))
_FewWords = BeforeValidator(lambda value: _check_few(value, _MOST_WORDS, list))
_Words = Annotated[list[str], Field(min_length=1, fail_fast=True), _FewWords]


class _Sent(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _few_keys(cls, value: Any) -> Any:
        return _check_few(value, _MOST_KEYS, dict)


class TextInput(_Sent):
    """One text."""

    text: str


class PairInput(_Sent):
    """Two texts, for models that judge how the second follows from the first."""

    premise: str
    hypothesis: str


class TokensInput(_Sent):
    """The words of one sentence, for taggers."""

    tokens: _Words


class TextExample(TextInput):
    """A text and its right label."""

    label: str


class PairExample(PairInput):
    """A pair and its right label."""

    label: str


class TokensExample(TokensInput):
    """A sentence and the right tag of each word."""

    tags: _Words


def _shape(value: Any) -> str:
    if isinstance(value, str):
        return "#plain"
    keys = value.keys() if isinstance(value, dict) else vars(value).keys() if isinstance(value, BaseModel) else ()
    if "premise" in keys or "hypothesis" in keys:
        return "#pair"
    return "#tokens" if "tokens" in keys or "tags" in keys else "#text"


def _number(value: Any) -> str:
    return "#many" if isinstance(value, list) else "#one"


Input = Annotated[
    Annotated[str, Tag("#plain")]
    | Annotated[TextInput, Tag("#text")]
    | Annotated[PairInput, Tag("#pair")]
    | Annotated[TokensInput, Tag("#tokens")],
    Discriminator(_shape),
]
Inputs = Annotated[
    Annotated[Input, Tag("#one")]
    | Annotated[list[Input], Field(min_length=1, fail_fast=True), _FewItems, Tag("#many")],
    Discriminator(_number),
]
Example = Annotated[
    Annotated[TextExample, Tag("#text")]
    | Annotated[PairExample, Tag("#pair")]
    | Annotated[TokensExample, Tag("#tokens")],
    Discriminator(_shape),
]


class _Asked(_Sent):
    inputs: Inputs = Field(
        description="One or a list: a string, or an object with text, with premise and hypothesis, or with tokens.",
        examples=["a warm and funny film"],
    )
    top: int = Field(TOP, ge=0, le=MAX_TOP, description="How many of the nearest training examples to give with each.")
    abstain_below: float | None = Field(
        None, ge=0, le=1, allow_inf_nan=False, description="Abstain below this score; default: the fitted threshold."
    )


class PredictRequest(_Asked):
    """What to answer."""


class ExplainRequest(_Asked):
    """What to explain."""


class ExamplesRequest(_Sent):
    """Labelled examples to learn from."""

    examples: Annotated[list[Example], Field(min_length=1, fail_fast=True), _FewItems]


class PredictResponse(BaseModel):
    """One answer for each input, in order."""

    answers: list[Answer] | list[SentenceAnswer]
    generation: str


class Explained(BaseModel):
    """An answer and the reasons: one for a text or pair, one per word for a sentence."""

    answer: AnyAnswer
    why: list[Why]


class ExplainResponse(BaseModel):
    """One explanation for each input, in order."""

    explanations: list[Explained]
    note: str | None
    generation: str


class AddedResponse(BaseModel):
    """The ids of each example, one per word in tagging. They are on disk."""

    ids: list[list[int]]
    n_stored: int


class RemovedResponse(BaseModel):
    """What was removed, on disk."""

    removed: int
    n_stored: int


class ChangedResponse(BaseModel):
    """What a refit or reload led to."""

    changed: bool
    generation: str
    threshold: float | None
    message: str


class Alive(BaseModel):
    """The process answers."""

    status: Literal["alive"]


class Ready(BaseModel):
    """Requests are welcome."""

    status: Literal["ready"]
    generation: str


class Limits(BaseModel):
    """What one request may hold, and how many inputs may wait, for how many seconds."""

    max_items: int
    max_characters: int
    max_request_characters: int
    max_body_bytes: int
    max_queue: int
    max_wait: float


class Info(BaseModel):
    """The model, the method, the datastore and the limits; null is what this method does not have."""

    library: str
    folder: str
    generation: str
    loaded_at: float = Field(description="Seconds since 1970.")
    task: Task
    method: str
    labels: list[str]
    n_stored: int | None
    n_neighbors: int | None
    n_validation: int
    max_length: int | None = Field(description="Tokens; what is longer is cut.")
    threshold: float | None
    promise: str | None = Field(description="What the threshold keeps, in words.")
    note: str | None = Field(description="What this method cannot show, in words.")
    samples: list[str] | list[list[str]] = Field(description="Inputs to try.")
    read_only: bool
    limits: Limits
    reload_error: str | None = Field(description="Why the folder on disk did not take over.")
