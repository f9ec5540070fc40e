"""How the help of a command looks, where the newer versions of typer add what nobody has to type."""

from typing import Any

from typer.core import TyperCommand, TyperGroup

_BRACES = str.maketrans("", "", "{}")


class _PlainHelp:
    """Shows a flag without a type (`--json`, not `--json <bool>`) and an argument without braces (`UE`, not `{UE}`)."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters; a flag has an empty metavar, because it takes no value."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""
        return params

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line."""
        return [piece.translate(_BRACES) for piece in super().collect_usage_pieces(ctx)]  # type: ignore[misc]


class PlainCommand(_PlainHelp, TyperCommand):
    """A command with this help."""


class PlainGroup(_PlainHelp, TyperGroup):
    """A group of commands with this help."""
