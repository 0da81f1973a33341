"""Thirty templates render as in transformers; what cannot is refused by the construct's name."""

import json
from pathlib import Path

import pytest
from checkpoints import copy_golden
from golden import GOLDEN

import masu
import masu.pipeline
from masu.converter import template_parity
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
    with pytest.raises(TextError, match="here: the chat template cannot be rendered"):
        refuse_differences(source, None, None, "here")


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
        refuse_differences(source, None, None, "here")
    assert caught.value.problems == (construct,)


@pytest.mark.parametrize("golden", ["llama", "modernbert"])
def test_a_conversion_refuses_what_is_rendered_otherwise(golden: str, tmp_path: Path) -> None:
    """Before anything is written; without a verdict nothing is compared."""
    source, out = copy_golden(golden, tmp_path / "source"), tmp_path / "out" / "package"
    template = source / "chat_template.jinja"
    template.write_text("{{ messages[0].content }}{% if tools %}{{ 2.0|tojson }}{% endif %}")
    with pytest.raises(TextError, match=r"^source: the chat template") as caught:
        masu.convert(source, out)
    assert all("with tools" in problem for problem in caught.value.problems)
    assert not out.parent.exists()
    masu.convert(source, out, verify=False)


def test_without_transformers_the_report_says_that_nothing_was_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template_parity, "find_spec", lambda name: None)
    finished = masu.convert(GOLDEN / "llama-tied" / "hf", tmp_path / "package")
    said = "the chat template was not compared with transformers, which is not installed"
    assert finished.verdict is not None
    assert said in finished.verdict.told
    report = json.loads((tmp_path / "package" / "report.json").read_bytes())
    assert report["verdict"]["told"] == [said]


def test_generation_tags_are_compared_as_the_source_has_them(tmp_path: Path) -> None:
    source = copy_golden("llama", tmp_path / "source")
    tagged = "{{ messages[0].content }}  {%- generation %} x{% endgeneration %}"
    (source / "chat_template.jinja").write_text(tagged)
    assert masu.pipeline.plan(source).conversion.chat_template == tagged
