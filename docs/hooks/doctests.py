"""An extension of griffe: doctests of a docstring become code blocks."""

import re
from typing import Any

from griffe import Extension, Object

_DOCTEST = re.compile(r"(?:^>>> .*(?:\n(?!\n).*)*\n?)+", re.MULTILINE)


class DoctestFences(Extension):
    """Fences every run of lines from `>>>` to the next blank line."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Change the docstring of one object."""
        if obj.docstring and ">>>" in obj.docstring.value and "```" not in obj.docstring.value:
            obj.docstring.value = _DOCTEST.sub(
                lambda found: f"\n```pycon\n{found[0].rstrip()}\n```\n", obj.docstring.value
            )
