"""Figures of CoinPress (BDKU20), in its authors' settings: ``python -m experiments.coinpress``."""

from __future__ import annotations

from experiments.paper import PaperFigure, Source, main

SOURCE = Source(
    name="coinpress",
    title="CoinPress: mean and covariance (BDKU20)",
    claims={"multivariate_mean": ["*"], "covariance": ["*"]},
    figures=(
        PaperFigure(
            "mean",
            "multivariate_mean",
            {
                "kind": "error_against_n",
                "families": ["gaussian_d50"],
                "estimators": [
                    "coinpress_rounds1",
                    "coinpress_rounds2",
                    "coinpress_rounds4",
                    "coinpress_rounds10",
                    "mean",
                ],
                "budget": ["zcdp_rho0.5"],
                "metric": "trimmed_mean",
                "by": "budget",
            },
            "The mean of a standard normal law in 50 dimensions, R = 10 times the root of 50: "
            "rounds help",
        ),
        PaperFigure(
            "dimensions",
            "multivariate_mean",
            {
                "kind": "error_against_n",
                "families": ["gaussian_d2", "gaussian_d500"],
                "estimators": ["coinpress_d2*", "coinpress_d500*", "mean"],
                "budget": "zcdp_rho0.5",
                "metric": "trimmed_mean",
                "by": "family",
            },
            "The same in 2 and in 500 dimensions",
        ),
        PaperFigure(
            "rounds",
            "multivariate_mean",
            {
                "kind": "against_parameter",
                "parameter": "rounds",
                "families": ["gaussian_d50"],
                "estimators": ["coinpress_far*"],
                "budget": "zcdp_rho0.5",
                "n": [1000],
                "metrics": ["trimmed_mean"],
                "logarithmic": False,
            },
            "How many rounds are best, for four guesses R of the mean's norm",
        ),
        PaperFigure(
            "covariance",
            "covariance",
            {
                "kind": "error_against_n",
                "families": ["gaussian"],
                "estimators": ["covariance_*"],
                "budget": ["zcdp"],
                "metric": "trimmed_mean",
                "by": "budget",
            },
            "The covariance in 10 dimensions: the error, relative to the covariance, by number of "
            "rounds",
        ),
        PaperFigure(
            "covariance_rounds",
            "covariance",
            {
                "kind": "against_parameter",
                "parameter": "rounds",
                "families": ["gaussian"],
                "estimators": ["covariance_*"],
                "budget": "zcdp",
                "n": [3000, 5000, 8000],
                "metrics": ["trimmed_mean"],
                "logarithmic": False,
            },
            "The covariance in 10 dimensions against the number of rounds",
        ),
    ),
    names={
        "coinpress": "CoinPress",
        "coinpress_far": "CoinPress",
        "coinpress_d2": "CoinPress",
        "coinpress_d500": "CoinPress",
        "covariance": "CoinPress",
        "mean": "non-private mean",
        "gaussian": "Gaussian",
    },
)

if __name__ == "__main__":
    raise SystemExit(main(SOURCE))
