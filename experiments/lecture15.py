"""Figures of lecture 15, private mean estimation: ``python -m experiments.lecture15``."""

from __future__ import annotations

from experiments.paper import PaperFigure, Source, main

SOURCE = Source(
    name="lecture15",
    title="Lecture 15, private mean estimation",
    claims={
        "binary_mean": ["*"],
        "heights": ["*"],
        "gaussian_mean": ["*", "!learned"],
        "shrinking_intervals": ["*"],
        "heavy_tail": ["lecture15_*"],
    },
    figures=(
        PaperFigure(
            "binary_mean",
            "binary_mean",
            {
                "kind": "error_against_n",
                "families": ["bernoulli"],
                "budget": ["pure_epsilon0.001", "pure_epsilon1"],
                "by": "budget",
            },
            "Binary data: the error falls as 1/(epsilon n) where privacy dominates, as one over "
            "the root of n where sampling does",
        ),
        PaperFigure(
            "heights",
            "heights",
            {
                "kind": "error_against_n",
                "families": ["clean", "entry_errors"],
                "estimators": ["clip_0_300", "clip_100_250", "clip_150_170", "mean"],
                "budget": "pure_epsilon1",
                "by": "family",
            },
            "Unbounded data, heights in cm: a public clip costs its width, too tight a one a bias "
            "that no n removes",
            ylabel="error in cm (0.9 quantile)",
        ),
        PaperFigure(
            "theorems",
            "gaussian_mean",
            {
                "kind": "sample_complexity_curves",
                "request": "accuracy",
                "estimators": [
                    "naive_radius100",
                    "naive_radius10000",
                    "histogram_radius1e+06",
                    "histogram_radius1e+300",
                ],
            },
            "Theorems 1 and 2: the naive clip needs R/(alpha epsilon) samples, the histogram "
            "1/(alpha epsilon) beside a term in the logarithm of R",
        ),
        PaperFigure(
            "radius",
            "gaussian_mean",
            {"kind": "thresholds", "request": "threshold", "leave": ["naive_*"]},
            "Theorems 1 and 2: where an estimator starts to work is linear in R for the naive "
            "clip, which leaves the frame, and linear in its logarithm for coarse estimates",
        ),
        PaperFigure(
            "shrinking_intervals",
            "shrinking_intervals",
            {
                "kind": "against_parameter",
                "families": ["gaussian"],
                "estimators": ["shrinking_trace_*"],
                "parameter": "report",
                "budget": "pure",
                "n": [300, 1000, 10000],
                "metrics": ["width_q50", "miss_rate"],
                "logarithmic": False,
            },
            "Claim 4: each round of clip, noise and interval makes the interval smaller, and of "
            "the tenth of the intervals that may miss the mean few do",
        ),
        PaperFigure(
            "clipping",
            "heavy_tail",
            {
                "kind": "decomposition",
                "families": ["two_point_k2"],
                "estimators": ["clip_*"],
                "chosen": ["minimax", "all"],
                "budget": "pure_epsilon0.1",
                "n": 1000000,
            },
            "Heavy tails with a second moment: clipping at T costs a bias of order 1/T and noise "
            "of order T/(epsilon n); to keep all points is not the best choice",
        ),
        PaperFigure(
            "heavy_tails",
            "heavy_tail",
            {
                "kind": "exponents",
                "claims": ["lecture15_alpha", "lecture15_epsilon", "ksu20_alpha", "ksu20_epsilon"],
            },
            "Heavy tails: to keep all points costs one over (alpha epsilon) to the k/(k-1), the "
            "better clip of KSU20 only 1/epsilon",
        ),
    ),
    names={
        "all": "keep all",
        "minimax": "minimax clip",
        "rate": "rate clip",
        "binary": "Laplace",
        "mean": "non-private mean",
        "clip_0_300": "clip to 0 .. 300",
        "clip_100_250": "clip to 100 .. 250",
        "clip_150_170": "clip to 150 .. 170",
        "clean": "normal heights",
        "entry_errors": "with entry errors",
        "shrinking_trace": "shrinking",
        "exponential": "exponential mechanism",
    },
)

if __name__ == "__main__":
    raise SystemExit(main(SOURCE))
