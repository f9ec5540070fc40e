"""Confidence for the entities of a spaCy pipeline: `nlp.add_pipe("knn_ue_entities")`. Needs the extra [spacy]."""

from knn_ue.errors import require

require("spacy", extra="spacy", purpose="knn_ue.spacy")

from knn_ue.encoding.registry import ENCODERS  # noqa: E402
from knn_ue.spacy import callbacks  # noqa: E402, F401  (registered with spaCy)
from knn_ue.spacy.component import EntityConfidence  # noqa: E402
from knn_ue.spacy.encoder import SpacyEncoder  # noqa: E402
from knn_ue.spacy.render import render  # noqa: E402
from knn_ue.spacy.tagger import TaggerComponent  # noqa: E402

# The entry point says the same; here for a copy of the library that was not installed.
ENCODERS.setdefault(SpacyEncoder.kind, SpacyEncoder)

__all__ = ["EntityConfidence", "TaggerComponent", "render"]
