"""What clients send and get, as OpenAPI shows it."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from knn_ue.serving.options import MOST_ITEMS

TOP = 5
MAX_TOP = 100
TOO_MANY = "too_many"
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


class Neighbor(BaseModel):
    """A training example near the input."""

    id: int
    label: str
    distance: float
    text: str | None
    agrees: bool


class Answer(BaseModel):
    """The answer to a text or pair; `label` is null where the model abstains, and `would_be` says what it was."""

    label: str | None
    score: float
    raw_score: float
    abstained: bool
    would_be: str | None = None
    neighbors: list[Neighbor]


class Word(BaseModel):
    """A word and its tag."""

    word: str
    tag: str | None
    score: float
    raw_score: float
    abstained: bool
    would_be: str | None = None


class Entity(BaseModel):
    """An entity: the words from `start` up to, not including, `end`.

    With the method knn-ue-entity `score` is the probability that its type and span are right, and `raised_by` and
    `lowered_by` say why; with any other one it is the product over its words, and they are left out.
    """

    type: str | None
    text: str
    start: int
    end: int
    score: float
    raw_score: float
    abstained: bool
    would_be: str | None = None
    raised_by: list[str] | None = None
    lowered_by: list[str] | None = None
    neighbors: list[Neighbor]


class Missed(BaseModel):
    """Words from `start` up to, not including, `end` that may hide an entity the model missed, and how likely."""

    type: str
    text: str
    start: int
    end: int
    score: float


class TaggedAnswer(BaseModel):
    """The answer to a sentence; `score`, `none_missed` and `missed` are there with the method knn-ue-entity only.

    `score` is the probability that all entities are right and none is missed, `none_missed` that of the latter.
    """

    words: list[Word]
    entities: list[Entity]
    score: float | None = None
    none_missed: float | None = None
    missed: list[Missed] | None = None


class PredictResponse(BaseModel):
    """One answer for each input, in order."""

    answers: list[Answer] | list[TaggedAnswer]
    generation: str


class ClassScore(BaseModel):
    """A class, as sure as the model and the calibrated answer are of it."""

    label: str
    score: float
    raw_score: float


class MapPoint(BaseModel):
    """A neighbor on the map."""

    id: int
    label: str
    agrees: bool
    x: float
    y: float


class Map(BaseModel):
    """The input, at (x, y), and its neighbors in the plane that shows most of how they differ."""

    x: float
    y: float
    points: list[MapPoint]
    shown: float = Field(description="Share of the differences that the plane shows.")


class Why(BaseModel):
    """Why one text, or one word, is as sure as it is. Terms are null where the method has none."""

    predicted: str
    text: str | None
    score: float
    raw_score: float
    classes: list[ClassScore]
    weight: float | None
    distance_term: float | None
    label_term: float | None
    usual_distance_term: float | None
    usual_label_term: float | None
    n_agreeing: int | None
    n_neighbors: int
    raised_by: list[str]
    lowered_by: list[str]
    neighbors: list[Neighbor]
    map: Map | None


class Explained(BaseModel):
    """An answer and the reasons: one for a text or pair, one a word for a sentence."""

    answer: Answer | TaggedAnswer
    why: list[Why]


class ExplainResponse(BaseModel):
    """One explanation for each input, in order."""

    explanations: list[Explained]
    note: str | None
    generation: str


class AddedResponse(BaseModel):
    """The ids of each example, one a word in tagging. They are on disk."""

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


class Error(BaseModel):
    """What went wrong: a sentence for people, a code for programs."""

    error: str
    code: str
