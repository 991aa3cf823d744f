"""The smallest experiments for mistakes in the sources: see ERRATA.md, whose references exist."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import inv, sqrtm
from scipy.stats import binom

from dpbench.audit.controls import CONTROLS
from dpbench.estimators import HuberInterval
from dpbench.estimators.heavy_tailed import worst_clipping_bias
from dpbench.libraries import LibraryVariance
from dpbench.privacy import GDP, ApproxDP, Ledger
from dpbench.privacy.conversions import gaussian_delta

ROOT = Path(__file__).parents[2]


def test_every_reference_exists_and_every_control_is_named() -> None:
    text = (ROOT / "ERRATA.md").read_text(encoding="utf-8")
    references = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert len(references) >= 10
    for path, name in references:
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), name
    own = re.findall(r"^def (test_\w+)", Path(__file__).read_text(encoding="utf-8"), re.MULTILINE)
    here = Path(__file__).relative_to(ROOT).as_posix()
    assert {name for path, name in references if path == here} == set(own[1:])
    named = re.findall(r"controls? ((?:`\w+`(?:, )?)+)", text)
    assert set(re.findall(r"\w+", " ".join(named))) == {one.label for one in CONTROLS}


def test_a_histogram_for_records_that_come_and_go() -> None:
    """Two bins, one record from the first to the second: the fullest noisy bin costs 2 epsilon."""
    for scale, cost in ((1.0, 2.0), (2.0, 1.0)):  # of Laplace noise at epsilon = 1
        lead = np.array([18.0, 20.0]) / scale
        upset = (2 + lead) / 4 * np.exp(-lead)  # P(a Laplace minus another >= lead)
        assert 0.9 * cost < np.log(upset[0] / upset[1]) <= cost


def test_advanced_composition_of_many_steps() -> None:
    """Randomised response T times: delta(epsilon) is a sum over how often the truth is told."""
    step, steps, delta = 0.5, 1000, 1e-6
    claimed = step * np.sqrt(6 * steps * np.log(1 / delta))
    truths = np.arange(steps + 1)
    loss = (2 * truths - steps) * step
    told = binom.pmf(truths, steps, np.exp(step) / (1 + np.exp(step)))
    over = loss > claimed
    true = np.sum(told[over] * -np.expm1(claimed - loss[over]))
    assert claimed == pytest.approx(144, abs=0.1)
    assert true == pytest.approx(0.0706, abs=1e-4)


def test_the_classical_gaussian_at_large_epsilon() -> None:
    delta = 1e-6
    for numerator in (1.25, 2.0):  # of Z24, and of KSU20
        for epsilon, private in ((1.0, True), (50.0, False)):
            sd = np.sqrt(2 * np.log(numerator / delta)) / epsilon
            assert (gaussian_delta(sd, epsilon) <= delta) == private
    with pytest.raises(ValueError, match="classical"):
        ApproxDP(50.0, delta, noise_by="classical")


def test_a_ball_is_twice_as_wide_as_its_radius() -> None:
    """The records before and after a replacement are at opposite points of the ball."""
    rho, n, r = 0.5, 50, 3.0
    records = np.zeros((n, 2))
    means = []
    for end in ([1e6, 0.0], [-1e6, 0.0]):
        records[0] = end
        scale = r / np.maximum(np.linalg.norm(records, axis=1), r)
        means.append((records * scale[:, None]).mean(axis=0))
    for sensitivity, cost in ((r / n, 4.0), (2 * r / n, 1.0)):
        variance = sensitivity**2 / (2 * rho)
        step = np.sum((means[0] - means[1]) ** 2) / (2 * variance)  # rho of Gaussian noise
        assert step == pytest.approx(cost * rho)
    assert pytest.approx(2.2) == 4 * (0.1 + 0.9 / 2)  # shares of the first centre and the means


def test_squares_about_the_middle_do_not_have_the_range_of_squares() -> None:
    """Enumerate records; the sums of the library and its stated numbers were recorded as these."""
    for low, high, moved, stated in ((-1, 1, 1.0, 0.5), (0, 1, 0.25, 0.5), (2, 3, 0.25, 2.5)):
        x = np.linspace(low, high, 101)
        assert np.max((x - (low + high) / 2) ** 2) == pytest.approx(moved)
        assert np.ptp(np.append(x, 0.0 if low < 0 < high else low) ** 2) / 2 == stated
        estimator = LibraryVariance(library="pipeline-dp", lower=low, upper=high)
        assert estimator.private == (moved <= stated)


def test_a_covariance_of_winsorised_pairs() -> None:
    """All records but one are equal, and this one moves from the first axis to the second."""
    n, rho = 20, 1.0
    for r, cost in ((1.0, 0.5), (2.0, 8.0)):
        matrices = []
        for axis in (0, 1):
            records = np.zeros((n, 2))
            records[0, axis] = 1e6
            first, second = np.triu_indices(n, 1)
            pairs = (records[second] - records[first]) / np.sqrt(2)
            length = np.maximum(np.linalg.norm(pairs, axis=1), 1e-12)
            pairs *= np.minimum(1, r * r / length)[:, None]
            matrices.append(2 / (n * (n - 1)) * pairs.T @ pairs)
        upper = (matrices[0] - matrices[1])[np.triu_indices(2)]
        sd = 4 * r * r / n / np.sqrt(2 * rho)
        assert np.linalg.norm(upper) == pytest.approx(2 * np.sqrt(2) * r**4 / n)
        assert np.sum(upper**2) / (2 * sd**2) == pytest.approx(cost * rho)
    noise = np.triu(np.random.default_rng(0).standard_normal((3, 3)))
    released = (noise + noise.T) / 2  # as the code makes it symmetric
    assert np.array_equal(released[0, 1:], noise[0, 1:] / 2)


def test_the_usual_score_of_a_quantile_misses_an_atom() -> None:
    values, t = np.full(1001, 3.0), np.linspace(-100, 100, 4001)
    score = -np.abs((values[:, None] <= t).sum(axis=0) - 1001 / 2)
    assert np.ptp(score) == 0  # on both sides of 3 alike


def test_the_side_on_which_a_covariance_is_whitened() -> None:
    """The second step, of a first whitening that noise has turned; the next step has no noise."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    covariance = turn @ np.diag([1.0, 0.3, 0.05]) @ turn.T
    first = inv(sqrtm(covariance + 0.2 * np.diag([1.0, 0.0, 0.5])))
    step = inv(sqrtm(first.T @ covariance @ first))
    for whitening, whitens in ((first @ step, True), (step @ first, False)):
        left = np.abs(whitening.T @ covariance @ whitening - np.eye(3)).max()
        assert left < 1e-10 if whitens else left > 0.05


def test_the_nearest_semidefinite_matrix() -> None:
    matrix = np.diag([1.0, -1.0])
    clipped, folded = np.diag([1.0, 0.0]), np.diag([1.0, 1.0])
    assert np.linalg.norm(matrix - folded) == 2 * np.linalg.norm(matrix - clipped)


def test_weights_of_lecture_17_end_at_a_half() -> None:
    n = 10
    friends = np.arange(n + 1)
    assert np.clip((friends - n / 2) / n, 0, None).max() == 0.5


def test_lemma_3_1_holds_though_its_last_step_does_not() -> None:
    """Clipped to rho +- xi, |mu - rho| <= xi/2: the near end is xi/2 away, the other 3 xi/2."""
    tau, k = 1 / 16, 2.0
    xi = 6 / tau ** (1 / (k - 1))
    assert 7 * (2 / 6) ** (k - 1) > 2
    bias = worst_clipping_bias(xi / 2, k) + worst_clipping_bias(3 * xi / 2, k)
    assert bias <= 0.12 * tau


@pytest.mark.parametrize("k", [2.0, 3.0, 4.5])
def test_the_moments_of_a_two_point_law(k: float) -> None:
    p, tau = 0.3, 2.0
    moment = (1 - p) * (p * tau) ** k + p * (tau - p * tau) ** k
    assert p * (1 - p) * tau**k * ((1 - p) ** (k - 1) + p ** (k - 1)) == pytest.approx(moment)
    printed = p * (1 - p) * tau**k * ((1 - p) ** (k - 1) + p**k)
    assert printed < 0.99 * moment


def published_bins(counts: list[int], epsilon: float, runs: int) -> np.ndarray:
    """Return the bin that YRZ24's histogram names in each run, for bins with these counts.

    A count that is not 0 gets Laplace noise, and shares below the threshold become 0. The first of
    the largest shares wins. The bins are those between the smallest and the largest median.
    """
    share, medians = np.array(counts) / sum(counts), sum(counts)
    delta = gaussian_delta(1 / epsilon, epsilon)
    noise = np.random.default_rng(1).laplace(0, 2 / (epsilon * medians), (runs, share.size))
    noisy = share + noise * (share > 0)
    noisy[noisy < 2 * np.log(2 / delta) / (epsilon * medians) + 1 / medians] = 0
    return np.asarray(np.argmax(noisy, axis=1))


def test_a_bin_that_only_one_neighbour_has_is_not_gaussian_dp() -> None:
    """Move one of 15 medians into the bin above: it is named in delta/4 of the runs or more.

    100,000 runs expect 430 or more; below 300 is a false alarm with probability below 1e-9. The
    neighbour never names this bin, where GDP allows no event to become impossible. GDP also allows
    less than 1e-20 beyond a factor of e^6, for delta/4 here.
    """
    lone = np.mean(published_bins([14, 1], 0.5, 100_000) == 1)
    assert lone > 3e-3
    assert not np.any(published_bins([15, 0], 0.5, 100_000) == 1)
    assert gaussian_delta(2.0, 6.0) < 1e-20


def test_a_histogram_without_a_bin_over_its_threshold_names_the_smallest() -> None:
    """n = 1000 and epsilon = 0.5: one of 15 medians is low, and its bin is named nearly always.

    In 20,000 runs the share of 0.98 has a standard deviation of 0.001.
    """
    epsilon = 0.5 / np.sqrt(int(np.log(1000)) + 1)
    assert np.mean(published_bins([1, 14], epsilon, 20_000) == 0) > 0.975
    assert np.mean(published_bins([1, 14], 20.0, 20_000) == 0) < 0.01  # as it should be


@pytest.mark.parametrize("unit", [0.01, 10.0])
def test_a_clip_in_the_unit_of_the_records(unit: float) -> None:
    """The clip is a public factor times the rule for the scale; `m**1/2` is m/2 in Python."""
    ledger, m = Ledger(GDP(0.5), np.random.default_rng(0)), 3.0
    own, other = (HuberInterval(scale=np.sqrt(v)).clip(1000, ledger) for v in (m, m * unit**2))
    assert other / own == pytest.approx(unit)
    published, elsewhere = (v**1 / 2 for v in (m, m * unit**2))
    assert elsewhere / published == pytest.approx(unit**2)
