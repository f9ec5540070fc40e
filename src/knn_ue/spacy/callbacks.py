"""What a training config calls: `knn_ue.fit_entities.v1` fits the component on the recognizer as it is saved."""

from collections.abc import Callable

from spacy.language import Language
from spacy.util import registry

from knn_ue.errors import InvalidInputError
from knn_ue.spacy.component import FACTORY, EntityConfidence
from knn_ue.spacy.gold import read_examples


def fit_entities(
    train: str, validation: str | None = None, component: str = FACTORY, seed: int = 0
) -> Callable[[Language], Language]:
    """Return a callback for [training.before_to_disk]: it fits `component` on labeled files before each save.

    The files should hold texts that the recognizer is not trained on. Without `validation` they are split in halves.
    """

    def fit(nlp: Language) -> Language:
        found = nlp.get_pipe(component) if component in nlp.component_names else None
        if not isinstance(found, EntityConfidence):
            raise InvalidInputError(
                f"knn_ue.fit_entities.v1 needs the component {component!r} in the pipeline, which has "
                f"{', '.join(nlp.component_names) or 'none'}: add {FACTORY} to [nlp] pipeline"
            )
        held_out = None if validation is None else read_examples(nlp, validation)
        found.fit(read_examples(nlp, train), held_out, seed=seed)
        return nlp

    return fit


registry.callbacks("knn_ue.fit_entities.v1", func=fit_entities)
