"""What clients send and get, as OpenAPI shows it; what they get is `knn_ue.answers`, read by pydantic as it is."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from knn_ue.answers import Answer, AnyAnswer, SentenceAnswer
from knn_ue.arrays import MAX_CLASSES
from knn_ue.serving.options import MOST_ITEMS
from knn_ue.serving.problems import TOO_MANY
from knn_ue.serving.work import explaining
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


_Domain = Annotated[str | None, Field(max_length=64, description="The domain whose scores to give.")]
_Weight = Annotated[
    float | None, Field(gt=0, allow_inf_nan=False, description="What the label counts, where rows were drawn unevenly.")
]


class _MayBeAnswered(_Sent):
    """An input with what another model answered, for folders that judge given answers."""

    domain: _Domain = None
    answer: str | list[Any] | dict[str, Any] | None = Field(
        None, description="What another model answered, of a text to tag its entities; null where it said nothing."
    )
    confidence: float | None = Field(None, ge=0, le=1, allow_inf_nan=False, description="How sure it said it was.")
    logprob: float | None = Field(None, le=0, allow_inf_nan=False, description="The log-probability of the answer.")
    probabilities: dict[str, float] | None = Field(None, description="Its probability of each label.")
    samples: list[str] | None = Field(None, description="What it answered when it was asked several times.")


class TextInput(_MayBeAnswered):
    """One text."""

    text: str


class PairInput(_MayBeAnswered):
    """Two texts, for models that judge how the second follows from the first."""

    premise: str
    hypothesis: str


class TokensInput(_Sent):
    """The words of one sentence, for taggers."""

    tokens: _Words
    domain: _Domain = None
    answer: list[Any] | dict[str, Any] | str | None = Field(
        None, description="The entities that another model marked, for folders that judge those."
    )


class TextExample(TextInput):
    """A text and its right label."""

    label: str
    sample_weight: _Weight = None


class PairExample(PairInput):
    """A pair and its right label."""

    label: str
    sample_weight: _Weight = None


class TokensExample(TokensInput):
    """A sentence and the right tag of each word."""

    tags: _Words
    sample_weight: _Weight = None


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
    top_k: int | None = Field(None, ge=1, le=MAX_CLASSES, description="Also give the probabilities of so many labels.")
    abstain_below: float | None = Field(
        None, ge=0, le=1, allow_inf_nan=False, description="Abstain below this score; default: the fitted threshold."
    )
    domain: _Domain = None


class PredictRequest(_Asked):
    """What to answer."""


class ExplainRequest(_Asked):
    """What to explain."""


class ExamplesRequest(_Sent):
    """Labeled examples to learn from."""

    examples: Annotated[list[Example], Field(min_length=1, fail_fast=True), _FewItems]
    labels_of: str | None = Field(
        None, max_length=64, description="Count them also as labels of this domain, if they are a random sample of it."
    )
    random_sample: bool = Field(
        False, description="Whether they are a random sample. Corrections are not: they are mostly the errors."
    )


class AdaptRequest(_Sent):
    """Labeled examples of a domain for which the scores shall be calibrated."""

    examples: Annotated[list[Example], Field(min_length=1, fail_fast=True), _FewItems]
    domain: str = Field("default", min_length=1, max_length=64)
    random_sample: bool = Field(True, description="Where they are not, they are measured only.")
    add: bool = Field(False, description="Keep the labels that the domain has, and add these.")
    force: bool = Field(False, description="Apply the scale whatever speaks against it.")


class SampleRequest(_Sent):
    """How many inputs to label."""

    n: int = Field(50, ge=1, le=500)


class SampleResponse(BaseModel):
    """Inputs to label, drawn at random: from a file of the operator, or from the last inputs of all clients."""

    inputs: list[dict[str, Any]]
    source: Literal["file", "recent"]
    n_pool: int


class AdaptResponse(BaseModel):
    """What the labels led to, cross-validated: `units` are of rows, entities and sentences."""

    domain: str
    applied: bool
    kept: bool = Field(description="Whether the labels are kept; not where they are no random sample.")
    message: str
    doubts: list[str] = Field(description="What speaks against it, in words.")
    n_rows: int
    random_sample: bool
    familiarity: float | None = Field(description="Mean p-value of the labeled inputs; about one half in domain.")
    units: dict[str, dict[str, Any]]
    before: dict[str, list[float]] | None = Field(description="Confidence, accuracy and count of each bin.")
    after: dict[str, list[float]] | None


class ForgotResponse(BaseModel):
    """The domain that was forgotten, and those that are left."""

    forgot: str
    domains: list[str]


class PoolInfo(BaseModel):
    """Where inputs to label come from, and how many there are."""

    source: Literal["file", "recent", "none"]
    n: int


class PredictResponse(BaseModel):
    """One answer for each input, in order."""

    answers: list[Answer] | list[SentenceAnswer]
    generation: str


@dataclass(frozen=True, kw_only=True)
class Why(explaining.Why):
    """Why one text, or one word, has the score it has, in numbers and in sentences."""

    in_words: dict[str, str]


class Explained(BaseModel):
    """An answer and the reasons: one for a text or pair, one per word for a sentence."""

    answer: AnyAnswer
    why: list[Why]
    familiarity_in_words: str | None


class ExplainResponse(BaseModel):
    """One explanation for each input, in order."""

    explanations: list[Explained]
    note: str | None
    generation: str


class AddedResponse(BaseModel):
    """The ids of each example, one per word in tagging. They are on disk."""

    ids: list[list[int]]
    n_stored: int
    labels: AdaptResponse | None = Field(None, description="What they led to as labels of a domain, if asked.")


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
    n_fitted: int = Field(description="Validation rows the method is fitted on; the others are held out for decisions.")
    max_length: int | None = Field(description="Tokens; what is longer is cut.")
    threshold: float | None
    promise: str | None = Field(description="What the threshold keeps, in words.")
    promises: list[str] = Field(description="What each decision promises, or why it cannot, in one sentence each.")
    note: str | None = Field(description="What this method cannot show, in words.")
    samples: list[str] | list[list[str]] = Field(description="Inputs to try.")
    judges_answers: bool = Field(description="Whether an input needs the `answer` that another model gave.")
    splits_texts: bool = Field(description="Whether the model splits texts to tag with a tokenizer of its own.")
    domains: list[str] = Field(description="Domains beside the general one.")
    pool: PoolInfo
    read_only: bool
    limits: Limits
    reload_error: str | None = Field(description="Why the folder on disk did not take over.")
