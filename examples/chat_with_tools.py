"""Lets a model call a function of this program, and answer with what it gave."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import masu
from masu.runtime.chat import Chat, Reply

TESTS = Path(__file__).parent.parent / "tests"
CHECKPOINT = TESTS / "golden/llama-tied/hf"
TEMPLATE = TESTS / "chat_templates/hermes.jinja"

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


def weather(city: str) -> str:
    return f"Sunny in {city}."


def converse(chat: Chat, question: str) -> Reply:
    """The answer to a question, after at most three rounds of calls."""
    reply = chat.send(question, max_tokens=64)
    for _ in range(3):
        for problem in reply.malformed_calls:
            print(f"not a call: {problem}")
        if not reply.tool_calls:
            break
        # The model may ask for what is not there: its names and arguments are checked by nobody.
        results = [
            weather(str(call.arguments.get("city"))) if call.name == "weather" else "no such tool"
            for call in reply.tool_calls
        ]
        reply = chat.answer_tools(results, max_tokens=64)
    return reply


def main() -> None:
    # This model is a few random numbers, which will call nothing, with a template that knows tools.
    spec = masu.ModelSpec(repo=str(CHECKPOINT), chat_template=TEMPLATE.read_text())
    with TemporaryDirectory() as folder:
        package = masu.convert(CHECKPOINT, Path(folder) / "package", spec=spec, verify=False)
        model = masu.load(package.path, backend="numpy")  # too small to be worth compiling
        assert isinstance(model, masu.LanguageModel)
        chat = model.chat(tools=[WEATHER])
        print(converse(chat, "What is the weather in Kyoto?").finish_reason)

    # What a trained model would write is read like this.
    parser = model.codec.parser("", calls=True)
    parser.feed('I look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Kyoto"}}\n')
    _, reply = parser.finish()
    print(reply.text, [(call.name, call.arguments) for call in reply.tool_calls])


if __name__ == "__main__":
    main()
