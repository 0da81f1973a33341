"""Generation ends where it should, shows what it should, and refuses what cannot be served."""

from collections.abc import Iterator

import numpy as np
import pytest
from golden import GOLDEN
from scripted_model import ScriptedModel, speaking

from masu.runtime.generate import Ending, Token, generate
from masu.runtime.sampling import Sampling
from masu.runtime.token_run import UNLIMITED, TokenRun, boundaries
from masu.specs.errors import RequestError
from masu.specs.model import MODEL_CONFIG, LanguageModelConfig
from masu.specs.text.tokenizer import PackageTokenizer

TOKENIZER = PackageTokenizer.open(GOLDEN / "llama" / "engine" / "tokenizer.json")
VOCAB, STOP = 322, 3
PROMPT = [0, 17, 18]
GREEDY = Sampling(temperature=0)


def say(text: str, *, stop: bool = True, context: int | None = 512) -> ScriptedModel:
    """A model that answers PROMPT with this text, then stops, or repeats its last token."""
    reply = TOKENIZER.encode(text) + [STOP] * stop
    return ScriptedModel(speaking(reply, VOCAB, len(PROMPT)), context)


def run(
    model: ScriptedModel, ending: Ending, *, skip_special: bool = True, logprobs: bool = False
) -> list[Token]:
    return list(
        generate(
            model,
            PROMPT,
            GREEDY,
            ending,
            tokenizer=TOKENIZER,
            skip_special=skip_special,
            logprobs=logprobs,
        )
    )


def text_of(tokens: list[Token]) -> str:
    assert all(token.finish_reason is None for token in tokens[:-1])
    return "".join(token.text for token in tokens)


def test_a_stop_token_ends_the_reply_and_is_no_part_of_its_text() -> None:
    tokens = run(say("Hello 🙂"), Ending(stop_ids=(1, STOP)), skip_special=False)
    assert text_of(tokens) == "Hello 🙂"
    assert tokens[-1] == Token(STOP, "", None, "stop")
    assert len(tokens) == len(TOKENIZER.encode("Hello 🙂")) + 1


def test_the_first_token_may_be_the_stop_token() -> None:
    assert run(say(""), Ending(stop_ids=(STOP,))) == [Token(STOP, "", None, "stop")]


def test_text_that_was_kept_back_comes_with_the_stop_token() -> None:
    cut = TOKENIZER.encode("a🙂")[:-1]
    model = ScriptedModel(speaking([*cut, STOP], VOCAB, len(PROMPT)))
    tokens = run(model, Ending(stop_ids=(STOP,), stop_strings=("ab",)))
    assert [token.text for token in tokens] == ["", "", "", "", "a\ufffd"]


def test_max_tokens_ends_the_reply_and_shows_all_of_it() -> None:
    tokens = run(say("xxxxxxxxx", stop=False), Ending(max_tokens=4, stop_strings=("xy",)))
    assert (len(tokens), text_of(tokens), tokens[-1].finish_reason) == (4, "xxxx", "length")


def test_a_stop_token_at_the_limit_is_a_stop() -> None:
    size = len(TOKENIZER.encode("Hello"))
    assert (
        run(say("Hello"), Ending(max_tokens=size + 1, stop_ids=(STOP,)))[-1].finish_reason == "stop"
    )
    assert (
        run(say("Hello"), Ending(max_tokens=size, stop_ids=(STOP,)))[-1].finish_reason == "length"
    )


def test_the_context_ends_the_reply() -> None:
    model = say("xxxxxxxxxxxxxxxx", stop=False, context=10)
    tokens = run(model, Ending(max_tokens=100))
    assert (len(PROMPT) + len(tokens), tokens[-1].finish_reason) == (10, "length")
    assert len(run(say("xxxxxxxxx", stop=False, context=10), Ending())) == 7


@pytest.mark.parametrize(
    ("stops", "expected"),
    [(("lo w",), "Hel"), (("world", "o"), "Hell"), (("H",), ""), (("🙂",), "Hello world ")],
)
def test_a_stop_string_ends_the_text_across_tokens(stops: tuple[str, ...], expected: str) -> None:
    tokens = run(say("Hello world 🙂!"), Ending(stop_ids=(STOP,), stop_strings=stops))
    assert (text_of(tokens), tokens[-1].finish_reason) == (expected, "stop_string")


def test_the_beginning_of_a_stop_string_is_shown_once_it_is_none() -> None:
    tokens = run(say("ENjoy the EN"), Ending(stop_ids=(STOP,), stop_strings=("END",)))
    assert (text_of(tokens), tokens[-1].finish_reason) == ("ENjoy the EN", "stop")


def test_special_tokens_are_shown_only_where_asked() -> None:
    model = ScriptedModel(speaking([2, *TOKENIZER.encode("hi"), STOP], VOCAB, len(PROMPT)))
    assert text_of(run(model, Ending(stop_ids=(STOP,)))) == "hi"
    assert text_of(run(model, Ending(stop_ids=(STOP,)), skip_special=False)) == "<|im_start|>hi"


def test_log_probabilities_are_those_of_the_model_whatever_the_sampling() -> None:
    row = np.log(np.array([0.1, 0.2, 0.7], np.float32))
    model = ScriptedModel(lambda ids: row)
    sampling = Sampling(temperature=0, banned_tokens=(2,))
    tokens = list(generate(model, [0], sampling, Ending(max_tokens=2), logprobs=True))
    assert [token.id for token in tokens] == [1, 1]
    assert tokens[0].logprob == pytest.approx(np.log(0.2), rel=1e-6)
    assert run(say("a"), Ending(max_tokens=1))[0].logprob is None


def test_every_token_is_run_once_and_the_last_not_at_all() -> None:
    model = say("Hello")
    tokens = run(model, Ending(stop_ids=(STOP,)))
    assert model.fed == [len(PROMPT)] + [1] * (len(tokens) - 1)
    assert model.started == [512]


def test_a_run_is_started_for_what_the_request_may_reach() -> None:
    model = say("Hello")
    run(model, Ending(max_tokens=7, stop_ids=(STOP,)))
    assert model.started == [len(PROMPT) + 7]


def random_model() -> ScriptedModel:
    def logits(ids: list[int]) -> np.ndarray:
        return np.random.default_rng(ids).normal(0, 2, VOCAB).astype(np.float32)

    return ScriptedModel(logits)


def ids_of(tokens: Iterator[Token]) -> list[int]:
    return [token.id for token in tokens]


def test_the_same_seed_gives_the_same_tokens() -> None:
    sampling, ending = Sampling(temperature=0.8, top_p=0.9, seed=5), Ending(max_tokens=20)
    first = ids_of(generate(random_model(), PROMPT, sampling, ending))
    assert first == ids_of(generate(random_model(), PROMPT, sampling, ending))
    assert first != ids_of(generate(random_model(), PROMPT, sampling.override(seed=6), ending))
    # A token depends on what stands before it, not on how the reply came to stand there.
    assert first[5:] == ids_of(
        generate(random_model(), PROMPT + first[:5], sampling, Ending(max_tokens=15))
    )


def test_without_a_seed_replies_differ() -> None:
    ending = Ending(max_tokens=20)
    replies = [ids_of(generate(random_model(), PROMPT, Sampling(), ending)) for _ in range(2)]
    assert replies[0] != replies[1]


def test_penalties_see_the_prompt_and_the_reply() -> None:
    model = ScriptedModel(lambda ids: np.array([3, 2.9, 2.8, 2.7], np.float32))
    sampling = Sampling(temperature=0, presence_penalty=1.0)
    assert ids_of(generate(model, [0], sampling, Ending(max_tokens=4))) == [1, 2, 3, 0]


@pytest.mark.parametrize(
    ("prompt", "ending", "message"),
    [
        ([], Ending(), "prompt is empty"),
        ([1] * 12, Ending(), "prompt has 12 tokens, the model's context holds 10"),
        ([1] * 10, Ending(), "prompt has 10 tokens, the model's context holds 10"),
        ([1], Ending(max_tokens=0), "max_tokens must be 1 or more, found 0"),
        ([1], Ending(stop_strings=("x",)), "need a tokenizer"),
    ],
)
def test_what_cannot_be_served_is_refused_before_anything_runs(
    prompt: list[int], ending: Ending, message: str
) -> None:
    model = say("a", context=10)
    with pytest.raises(RequestError, match=message):
        generate(model, prompt, GREEDY, ending)
    assert model.started == []


def test_a_model_without_limit_needs_max_tokens() -> None:
    with pytest.raises(RequestError, match="max_tokens"):
        generate(say("a", context=None), PROMPT, GREEDY, Ending())
    assert len(run(say("xx", stop=False, context=None), Ending(max_tokens=3))) == 3


def test_a_run_goes_on_where_the_next_prompt_begins_with_it() -> None:
    model = ScriptedModel(lambda ids: np.arange(VOCAB, dtype=np.float32))
    kept = TokenRun(model, (512,))
    ending = Ending(max_tokens=3)
    list(generate(model, PROMPT, GREEDY, ending, run=kept))
    assert kept.ids == [*PROMPT, VOCAB - 1, VOCAB - 1]
    list(generate(model, [*kept.ids, 5, 6], GREEDY, ending, run=kept))
    assert (kept.reused, model.fed[-3:], model.started) == (5, [2, 1, 1], [512])
    list(generate(model, [*PROMPT, 9], GREEDY, ending, run=kept))
    assert (kept.reused, model.fed[-3:], model.started) == (3, [1, 1, 1], [512])
    list(generate(model, [9, *PROMPT], GREEDY, ending, run=kept))
    assert (kept.reused, model.fed[-3:], model.started) == (0, [4, 1, 1], [512, 512])


def test_the_same_prompt_again_needs_no_step() -> None:
    model = ScriptedModel(lambda ids: np.eye(VOCAB, dtype=np.float32)[len(ids)])
    kept = TokenRun(model, (512,))
    first = kept.begin(PROMPT, 100)
    assert np.array_equal(kept.begin(PROMPT, 100), first)
    assert (model.fed, kept.reused) == ([3], 3)


def test_a_shorter_prompt_runs_its_last_token_again() -> None:
    model = ScriptedModel(lambda ids: np.eye(VOCAB, dtype=np.float32)[len(ids)])
    kept = TokenRun(model, (512,))
    kept.begin(PROMPT, 100)
    assert int(np.argmax(kept.begin(PROMPT[:2], 100))) == 2
    assert (kept.ids, kept.reused, model.fed, model.started) == (PROMPT[:2], 1, [3, 1], [512])


def test_a_model_that_cannot_go_back_starts_anew() -> None:
    model = ScriptedModel(lambda ids: np.eye(VOCAB, dtype=np.float32)[len(ids)], rewinds=False)
    kept = TokenRun(model, (512,))
    kept.begin(PROMPT, 100)
    assert int(np.argmax(kept.begin([*PROMPT[:2], 9], 100))) == 3
    assert (kept.reused, model.fed, model.started) == (0, [3, 3], [512, 512])
    kept.begin([*PROMPT[:2], 9, 9], 100)
    assert (kept.reused, model.fed) == (3, [3, 3, 1])


def test_a_run_that_computes_differently_at_the_new_length_starts_anew() -> None:
    model = ScriptedModel(lambda ids: np.zeros(VOCAB, np.float32))
    kept = TokenRun(model, (8, 512))
    kept.begin(PROMPT, 8)
    kept.begin([*PROMPT, 1], 8)
    kept.begin([*PROMPT, 1, 2], 9)
    assert (model.started, model.fed) == ([8, 512], [3, 1, 5])


def test_two_generations_on_one_run_do_not_mix() -> None:
    model = ScriptedModel(lambda ids: np.zeros(VOCAB, np.float32))
    kept = TokenRun(model, (512,))
    first = generate(model, PROMPT, GREEDY, Ending(), run=kept)
    next(first)
    next(generate(model, [1, 2], GREEDY, Ending(), run=kept))
    with pytest.raises(RequestError, match="another generation"):
        next(first)


def test_an_interrupted_step_leaves_no_spent_state() -> None:
    def interrupt(ids: list[int]) -> np.ndarray:
        if ids[-1] == 99:
            raise KeyboardInterrupt
        return np.zeros(VOCAB, np.float32)

    model = ScriptedModel(interrupt)
    kept = TokenRun(model, (512,))
    kept.begin(PROMPT, 100)
    with pytest.raises(KeyboardInterrupt):
        kept.begin([*PROMPT, 99], 100)
    kept.begin([*PROMPT, 1], 100)
    assert (kept.ids, model.started) == ([*PROMPT, 1], [512, 512])


def test_runs_change_their_nature_at_longrope_s_original_context() -> None:
    text = (GOLDEN / "phi3" / "engine" / "config.json").read_text()
    config = MODEL_CONFIG.validate_json(text)
    assert isinstance(config, LanguageModelConfig)
    assert boundaries(config.decoder_config, 256) == (48, 256)
    assert boundaries(config.decoder_config, 48) == (48,)
    plain = MODEL_CONFIG.validate_json((GOLDEN / "llama" / "engine" / "config.json").read_text())
    assert isinstance(plain, LanguageModelConfig)
    assert boundaries(plain.decoder_config, None) == (UNLIMITED,)
