"""Cases of the rules on weight formats."""

from engine_cases import (
    D4S4,
    FULL,
    HYBRID_TABLE,
    INPUT,
    LOW_RANK,
    MXFP4,
    READOUT,
    TIED,
    UP,
    Case,
    Cases,
    hybrid,
    int4,
    kept,
    made,
    mlx,
    on_mlp,
    tied,
)

OLD, NEW = "uzu-0.5", "uzu-0.6"


NORMAL = made()

FORMAT_CASES: Cases = {
    "known-formats": {
        NEW: [
            Case(kept(UP, MXFP4), NORMAL, UP, "the engine has no MicrofloatSpec"),
            Case(kept(UP, LOW_RANK), NORMAL, UP, "the engine has no LowRankSpec"),
        ],
        OLD: [
            Case(kept(UP, MXFP4), NORMAL, UP, "the engine has no MicrofloatSpec"),
            Case(kept(INPUT, D4S4), NORMAL, INPUT, "the engine has no D4S4Spec"),
        ],
    },
    "code-bits": [
        Case(kept(UP, mlx(bits=1)), kept(UP, mlx(bits=bits)), UP, "the engine has 4 and 8")
        for bits in (4, 8)
    ]
    + [
        Case(
            kept(UP, hybrid(quantization_spec=mlx(bits=1))),
            kept(UP, hybrid(quantization_spec=mlx())),
            f"{UP}.quantized",
            "1 bits per code",
        )
    ],
    "group-sizes": {
        NEW: [
            Case(kept(UP, spec(group_size=128)), kept(UP, spec(group_size=64)), UP, "32 and 64")
            for spec in (int4, mlx)
        ]
        + [Case(kept(UP, mlx(group_size=16)), kept(UP, mlx()), UP, "32 and 64")],
        OLD: [
            Case(kept(UP, spec(group_size=8)), kept(UP, spec(group_size=16)), UP, "16 and 32")
            for spec in (int4, mlx)
        ]
        + [Case(kept(UP, int4(group_size=8)), kept(UP, int4(group_size=128)), UP, "and 128")],
    },
    "hadamard-blocks": {
        NEW: [
            Case(
                kept(UP, hybrid(incoherence_block_size=64)),
                kept(UP, hybrid()),
                UP,
                "Hadamard block 64; the engine has 32",
            ),
            Case(
                kept(UP, hybrid(incoherence_block_size=None)),
                kept(UP, hybrid()),
                UP,
                "Hadamard block null",
            ),
        ],
        OLD: [
            Case(
                kept(UP, hybrid(incoherence_block_size=64)),
                kept(UP, hybrid(incoherence_block_size=None, adapter_spec=LOW_RANK)),
                UP,
                "Hadamard block 64",
            )
        ],
    },
    "rotated-sides": [
        Case(
            kept(UP, hybrid(incoherence_processing_mode="input")),
            kept(UP, hybrid()),
            UP,
            "expects input_output",
        ),
        Case(
            kept(READOUT, hybrid()),
            kept(READOUT, hybrid(incoherence_processing_mode="input")),
            READOUT,
            "expects input here",
        ),
        Case(
            kept(INPUT, HYBRID_TABLE | {"incoherence_processing_mode": "input_output"}),
            kept(INPUT, HYBRID_TABLE),
            INPUT,
            "expects output here",
        ),
    ],
    "hybrid-cores": [
        Case(
            kept(UP, hybrid(quantization_spec=FULL)),
            kept(UP, hybrid(quantization_spec=mlx())),
            UP,
            "a hybrid around FullPrecisionSpec",
        )
    ],
    "no-adapters": [
        Case(kept(UP, hybrid(adapter_spec=FULL)), kept(UP, hybrid()), UP, "the engine has none")
    ],
    "d4s4-tables": [
        Case(kept(TIED, D4S4, tied), kept(INPUT, D4S4), TIED, "untied input tables"),
    ],
    "adapter-formats": [
        Case(
            kept(UP, hybrid(adapter_spec=FULL)),
            kept(UP, hybrid(adapter_spec=LOW_RANK)),
            UP,
            "an adapter in FullPrecisionSpec",
        )
    ],
    "adapters-in-layers": [
        Case(
            kept(READOUT, hybrid(adapter_spec=LOW_RANK, incoherence_processing_mode="input")),
            kept(UP, hybrid(adapter_spec=LOW_RANK)),
            READOUT,
            "in layers only",
        )
    ],
    "adapters-without-biases": [
        Case(
            kept(UP, hybrid(adapter_spec=LOW_RANK), on_mlp(has_up_biases=True)),
            kept(UP, hybrid(adapter_spec=LOW_RANK), on_mlp(has_down_biases=True)),
            UP,
            "a projection with biases",
        )
    ],
    "unrotated-hybrids": [
        Case(
            kept(UP, hybrid(incoherence_block_size=None)),
            kept(UP, hybrid(incoherence_block_size=None, adapter_spec=LOW_RANK)),
            UP,
            "without rotation and without adapter",
        )
    ],
    "low-rank-adapters": [
        Case(
            kept(UP, LOW_RANK),
            kept(UP, hybrid(adapter_spec=LOW_RANK)),
            UP,
            "adapter of a hybrid only",
        )
    ],
}
