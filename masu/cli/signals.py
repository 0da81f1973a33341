"""A signal to end is heard like Ctrl-C: what is unfinished is put away before the process goes."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """A signal asked this process to end.

    Attributes:
        signal: which.
    """

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)
        super().__init__(self.signal.name)


@contextmanager
def heard() -> Iterator[None]:
    """Raise `Terminated` where SIGTERM or SIGHUP would end the process at once.

    One that is ignored (nohup) stays ignored. A second one ends the process at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python hears signals in the main thread only
        return
    taken = [number for number in SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_DFL)
    raise Terminated(number)
