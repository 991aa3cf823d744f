"""Figures of lecture 17, an introduction to DP statistics: ``python -m experiments.lecture17``."""

from __future__ import annotations

from experiments.paper import PaperFigure, Source, main

SOURCE = Source(
    name="lecture17",
    title="Lecture 17, introduction to DP statistics",
    claims={
        "subsample_aggregate": ["*"],
        "friendly_core": ["*"],
        "gaussian_mean": ["learned"],
    },
    figures=(
        PaperFigure(
            "buckets",
            "subsample_aggregate",
            {
                "kind": "against_parameter",
                "families": ["gaussian", "contaminated"],
                "estimators": ["median_buckets*", "mode_*", "clipped_mean_*", "trimmed_*"],
                "parameter": "buckets",
                "budget": "pure_epsilon1",
                "n": 10000,
            },
            "Subsample and aggregate: how many buckets are best, and what aggregation survives "
            "outliers",
        ),
        PaperFigure(
            "hypothesis_test",
            "subsample_aggregate",
            {
                "kind": "error_against_n",
                "families": ["null_law", "alternative_law"],
                "estimators": ["test_count", "test_exponential", "test_histogram"],
                "metric": "mean_error",
                "budget": "pure_epsilon0.2",
                "by": "family",
            },
            "A private hypothesis test by subsample and aggregate: the share of wrong answers "
            "under either law falls to 0 for each of the three aggregations",
            ylabel="wrong answers (share)",
        ),
        PaperFigure(
            "core",
            "friendly_core",
            {
                "kind": "against_parameter",
                "parameter": "eta",
                "families": ["cluster_*"],
                "estimators": ["friendly_low"],
                "budget": "approx_epsilon1",
                "n": 1000,
                "metrics": ["core_q50"],
                "logarithmic": False,
                "guides": ["core"],
            },
            "The basic filter's weights: with a share eta of far outliers a core of (1-eta)(1-2 "
            "eta) of the records is left (grey)",
        ),
        PaperFigure(
            "norm",
            "friendly_core",
            {
                "kind": "against_parameter",
                "parameter": "norm",
                "families": ["gaussian_*"],
                "estimators": ["friendly", "coinpress_radius100", "coinpress_radius1e+06"],
                "budget": "approx_epsilon1",
                "n": 1000,
            },
            "FriendlyCore needs no bound on the mean: its error does not depend on where the data "
            "are, that of CoinPress is large beyond its R",
        ),
        PaperFigure(
            "release",
            "friendly_core",
            {"kind": "thresholds", "request": "release", "against": "delta"},
            "From which n on FriendlyCore releases anything in nine of ten trials: linear in the "
            "logarithm of 1/delta",
        ),
        PaperFigure(
            "learning",
            "gaussian_mean",
            {
                "kind": "error_against_n",
                "families": ["gaussian"],
                "estimators": ["learned", "learned_known"],
                "metric": "tv_q90",
                "budget": ["pure_epsilon1", "zcdp"],
                "by": "budget",
            },
            "Distribution learning: a normal law within total variation alpha, with unknown and "
            "with known variance",
        ),
    ),
    names={
        "gaussian": "Gaussian",
        "null_law": "under the null",
        "alternative_law": "under the alternative",
        "test_count": "Laplace count",
        "test_exponential": "exponential mechanism",
        "test_histogram": "histogram",
        "friendly": "FriendlyCore",
        "friendly_low": "FriendlyCore, low threshold",
        "coinpress": "CoinPress",
        "learned": "both learned",
        "learned_known": "variance known",
        "median": "median",
        "trimmed": "median of trimmed means",
    },
)

if __name__ == "__main__":
    raise SystemExit(main(SOURCE))
