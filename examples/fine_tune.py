"""Converts a fine-tune that needs more than its checkpoint says: a parser, roles, sampling."""

from pathlib import Path
from tempfile import TemporaryDirectory

import masu
from masu.specs.models import GenerationOverrides

CHECKPOINT = Path(__file__).parent.parent / "tests/golden/llama-tied/hf"

SPEC = masu.ModelSpec(
    repo=str(CHECKPOINT),
    name="thinker",
    output_parser_regex=r"(?s)<think>(?P<chain_of_thought>.*?)</think>(?P<response>.*)",
    end_of_thinking_tag="</think>",
    default_system_prompt="Answer in one word.",
    generation=GenerationOverrides(temperature=0.6, top_p=0.95),
)


def main() -> None:
    with TemporaryDirectory() as folder:
        masu.convert(CHECKPOINT, Path(folder) / "thinker", spec=SPEC, verify=False)
        config = masu.Package.open(Path(folder) / "thinker").config
        assert config.type == "LanguageModelConfig"
        print(config.token_codec_config)
        print(config.generation_config)


if __name__ == "__main__":
    main()
