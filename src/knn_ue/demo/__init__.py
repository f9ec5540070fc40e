"""The whole program, end to end: on real texts, on recorded answers of a language model, on arrays."""

from knn_ue.demo.answers_demo import AnswersDemo, run_answers_demo
from knn_ue.demo.text_demo import TextDemo, run_text_demo
from knn_ue.demo.toy_demo import Demo, run_demo

__all__ = ["AnswersDemo", "Demo", "TextDemo", "run_answers_demo", "run_demo", "run_text_demo"]
