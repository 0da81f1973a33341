"""Progress of long work on stderr: a bar per stage on a terminal, a line per stage elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from masu.events import Event, OnEvent

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


@contextmanager
def shown_progress() -> Iterator[OnEvent]:
    """A function to pass as `on_event`, for as long as the work goes on."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bars = Bars(progress)
        yield bars
        bars.finish()


class Lines:
    """Says when a stage begins."""

    def __init__(self) -> None:
        self.stage: str | None = None

    def __call__(self, event: Event) -> None:
        if event.stage != self.stage:
            click.echo(_describe(event), err=True)
        self.stage = event.stage


class Bars:
    """One bar per stage, in the order in which the stages begin; each ends when the next begins."""

    def __init__(self, progress: "Progress") -> None:
        self.progress = progress
        self.stage: str | None = None
        self.task: TaskID | None = None

    def __call__(self, event: Event) -> None:
        if self.task is None or event.stage != self.stage:
            self.finish()
            self.task = self.progress.add_task("", total=None)
            self.stage = event.stage
        self.progress.update(
            self.task,
            description=_describe(event),
            completed=event.done,
            total=event.total or None,
        )

    def finish(self) -> None:
        """A stage of unknown length is full once it is over."""
        if self.task is not None:
            self.progress.update(self.task, total=1, completed=1)


def _describe(event: Event) -> str:
    return f"{event.stage}: {event.message}" if event.message else event.stage
