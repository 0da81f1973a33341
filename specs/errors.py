"""Every error that masu raises on purpose.

MasuError
├── SourceError            the checkpoint cannot be converted
│   ├── SourceNotFound     there is nothing at that name or path
│   ├── UnknownFamily      no family reads this model_type
│   ├── ConfigError        config.json has a key or value that the family does not read
│   ├── TensorMismatch     the tensors are not those that the family's table expects
│   └── TextError          tokenizer, template or special tokens cannot be carried over
├── OutputError            the target exists, is locked, or cannot be written
├── PackageError           the package breaks its own schema
│   ├── NotAPackage        the folder holds no package at all
│   ├── SchemaError        config.json or a weight spec is not of the format
│   ├── ContainerError     model.safetensors is malformed
│   ├── TensorError        tensors and config.json disagree
│   └── IntegrityError     a file differs from what the manifest recorded
├── EngineError            the chosen engine cannot load the package
├── RecipeError            a recipe is not one, or does not fit the model
├── RequestError           a prompt or an option cannot be served
└── VerdictError           the numbers do not agree with the source
"""

from collections.abc import Iterable

from masu.specs.printable import capped, printable, printable_lines


class MasuError(Exception):
    """Base class: a message, the problems found (all of one kind), and what to do about them.

    As text it can be printed wherever its names come from; the attributes have them as they are.

    Attributes:
        message: one sentence that names the file, tensor or key.
        problems: every single finding, one line each.
        hint: the remedy; the command line prints it after a blank line.
    """

    def __init__(
        self, message: str, *, problems: Iterable[str] = (), hint: str | None = None
    ) -> None:
        self.message = message
        self.problems = tuple(problems)
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        listing = "".join(f"\n  {printable(problem)}" for problem in capped(self.problems))
        advice = "" if self.hint is None else f"\n\nhint: {printable_lines(self.hint)}"
        return f"{printable(self.message)}{listing}{advice}"


class SourceError(MasuError): ...


class SourceNotFound(SourceError): ...


class UnknownFamily(SourceError): ...


class ConfigError(SourceError): ...


class TensorMismatch(SourceError): ...


class TextError(SourceError): ...


class OutputError(MasuError): ...


class PackageError(MasuError): ...


class NotAPackage(PackageError): ...


class SchemaError(PackageError): ...


class ContainerError(PackageError): ...


class TensorError(PackageError): ...


class IntegrityError(PackageError): ...


class EngineError(MasuError): ...


class RecipeError(MasuError): ...


class RequestError(MasuError): ...


class VerdictError(MasuError): ...
