"""A recognizer for Presidio whose scores are calibrated, in place of the constant 0.85. Needs the extra [presidio]."""

from collections.abc import Mapping, Sequence
from typing import Any

from knn_ue.errors import InvalidInputError, require

require("presidio_analyzer", extra="presidio", purpose="knn_ue.spacy.presidio")

from presidio_analyzer import AnalysisExplanation, EntityRecognizer, RecognizerResult  # noqa: E402
from presidio_analyzer.nlp_engine import NlpArtifacts, SpacyNlpEngine  # noqa: E402

NAME = "CalibratedSpacyRecognizer"
PRESIDIO_TYPES = {
    "PERSON": "PERSON",
    "PER": "PERSON",
    "LOC": "LOCATION",
    "GPE": "LOCATION",
    "FAC": "LOCATION",
    "ORG": "ORGANIZATION",
    "NORP": "NRP",
    "DATE": "DATE_TIME",
    "TIME": "DATE_TIME",
}


class CalibratedSpacyRecognizer(EntityRecognizer):
    """Hands the entities of a spaCy pipeline with `knn_ue_entities` to Presidio, with their confidence as the score.

    `types` says what Presidio calls a type of the pipeline. An entity without a confidence, because its type was in no
    labeled data, gets `unscored`; None leaves it out.
    """

    def __init__(
        self,
        nlp: Any,
        *,
        types: Mapping[str, str] = PRESIDIO_TYPES,
        confidence: str = "confidence",
        unscored: float | None = None,
        language: str = "en",
    ) -> None:
        if unscored is not None and not 0 <= unscored <= 1:
            raise InvalidInputError(f"unscored must be None or between 0 and 1, got {unscored}: choose another")
        self.nlp = nlp
        self.types = dict(types)
        self.confidence = confidence
        self.unscored = unscored
        super().__init__(
            supported_entities=sorted(set(self.types.values())),
            supported_language=language,
            name=NAME,
        )

    def load(self) -> None:
        """Do nothing: the pipeline is loaded."""

    def analyze(
        self, text: str, entities: Sequence[str], nlp_artifacts: NlpArtifacts | None = None
    ) -> list[RecognizerResult]:
        """Return the entities of the wanted types; the pipeline reads the text unless Presidio just had it read."""
        read: Any = None if nlp_artifacts is None else nlp_artifacts.tokens
        # Presidio's engine may run another pipeline, whose docs have no confidence.
        ours = read is not None and getattr(read, "vocab", None) is self.nlp.vocab and read.text == text
        found = []
        for ent in (read if ours else self.nlp(text)).ents:
            kind = self.types.get(ent.label_)
            score = ent._.get(self.confidence)
            score = self.unscored if score is None else score
            if kind is None or score is None or (entities and kind not in entities):
                continue
            reasons = "; ".join([*(ent._.get("raised_by") or ()), *(ent._.get("lowered_by") or ())])
            why = AnalysisExplanation(recognizer=NAME, original_score=score, textual_explanation=reasons)
            found.append(
                RecognizerResult(
                    entity_type=kind, start=ent.start_char, end=ent.end_char, score=score, analysis_explanation=why
                )
            )
        return found


def calibrated_analyzer(nlp: Any, **options: Any) -> Any:
    """Return Presidio's `AnalyzerEngine` with its usual recognizers, but for spaCy's, which ours replaces."""
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry

    recognizer = CalibratedSpacyRecognizer(nlp, **options)
    language = recognizer.supported_language
    engine: Any = SpacyNlpEngine(models=[{"lang_code": language, "model_name": nlp.meta["name"]}])
    engine.nlp = {language: nlp}
    registry = RecognizerRegistry(supported_languages=[language])
    registry.load_predefined_recognizers(languages=[language], nlp_engine=engine)
    registry.remove_recognizer("SpacyRecognizer")
    registry.add_recognizer(recognizer)
    return AnalyzerEngine(registry=registry, nlp_engine=engine, supported_languages=[language])
