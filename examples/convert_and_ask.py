"""Converts a checkpoint, loads the package, and continues a text with it."""

from pathlib import Path
from tempfile import TemporaryDirectory

import masu

CHECKPOINT = Path(__file__).parent.parent / "tests/golden/llama-tied/hf"


def main() -> None:
    with TemporaryDirectory() as folder:
        package = masu.convert(CHECKPOINT, Path(folder) / "package", dtype="float32")
        assert package.verdict is not None
        print(package.verdict.describe())

        model = masu.load(package.path, dtype="float32")
        assert isinstance(model, masu.LanguageModel)  # the other kind is masu.Classifier
        greedy = model.sampling.override(temperature=0.0)
        for token in model.generate("The capital of France", sampling=greedy, max_tokens=8):
            print(token.id, repr(token.text))

        # Chat keeps what it has run, so the second turn reads only what is new.
        chat = model.chat(sampling=greedy)
        for question in ("Who are you?", "Are you sure?"):
            print(chat.send(question, max_tokens=8).usage)


if __name__ == "__main__":
    main()
