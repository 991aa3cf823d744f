"""How far means of heavy tails are off at finite n, by inverting their characteristic function.

With f that of X - E X, the mean of n has P(|V| <= y sd/sqrt(n)) = (2/pi) int_0^inf sin(ty)/t
Re f(t/(sd sqrt(n)))^n dt. At small t the series of f leave 1 exact, of which the n-th power asks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq
from scipy.special import gamma

from dpbench.analysis.claim_kinds import slopes
from dpbench.distributions import Distribution, Pareto, StudentT
from dpbench.package import conf_folder
from tests.support import FALSE_ALARM, Floats, rng

LAWS = {
    "student_t": StudentT(tail_index=2.5, standardised_moment=2),
    "pareto": Pareto(tail_index=2.5, standardised_moment=2),
}
NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)
T, DT = 7 * (NODES + 1), 7 * WEIGHTS  # beyond 14 nothing is left


def log_cf(law: Distribution, t: Floats) -> NDArray[np.complex128]:
    """Of a law of variance 1.

    Student's t: f(t) = K_m(z) z^m/(2^(m-1) Gamma(m)), m = nu/2, z = sqrt(nu) t, with K_m by its
    two power series. Pareto's on [1, inf): a (-it)^a Gamma(-a, -it), the incomplete gamma function
    by its series: sum_k (it)^k/k! a/(a-k) + a Gamma(-a) (-it)^a.
    """
    k = np.arange(1.0, 40)[:, None]
    if isinstance(law, StudentT):
        m = law.tail_index / 2
        q = law.tail_index * (law._scale * t) ** 2 / 4
        rising = {s: np.cumprod(k + s * m, axis=0) for s in (1, -1)}
        terms = {s: (q**k / np.cumprod(k, axis=0) / rising[s]).sum(axis=0) for s in (1, -1)}
        ratio = gamma(1 - m) / gamma(1 + m)
        return np.asarray(np.log1p(terms[-1] - ratio * q**m * (1 + terms[1])) + 0j)
    assert isinstance(law, Pareto)
    a, u = law.tail_index, 1j * law._scale * t
    series = (u**k / np.cumprod(k, axis=0) * a / (a - k)).sum(axis=0)
    return np.asarray(np.log1p(series + a * gamma(-a) * (-u) ** a) - a / (a - 1) * u)


def sampling_quantile(law: Distribution, n: float) -> float:
    """The 0.9 quantile of |mean of n - mu|."""
    real = np.exp(n * log_cf(law, T / np.sqrt(n))).real

    def missing(y: float) -> float:
        return float(2 / np.pi * (DT * np.sin(T * y) / T) @ real - 0.9)

    return float(brentq(missing, 0.1, 5.0) / np.sqrt(n))


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_quantiles_are_those_of_draws(law: Distribution) -> None:
    """10,000 means of 300: the count below is binomial, false-alarm probability 1e-6."""
    assert law.variance == pytest.approx(1)
    means = law.sample(rng(5), 10_000, 300).mean() - law.mean
    below = np.count_nonzero(np.abs(means) <= sampling_quantile(law, 300))
    assert stats.binomtest(int(below), 10_000, 0.9).pvalue > FALSE_ALARM
    # At large n they are normal, nearly so at 1e9: like n^(1 - nu/2).
    z = np.array([sampling_quantile(law, n) * n**0.5 for n in (1e7, 1e9)]) / stats.norm.ppf(0.95)
    assert np.all((z > 0.98) & (z < 1))
    assert (1 - z[1]) / (1 - z[0]) == pytest.approx(100**-0.25, rel=0.01)
    # Counts on cells have them, too, where no list of records is held.
    means = law.sample(rng(6), 2000, 10**6).mean() - law.mean
    below = np.count_nonzero(np.abs(means) <= sampling_quantile(law, 1e6))
    assert stats.binomtest(int(below), 2000, 0.9).pvalue > FALSE_ALARM


def _sizes(parts: dict[str, Any]) -> Floats:
    return np.array(sorted(float(n) for part in parts.values() for n in part["n"]))


def _exponent(law: Distribution, parts: dict[str, Any]) -> float:
    n = _sizes(parts)
    errors = np.array([[sampling_quantile(law, one)] for one in n])
    return float(-1 / slopes(errors, n)[0][0])


def test_the_exponents_that_are_claimed_are_those_of_the_laws() -> None:
    sweep = yaml.safe_load((conf_folder() / "sweep" / "heavy_tail_large.yaml").read_text())
    for label, law in LAWS.items():
        claim = sweep["claims"][f"sampling_{label}"]
        assert claim["exact_at_run_n"] == pytest.approx(_exponent(law, sweep["parts"]), abs=6e-4)


def test_the_exponents_of_heavy_tail_are_near_two() -> None:
    sweep = yaml.safe_load((conf_folder() / "sweep" / "heavy_tail.yaml").read_text())
    part = sweep["parts"]["real_tails_large"]
    found = [_exponent(law, {"large": part}) for law in LAWS.values()]
    assert found == pytest.approx([2.002, 2.005], abs=6e-4)
    assert "2.002 (Student's t) and 2.005 (Pareto)" in part["claims"]["sampling"]["reason"]
