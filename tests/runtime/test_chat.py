"""Conversations: what is told, what is kept, and what is not run twice."""

import numpy as np
import pytest
from scripted_chat import VOCAB, scripted_parts

from masu.runtime.chat import Chat, Reply
from masu.runtime.sampling import Sampling
from masu.specs.codec import ReasoningEffort
from masu.specs.errors import RequestError
from masu.specs.text.segment import Segment


def test_a_conversation_remembers_its_turns() -> None:
    made, model = scripted_parts("llama", ["Hello 🙂", "Again"])
    chat = Chat(made, system="Be kind.")
    first = chat.send("Hi")
    assert (first.reasoning, first.text, first.finish_reason) == (None, "Hello 🙂", "stop")
    assert chat.send("More").text == "Again"
    assert chat.messages == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello 🙂"},
        {"role": "user", "content": "More"},
        {"role": "assistant", "content": "Again"},
    ]
    prompt = made.codec.render(chat.messages[:4])
    assert prompt.count("<|im_start|>") == 5
    assert len(model.started) == 1


def test_a_turn_goes_on_from_the_one_before() -> None:
    made, model = scripted_parts("llama", ["Hello", "Again"])
    chat = Chat(made)
    first = chat.send("Hi")
    second = chat.send("More")
    assert first.usage.reused_tokens == 0
    assert first.usage.reply_tokens == len(made.tokenizer.encode("Hello")) + 1
    # All but the stop token, which was chosen and never run.
    run_before = first.usage.prompt_tokens + first.usage.reply_tokens - 1
    assert second.usage.reused_tokens == run_before
    fresh = made.tokenizer.encode(made.codec.render(chat.messages[:-1]))
    assert second.usage.prompt_tokens == len(fresh)
    # Nothing was run twice: all of both prompts and of both replies but their stop tokens.
    assert sum(model.fed) == len(fresh) + second.usage.reply_tokens - 1


def test_an_edited_conversation_goes_on_from_the_edit() -> None:
    """Templates edit too: many leave out what was thought in earlier turns."""
    made, model = scripted_parts("llama", ["Hello", "Again"])
    chat = Chat(made)
    chat.send("Hi")
    chat.messages[0] = {"role": "user", "content": "Ho"}
    usage = chat.send("More").usage
    # "Hi" and "Ho" are two tokens each, and the first of them is the same.
    prompt = made.codec.render(chat.messages[:3])
    assert usage.reused_tokens == len(made.tokenizer.encode(prompt[: prompt.index("Ho") + 1]))
    assert model.fed[-usage.reply_tokens] == usage.prompt_tokens - usage.reused_tokens
    assert len(model.started) == 1


def test_reasoning_is_told_apart_while_it_streams() -> None:
    made, _ = scripted_parts("qwen3", ["<think>\nhm 🙂\n</think>\n\nYes."])
    *segments, reply = Chat(made).stream("Is it?")
    assert isinstance(reply, Reply)
    assert (reply.reasoning, reply.text) == ("\nhm 🙂\n", "Yes.")
    told = {"reasoning": "", "text": ""}
    for segment in segments:
        assert isinstance(segment, Segment)
        told[segment.kind] += segment.text
    assert told == {"reasoning": "\nhm 🙂\n", "text": "Yes."}


def test_marks_may_be_special_tokens() -> None:
    pattern = r"(?s)(?:<\|im_start\|>(?P<chain_of_thought>.*?)<bos>)?(?P<response>.*)"
    made, _ = scripted_parts("llama", ["<|im_start|>hm<bos>Yes."], output_parser_regex=pattern)
    reply = Chat(made).send("Is it?")
    assert (reply.reasoning, reply.text) == ("hm", "Yes.")


def test_reasoning_is_kept_for_templates_that_read_it() -> None:
    made, _ = scripted_parts("qwen3", ["<think>hm</think>Yes."])
    chat = Chat(made)
    chat.send("Is it?")
    expected = {"role": "assistant", "content": "Yes.", "reasoning_content": "hm"}
    assert chat.messages[-1] == expected


def test_a_thought_that_runs_out_of_room_is_reasoning() -> None:
    made, _ = scripted_parts("qwen3", ["<think>so long a thought"])
    reply = Chat(made).send("Is it?", max_tokens=8)
    assert (reply.text, reply.finish_reason) == ("", "length")
    assert reply.reasoning
    assert "so long a thought".startswith(reply.reasoning)


@pytest.mark.parametrize(("effort", "opening"), [("no_reasoning", "</think>\n\n"), (None, "t\n")])
def test_the_effort_reaches_the_prompt(effort: ReasoningEffort | None, opening: str) -> None:
    made, model = scripted_parts("qwen3", ["Yes."] * 2)
    seen: list[list[int]] = []
    answer = model.logits
    model.logits = lambda ids: (seen.append(list(ids)), answer(ids))[1]
    Chat(made, reasoning_effort=effort).send("Is it?")
    assert made.tokenizer.decode(seen[0]).endswith(opening)


def test_an_unknown_effort_is_refused_before_the_first_turn() -> None:
    made, _ = scripted_parts("qwen3", [])
    with pytest.raises(RequestError, match="knows medium, no_reasoning"):
        Chat(made, reasoning_effort="high")


def test_the_default_system_prompt_is_the_package_s() -> None:
    made, model = scripted_parts("llama", ["Hello"], default_system_prompt="By default.")
    Chat(made).send("Hi")
    with_default = sum(model.fed)
    made, model = scripted_parts("llama", ["Hello"], default_system_prompt=None)
    Chat(made).send("Hi")
    assert with_default != sum(model.fed)


def test_a_turn_that_is_not_finished_leaves_no_trace() -> None:
    made, _ = scripted_parts("llama", ["Hello", "Hello"])
    chat = Chat(made)
    turn = chat.stream("Hi")
    assert next(turn) == Segment("text", "H")
    turn.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert chat.messages == []
    assert chat.send("Hi").text == "Hello"


def test_stop_strings_and_limits_end_a_turn() -> None:
    made, _ = scripted_parts("llama", ["Hello you", "Hello you"])
    chat = Chat(made)
    reply = chat.send("Hi", stop=["lo y"])
    assert (reply.text, reply.finish_reason) == ("Hel", "stop_string")
    assert chat.messages[-1]["content"] == "Hel"
    assert chat.send("Hi", max_tokens=1).finish_reason == "length"


def test_a_conversation_that_does_not_fit_is_refused_and_not_kept() -> None:
    made, model = scripted_parts("llama", ["Hello"])
    model.context_length = 20
    chat = Chat(made)
    with pytest.raises(RequestError, match="context holds 20"):
        chat.send("Hi " * 40)
    assert (chat.messages, model.started) == ([], [])


def test_a_template_that_refuses_leaves_the_conversation_as_it_was() -> None:
    made, _ = scripted_parts("gemma2", ["Hello"])
    chat = Chat(made)
    chat.messages.append({"role": "user", "content": "Hi"})
    with pytest.raises(RequestError, match="Roles must alternate"):
        chat.send("Hi")
    assert len(chat.messages) == 1


def test_a_reply_can_be_had_again_by_its_seed() -> None:
    made, model = scripted_parts("llama", [])
    model.logits = lambda ids: np.random.default_rng(ids).normal(0, 2, VOCAB).astype(np.float32)
    sampling = Sampling(temperature=0.9)
    first = Chat(made).send("Hi", sampling=sampling, max_tokens=12)
    assert first.seed is not None
    again = Chat(made).send("Hi", sampling=sampling.override(seed=first.seed), max_tokens=12)
    assert again == first
    other = Chat(made).send("Hi", sampling=sampling, max_tokens=12)
    assert other.text != first.text
