"""What a long operation tells its caller while it works."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Event:
    """One step of progress.

    Attributes:
        stage: what is being done (`fetch`, `write`, `verify`); a new name begins a new stage.
        done: how much of it is finished, in bytes or steps.
        total: how much there is; 0 where it is not known.
        message: a sentence for people; empty where the numbers say it all.
    """

    stage: str
    done: int
    total: int
    message: str


OnEvent: TypeAlias = Callable[[Event], None]
