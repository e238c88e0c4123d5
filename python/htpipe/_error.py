"""The one exception of the package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """Where an error happened. Empty fields (and line 0) are unknown."""

    file: str = ""
    line: int = 0
    node: str = ""
    pass_name: str = ""
    target: str = ""

    def __str__(self) -> str:
        parts = [f"{self.file}:{self.line}" if self.line else self.file]
        parts += [
            f"{word} {value}"
            for word, value in (("node", self.node), ("pass", self.pass_name), ("target", self.target))
            if value
        ]
        return ", ".join(part for part in parts if part)


class Error(Exception):
    """A failure with a stable code.

    Attributes:
        code: word of the table in docs/errors.md, for instance "unsupported-op"; `htpipe explain CODE` tells more.
        message: what happened.
        place: file, line, node, pass and target, as far as they are known.
        notes: more about it, innermost first.
        hint: the next step.
    """

    def __init__(
        self,
        code: str,
        message: str,
        place: Place | Mapping[str, object] | None = None,
        notes: Sequence[str] = (),
        hint: str = "",
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.place = place if isinstance(place, Place) else _place(place or {})
        self.notes = list(notes)
        self.hint = hint or _table_hint(code)

    def __str__(self) -> str:
        place = str(self.place)
        lines = [f"{self.code}: {self.message}" + (f" ({place})" if place else "")]
        lines += [f"  {note}" for note in self.notes]
        if self.hint:
            lines.append(f"  next: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[type[Error], tuple[object, ...]]:
        return Error, (self.code, self.message, self.place, self.notes, self.hint)


def _table_hint(code: str) -> str:
    """The next step of the table of errors."""
    from htpipe import _core

    return _core.error_hints().get(code, "")


def _place(fields: Mapping[str, object]) -> Place:
    return Place(
        file=str(fields.get("file", "")),
        line=int(str(fields.get("line", 0))),
        node=str(fields.get("node", "")),
        pass_name=str(fields.get("pass", "")),
        target=str(fields.get("target", "")),
    )
