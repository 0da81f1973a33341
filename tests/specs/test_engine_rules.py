"""Each rule of each engine: a package that breaks only it is told why, and its twin loads."""

import pytest
from engine_block_cases import BLOCK_CASES
from engine_cases import (
    ATTENTION,
    CLASSIFIER,
    HYBRID_TABLE,
    LAYER_PLACE,
    MODEL,
    TABLE,
    TIED,
    UP,
    Case,
    Cases,
    Values,
    int4,
    kept,
    layer,
    made,
    on_generation,
    on_mixer,
    tied,
)
from engine_expert_cases import EXPERT_CASES
from engine_format_cases import FORMAT_CASES
from engine_model_cases import MODEL_CASES

from masu.specs.engine import EngineProfile
from masu.specs.engines import ENGINES

OLD, NEW = "uzu-0.5", "uzu-0.6"
MIXER, MLP_PLACE = f"{LAYER_PLACE}.mixer_config", f"{LAYER_PLACE}.mlp_config"

COMPANIONS = {
    # A package that breaks the first rule cannot but break the others.
    "own-parser": {"own-prompts"},
    "known-fields": {"own-prompts"},
    "conv-groups": {"conv-history"},
    "draftable-convs": {"conv-history"},
}

CASES: Cases = {**MODEL_CASES, **BLOCK_CASES, **EXPERT_CASES, **FORMAT_CASES}

RULES = [(engine, rule.id) for engine in ENGINES.values() for rule in engine.rules]


def cases_of(engine: EngineProfile, rule: str) -> list[Case]:
    found = CASES[rule]
    return found[engine.name] if isinstance(found, dict) else found


@pytest.mark.parametrize(
    ("engine", "rule"), RULES, ids=[f"{engine.name}-{rule}" for engine, rule in RULES]
)
def test_breaking_a_rule_is_told_and_its_twin_loads(engine: EngineProfile, rule: str) -> None:
    """A rule without a case is a KeyError here."""
    companions = COMPANIONS.get(rule, set())
    for case in cases_of(engine, rule):
        judged = engine.judge(case.broken.candidate())
        assert {found.rule.id for found in judged} - companions == {rule}
        [found] = [found for found in judged if found.rule.id == rule]
        assert found.places[0] == case.place
        assert case.reason in found.reason
        twins = engine.judge(case.twin.candidate())
        assert {found.rule.id for found in twins} <= companions


def test_every_case_belongs_to_a_rule() -> None:
    assert CASES.keys() == {rule for _, rule in RULES}


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())
def test_ids_are_unique(engine: EngineProfile) -> None:
    assert len({rule.id for rule in engine.rules}) == len(engine.rules)


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())
@pytest.mark.parametrize("model", [MODEL, CLASSIFIER])
def test_the_model_of_the_cases_loads(engine: EngineProfile, model: Values) -> None:
    assert engine.judge(made(model=model).candidate()) == []


def test_all_reasons_at_once() -> None:
    broken = made(
        on_mixer(head_dim=80, logit_soft_cap=50.0),
        on_generation(repetition_penalty=1.1),
        formats={UP: int4(group_size=128)},
        dtype="F32",
    )
    judged = ENGINES[NEW].judge(broken.candidate())
    assert {found.rule.id: found.rule.effect for found in judged} == {
        "parameters-in-bf16": "refused",
        "penalty-window": "refused",
        "attention-head-dims": "refused",
        "no-attention-soft-cap": "differs",
        "group-sizes": "refused",
    }


def test_places_with_one_reason_share_a_line() -> None:
    def edit(values: Values) -> None:
        for index in (0, 1):
            layer(values, index)["mixer_config"] = {**ATTENTION, "head_dim": 80}

    [found] = ENGINES[NEW].judge(made(edit).candidate())
    assert len(found.places) == 2
    assert str(found).startswith(f"{MIXER}.head_dim (and 1 more like it): 80; kernels exist for")


def test_a_table_may_be_hybrid_around_a_table() -> None:
    assert HYBRID_TABLE["quantization_spec"]["layout"] == TABLE
    assert ENGINES[NEW].judge(kept(TIED, HYBRID_TABLE, tied).candidate()) == []
