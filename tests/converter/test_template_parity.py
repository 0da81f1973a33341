"""Thirty templates render as in transformers; what cannot is refused by the construct's name."""

from pathlib import Path

import pytest

from masu.converter.template_parity import (
    PROBES,
    refuse_differences,
    rendering_differences,
    unsupported_constructs,
)
from masu.specs.errors import TextError

STYLES = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted((Path(__file__).parents[1] / "chat_templates").glob("*.jinja"))
}


def test_thirty_styles_render_equal() -> None:
    assert len(STYLES) >= 30
    for name, source in STYLES.items():
        assert rendering_differences(source, "<bos>", "<eos>") == [], name
        assert unsupported_constructs(source) == [], name


def test_a_difference_is_found_and_told() -> None:
    source = "{% if enable_thinking is defined %}{{ 2.0|tojson }}{% endif %}"
    found = rendering_differences(source, None, None)
    assert found is not None
    assert {d.probe.partition(" and")[0] for d in found} == {
        name.partition(" and")[0] for name, probe in PROBES.items() if probe.variables
    }
    assert str(found[0]).endswith("at character 1 expected '.0', found ''")
    with pytest.raises(TextError, match="cannot be rendered"):
        refuse_differences(source, None, None)


@pytest.mark.parametrize(
    ("source", "construct"),
    [
        ("{% if tools %}{{ messages[0].content.rsplit('x') }}{% endif %}", "the method rsplit"),
        (
            "{% if false %}{{ messages[0].content|urlize }}{% endif %}",
            "the filter urlize",
        ),
        ("{% if false %}{{ 'a'.removeprefix('b') }}{% endif %}", "the method removeprefix"),
    ],
)
def test_what_the_renderer_lacks_is_refused_by_name(source: str, construct: str) -> None:
    """Even in a branch that no probe takes."""
    with pytest.raises(TextError) as caught:
        refuse_differences(source, None, None)
    assert caught.value.problems == (construct,)
