"""The whole program, end to end: `run_text_demo` on real texts, `run_demo` on arrays with a known answer."""

from knn_ue.demo.text_demo import TextDemo, run_text_demo
from knn_ue.demo.toy_demo import Demo, run_demo

__all__ = ["Demo", "TextDemo", "run_demo", "run_text_demo"]
