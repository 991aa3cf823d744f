"""Figures of 'Pure vs approximate DP (I)': ``python -m experiments.pure_vs_approx``."""

from __future__ import annotations

from experiments.paper import PaperFigure, Source, main

SOURCE = Source(
    name="pure_vs_approx",
    title="Private mean estimation: pure vs approximate DP (I)",
    claims={"pure_vs_approx": ["*"]},
    figures=(
        PaperFigure(
            "dimension",
            "pure_vs_approx",
            {
                "kind": "against_parameter",
                "parameter": "d",
                "families": ["hypercube_*"],
                "estimators": ["additive", "l2"],
                "budget": ["pure", "approx_delta1e-06"],
                "n": 3000,
                "metrics": ["mean_error"],
                "guides": ["pure", "approx"],
            },
            "Pure DP costs d, approximate DP the root of d: equations (1.2) and (1.4), beside the "
            "lower bounds without their constants (grey)",
        ),
        PaperFigure(
            "samples",
            "pure_vs_approx",
            {
                "kind": "error_against_n",
                "families": ["hypercube_d64"],
                "estimators": ["additive", "l2"],
                "budget": ["pure", "approx_delta1e-06"],
                "by": "budget",
            },
            "Under both notions the error falls as 1/n",
        ),
        PaperFigure(
            "delta",
            "pure_vs_approx",
            {
                "kind": "against_parameter",
                "parameter": "delta",
                "families": ["hypercube_d64"],
                "estimators": ["additive"],
                "budget": ["approx_*", "classical_*"],
                "n": 3000,
                "guides": ["approx"],
            },
            "Approximate DP pays the root of the logarithm of 1/delta: the Gaussian mechanism with "
            "the noise that the post states (classical) and with the least that is private, beside "
            "the lower bound without its constant (grey)",
        ),
        PaperFigure(
            "radius",
            "pure_vs_approx",
            {
                "kind": "against_parameter",
                "parameter": "radius",
                "families": ["hypercube_d64"],
                "estimators": ["scaled_*"],
                "budget": ["pure", "approx_delta1e-06"],
                "n": 3000,
            },
            "The remark on a general bound L of the norms, here R: the error is linear in it",
        ),
    ),
    names={
        "additive": "additive noise",
        "scaled": "additive noise",
        "l2": "l2 mechanism",
        "approx_classical": "as in the post",
    },
)

if __name__ == "__main__":
    raise SystemExit(main(SOURCE))
