"""Files of text, written on the spot."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

WriteFile = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> WriteFile:
    """Write a file, compressed where its name ends in .gz and the content is text."""

    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        if isinstance(content, str):
            content = content.encode("utf-8")
            content = gzip.compress(content) if name.endswith(".gz") else content
        path.write_bytes(content)
        return path

    return write_file
