"""Figures of Kamath, Singhal and Ullman 2020: ``python -m experiments.ksu20``."""

from __future__ import annotations

from experiments.paper import PaperFigure, Source, main

SOURCE = Source(
    name="ksu20",
    title="Kamath, Singhal and Ullman 2020, heavy-tailed distributions",
    claims={
        "heavy_tail": ["*"],
        "range_estimation": ["*"],
        "heavy_tail_location": ["*"],
        "heavy_tail_multivariate": ["*"],
        "heavy_tail_cover": ["*"],
    },
    figures=(
        PaperFigure(
            "worst_case",
            "heavy_tail",
            {
                "kind": "error_against_n",
                "families": ["two_point_k*", "two_point_local_k*"],
                "estimators": ["minimax", "rate", "all", "local"],
                "budget": "pure_epsilon0.01",
            },
            "Theorems 3.5 and 3.8: the worst error over two-point laws against n for moments of "
            "order k, beside what no private estimator reaches",
        ),
        PaperFigure(
            "exponents",
            "heavy_tail",
            {
                "kind": "exponents",
                "claims": ["ksu20_alpha", "ksu20_epsilon", "local_alpha", "local_epsilon"],
            },
            "The exponents of the private term: k/(k-1) in 1/alpha and 1 in 1/epsilon, twice that "
            "in the local model",
        ),
        PaperFigure(
            "ranges",
            "range_estimation",
            {"kind": "thresholds", "request": "threshold"},
            "Theorems 3.3 and 3.4: where the range estimator starts to be right is linear in the "
            "logarithm of R under pure DP, in its root under zCDP",
        ),
        PaperFigure(
            "location",
            "heavy_tail_location",
            {
                "kind": "error_against_n",
                "families": ["two_point_k2", "two_point_k4"],
                "estimators": ["paper", "practical"],
                "budget": "pure_epsilon0.01",
            },
            "Algorithm 2 with unknown location: the printed constants and practical ones",
        ),
        PaperFigure(
            "ball",
            "heavy_tail_multivariate",
            {
                "kind": "error_against_n",
                "families": ["signed_k2_d64", "signed_k3_d64"],
                "estimators": ["discard", "project"],
                "budget": "zcdp_rho0.5",
                "metric": "private_q90",
            },
            "Theorem 4.6, 64 dimensions: to discard rows outside a ball, as printed, and to "
            "project them on it",
        ),
        PaperFigure(
            "cover",
            "heavy_tail_cover",
            {
                "kind": "error_against_n",
                "families": ["plane_k2", "space_k2"],
                "estimators": ["cover", "coordinates_k2"],
                "budget": "pure_epsilon0.01",
                "by": "family",
            },
            "Theorem 5.8: the exponential mechanism on a cover in two and three dimensions, beside "
            "one-dimensional means in every coordinate",
        ),
    ),
    names={
        "all": "keep all",
        "minimax": "minimax clip",
        "rate": "rate clip",
        "local": "local model",
        "paper": "printed constants",
        "practical": "practical constants",
        "coordinates": "coordinate-wise",
        "plane": "two dimensions",
        "space": "three dimensions",
    },
)

if __name__ == "__main__":
    raise SystemExit(main(SOURCE))
