"""The weight table's language, without any family."""

import pytest

from masu.converter.table import (
    Target,
    Unused,
    match,
    prefixed,
    rows,
    second_half_first,
    wanted_sources,
)


def test_alternatives_keep_the_written_order() -> None:
    [row] = rows({"l.{i}.{k,q}.w": "out.{i}"})
    assert row.sources == ("l.{i}.k.w", "l.{i}.q.w")
    matches, problems = match({"l.{i}.{k,q}.w": "out.{i}"}, ["l.3.q.w", "l.3.k.w"])
    assert not problems
    assert [(m.source, m.name, m.alternative) for m in matches] == [
        ("l.3.q.w", "out.3", 1),
        ("l.3.k.w", "out.3", 0),
    ]


def test_an_index_only_on_the_left_is_stacked_as_a_number() -> None:
    names = [f"l.0.experts.{e}.w" for e in (10, 9, 2)]
    matches, _ = match({"l.{i}.experts.{e}.w": "l.{i}.up"}, names)
    assert sorted(m.stack for m in matches) == [(2,), (9,), (10,)]
    assert {m.name for m in matches} == {"l.0.up"}


def test_an_alternative_named_twice_is_laid_down_twice() -> None:
    matches, problems = match({"l.{i}.{q,k,k}.w": "out.{i}"}, ["l.3.k.w", "l.3.q.w"])
    assert not problems
    assert [(m.source, m.alternative) for m in matches] == [
        ("l.3.k.w", 1),
        ("l.3.k.w", 2),
        ("l.3.q.w", 0),
    ]
    assert wanted_sources({"l.{i}.{q,k,k}.w": "out.{i}"}, "out.3") == ["l.3.q.w", "l.3.k.w"]
    overlapping = match({"l.{*,k}.w": "out"}, ["l.k.w"])
    assert overlapping == ([], ["ambiguous  l.k.w"])


def test_a_name_that_no_row_or_two_rows_take_is_a_problem() -> None:
    table = {"a.{i}": "x.{i}", "a.0": "y", "tower.*": Unused("vision", left_out=True)}
    matches, problems = match(table, ["a.0", "a.1", "b", "tower.block.3.weight"])
    assert problems == ["ambiguous  a.0", "unexpected  b"]
    assert [m.source for m in matches] == ["a.1", "tower.block.3.weight"]


def test_an_unused_row_may_win_over_others() -> None:
    above = Unused("above the last layer", left_out=True, wins=True)
    matches, problems = match({"l.{i}.w": "x.{i}", "l.7.*": above}, ["l.6.w", "l.7.w", "l.7.new"])
    assert not problems
    assert [(found.source, found.name) for found in matches] == [
        ("l.6.w", "x.6"),
        ("l.7.w", ""),
        ("l.7.new", ""),
    ]


@pytest.mark.parametrize("name", ["a.01", "a.-1", "a.x", "a.1.b", "xa.1"])
def test_an_index_is_a_plain_number_and_the_whole_name_counts(name: str) -> None:
    assert match({"a.{i}": "x.{i}"}, [name])[1] == [f"unexpected  {name}"]


def test_wanted_sources_names_what_would_make_a_tensor() -> None:
    table = {
        "l.{i}.{q,k}.w": "out.{i}.qk",
        "l.{i}.e.{e}.w": Target("out.{i}.experts"),
        "gone": Unused("not needed"),
    }
    assert wanted_sources(table, "out.7.qk") == ["l.7.q.w", "l.7.k.w"]
    assert wanted_sources(table, "out.7.experts") == ["l.7.e.{e}.w"]
    assert wanted_sources(table, "nowhere") == []


def test_prefixed_changes_only_the_prefix() -> None:
    assert prefixed({"model.a": "x"}, "model.", "m.model.") == {"m.model.a": "x"}
    assert prefixed({"model.a": "x", "b": "y"}, "", "m.") == {"m.model.a": "x", "m.b": "y"}


def test_second_half_first_swaps_the_halves_of_the_rows() -> None:
    assert second_half_first((6, 4)) == ((3, 6), (0, 3))
