"""Finds sums of a template in which what is built up step by step may come twice.

`ns.d + ns.d` is one instruction, forty times over a list of 2**40 entries. A sum with a text or a
number as it stands is of texts or numbers, whose size is counted or does not grow.
"""

from collections.abc import Collection, Sequence

_BREAKS = (",", "if", "else", "and", "or")
_PLAIN = tuple("'\"0123456789")


def doubled(tag: Sequence[str], names: Collection[str]) -> str | None:
    """A name that a sum in the tag holds twice, or with another one of `names`; None without."""
    stack: list[_Sum] = [_Sum()]
    for place, token in enumerate(tag):
        if token in ("(", "[", "{"):
            stack.append(_Sum())
        elif token in (")", "]", "}") and len(stack) > 1:
            closed = stack.pop()
            stack[-1].names += closed.names
            if closed.is_doubled:
                return closed.names[0]
        elif token in _BREAKS:
            if stack[-1].is_doubled:
                return stack[-1].names[0]
            stack[-1] = _Sum()
        elif token == "+":
            sides = (*tag[max(place - 1, 0) : place], *tag[place + 1 : place + 2])
            stack[-1].is_sum = True
            stack[-1].is_plain |= any(side.startswith(_PLAIN) for side in sides)
        elif token in names and (place == 0 or tag[place - 1] != "."):
            stack[-1].names.append(token)
    return next((each.names[0] for each in stack if each.is_doubled), None)


class _Sum:
    """What stands between two breaks at one depth of brackets."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.is_sum = self.is_plain = False

    @property
    def is_doubled(self) -> bool:
        return self.is_sum and not self.is_plain and len(self.names) > 1
