"""Finding marker texts (tags, stop strings) in text that arrives in pieces."""

from collections.abc import Sequence


def first_marker(text: str, markers: Sequence[str]) -> tuple[int, str] | None:
    """Where the first marker to be complete begins, and which it is.

    Of two that end together the longer one wins. The choice does not depend on how the text was
    cut into pieces, as long as `may_begin` characters were kept back.
    """
    found = [(text.find(marker), marker) for marker in markers]
    ends = [(at + len(marker), at, marker) for at, marker in found if at >= 0]
    if not ends:
        return None
    _, at, marker = min(ends)
    return at, marker


def may_begin(text: str, markers: Sequence[str]) -> int:
    """The length of the longest end of `text` with which a marker could begin."""
    longest = max((len(marker) for marker in markers), default=1) - 1
    for length in range(min(longest, len(text)), 0, -1):
        tail = text[-length:]
        if any(len(marker) > length and marker.startswith(tail) for marker in markers):
            return length
    return 0
