"""Errors for the tests to find: `python -m tests.mutants [NAME ...]`, from the checkout.

Every mutant is one wrong line. It is put into a copy of the checkout, the tests that should
notice run there, and the exit code is 1 if a mutant is not killed, or its text is gone.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPIED = ("conf", "dpbench", "tests", "pyproject.toml")
SECONDS = 900.0


@dataclass(frozen=True)
class Mutant:
    """One wrong line.

    Attributes
    ----------
    file : str
        Below `dpbench`.
    old, new : str
        The text, which occurs once in the file, and what it becomes.
    tests : str
        Paths below `tests`, separated by spaces.
    """

    file: str
    old: str
    new: str
    tests: str


KERNEL = {
    # samples
    "quantile_rank": Mutant(
        "samples/dense.py",
        "np.ceil(q * self.n)) - 1)",
        "np.ceil(q * self.n)))",
        "samples/test_samples.py",
    ),
    "core_with_one_bound": Mutant(
        "samples/dense.py",
        "if np.all(low <= core_low) and np.all(high >= core_high):",
        "if np.all(low <= core_low) or np.all(high >= core_high):",
        "samples/test_samples.py",
    ),
    "half_of_half_the_square": Mutant(
        "samples/dense.py",
        "np.minimum(2 * difference**2",
        "np.minimum(difference**2",
        "samples/test_groups.py",
    ),
    "draw_from_a_wrong_total": Mutant(
        "samples/counted.py",
        "remaining -= counts[:, atom]",
        "remaining -= part[:, atom]",
        "samples/test_groups.py",
    ),
    "rejection_off_by_a_tenth": Mutant(
        "samples/counting.py",
        "pending.size)) < log_keep",
        "pending.size)) < log_keep + 0.1",
        "samples/test_rejection.py",
    ),
    "parts_share_rows": Mutant(
        "samples/sparse.py",
        "total - size, start + taken",
        "total - size, start",
        "samples/test_sparse.py",
    ),
    "projection_without_centre": Mutant(
        "samples/rows.py", "moved = middle + offset", "moved = offset", "samples/test_rows.py"
    ),
    "core_is_not_counted": Mutant(
        "samples/rows.py", "number += bulk", "number += 0", "samples/test_rows.py"
    ),
    "one_bin_too_many": Mutant(
        "samples/bins.py", "first + (self.count - 1)", "first + self.count", "samples/test_bins.py"
    ),
    # distributions
    "pareto_moment": Mutant(
        "distributions/continuous.py",
        "beta(k + 1, a - k)",
        "beta(k, a - k)",
        "distributions/test_distributions.py",
    ),
    "student_moment": Mutant(
        "distributions/continuous.py",
        "gammaln((nu - k) / 2)",
        "gammaln((nu - k + 1) / 2)",
        "distributions/test_distributions.py",
    ),
    "contaminated_moment": Mutant(
        "distributions/continuous.py",
        "self.gap - m, self.spread",
        "self.gap, self.spread",
        "distributions/test_distributions.py",
    ),
    "two_point_moment": Mutant(
        "distributions/discrete.py", "p ** (k - 1))", "p**k)", "distributions/test_distributions.py"
    ),
    "chi_is_moved": Mutant(
        "distributions/multivariate.py",
        "rng.chisquare(self.tail_index, size[:2])",
        "rng.chisquare(self.tail_index, size[:2]) + 0.02",
        "distributions/test_vector_laws.py",
    ),
    "first_one_of_a_word": Mutant(
        "distributions/sparse.py",
        "rng.random(m) * self._rare",
        "rng.random(m)",
        "distributions/test_vector_laws.py",
    ),
    "last_value_never_drawn": Mutant(
        "distributions/empirical.py",
        "rng.integers(self._values.size, size",
        "rng.integers(self._values.size - 1, size",
        "distributions/test_empirical.py",
    ),
    # privacy
    "laplace_of_l2": Mutant(
        "privacy/budgets.py", "scale = l1 / self", "scale = l2 / self", "privacy/test_budgets.py"
    ),
    "local_noise_not_averaged": Mutant(
        "privacy/budgets.py",
        "self._sd * l2 / np.sqrt(draws)",
        "self._sd * l2 / draws",
        "privacy/test_budgets.py",
    ),
    "zcdp_sd": Mutant(
        "privacy/budgets.py",
        "1 / np.sqrt(2 * self.rho)",
        "1 / np.sqrt(4 * self.rho)",
        "privacy/test_budgets.py",
    ),
    "conversion_without_last_term": Mutant(
        "privacy/budgets.py", "+ spread + np.log1p(-1 / a)", "+ spread", "privacy/test_budgets.py"
    ),
    "delta_sign": Mutant(
        "privacy/gaussian.py",
        "log_ndtr(-1 / (2 * sd) - ",
        "log_ndtr(-1 / (2 * sd) + ",
        "privacy/test_budgets.py",
    ),
    "smallest_part_counts": Mutant(
        "privacy/ledger.py",
        "total += np.max([child",
        "total += np.min([child",
        "privacy/test_ledger.py",
    ),
    "repeats_pay_once": Mutant(
        "privacy/ledger.py",
        "for _ in range(times))",
        "for _ in range(1))",
        "privacy/test_ledger.py",
    ),
    "exponential_without_half": Mutant(
        "privacy/ledger.py",
        "/ (2 * sensitivity) + log",
        "/ sensitivity + log",
        "privacy/test_ledger.py",
    ),
    "radius_of_l2_noise": Mutant(
        "privacy/ledger.py",
        "self.rng.gamma(d, ",
        "self.rng.gamma(d + 1, ",
        "privacy/test_ledger.py",
    ),
    "threshold_without_one": Mutant(
        "privacy/histogram.py", "float(1 + L1", "float(L1", "privacy/test_histogram.py"
    ),
    "largest_noise_moved": Mutant(
        "privacy/histogram.py",
        "np.where(above < 0.5, high, low)",
        "np.where(above < 0.5, high, low) + 0.1",
        "privacy/test_histogram.py",
    ),
    "empty_bins_miscounted": Mutant(
        "privacy/histogram.py",
        "first[held.trial] - earlier)",
        "first[held.trial])",
        "privacy/test_histogram.py",
    ),
    "quantile_score": Mutant(
        "privacy/quantile.py",
        "np.maximum(below - target, target - within)",
        "np.maximum(below - target, target - below)",
        "privacy/test_quantile.py",
    ),
    # estimators
    "half_the_sensitivity": Mutant(
        "estimators/clipped.py",
        "step = 2 * half_width",
        "step = half_width",
        "estimators/test_common.py",
    ),
    "histogram_pays_too_little": Mutant(
        "estimators/karwa_vadhan.py",
        "coarse, fine = ledger.split(0.5, 0.5)\n    bins",
        "coarse, fine = ledger.split(0.4, 0.6)\n    bins",
        "estimators/test_karwa_vadhan.py",
    ),
    "variance_kept_too_wide": Mutant(
        "estimators/karwa_vadhan.py",
        "unit / 4, 8 * unit",
        "unit / 8, 16 * unit",
        "estimators/test_karwa_vadhan.py",
    ),
    "local_bound_over_n": Mutant(
        "estimators/heavy_tailed.py",
        "2 * bound, draws",
        "2 * bound / sample.n, draws",
        "estimators/test_common.py",
    ),
    "both_tails_are_one": Mutant(
        "estimators/shrinking.py",
        "self.beta / (2 * self.cuts)",
        "self.beta / self.cuts",
        "estimators/test_shrinking.py",
    ),
    "ball_of_coinpress": Mutant(
        "estimators/coinpress.py", "+ 6 * radius", "+ 2 * radius", "estimators/test_coinpress.py"
    ),
    "covariance_sensitivity": Mutant(
        "estimators/covariance.py",
        "np.sqrt(2) * gamma**2 / n",
        "gamma**2 / n",
        "estimators/test_covariance.py",
    ),
    "covariance_from_the_other_side": Mutant(
        "estimators/covariance.py",
        "after = transform @ _rebuilt((values + eta) ** -0.5, vectors)",
        "after = _rebuilt((values + eta) ** -0.5, vectors) @ transform",
        "estimators/test_covariance.py",
    ),
    "noise_for_all_records": Mutant(
        "estimators/ksu20.py",
        "noisy_clipped_mean(rows, middles[:, start:stop].reshape(-1), width, paid)",
        "noisy_clipped_mean(rows, middles[:, start:stop].reshape(-1), "
        "width * rows.n / sample.n, paid)",
        "estimators/test_common.py estimators/test_ksu20.py",
    ),
    "discarding_like_projecting": Mutant(
        "estimators/ksu20_ball.py",
        "return 8 / 3 if",
        "return 2.0 if",
        "estimators/test_multivariate.py",
    ),
    "cheapest_of_too_few": Mutant(
        "estimators/ksu20_cover.py",
        "[:, : half + 1]",
        "[:, :half]",
        "estimators/test_ksu20_cover.py",
    ),
    "coordinates_pay_once": Mutant(
        "estimators/subsample.py",
        "ledger.repeated(sample.d)",
        "ledger.repeated(1)",
        "estimators/test_multivariate.py",
    ),
    "lower_middle_lost": Mutant(
        "estimators/nonprivate.py",
        "(sample.n - 1) // 2",
        "sample.n // 2",
        "estimators/test_estimators.py",
    ),
    # theory
    "odd_counts": Mutant(
        "theory/lower_bounds.py",
        "(s - odd) / 2) - offset",
        "s / 2) - offset",
        "theory/test_exact_worst_case.py",
    ),
    "bound_of_two_signs": Mutant(
        "theory/lower_bounds.py", ".tau * signs / 2", ".tau / 2", "theory/test_exact_worst_case.py"
    ),
    "code_words": Mutant(
        "theory/packing.py", "np.arange(-(-d // 4))", "np.arange(d // 4)", "theory/test_packing.py"
    ),
    "wrong_root_in_the_local_model": Mutant(
        "theory/families.py",
        '"central" else np.sqrt(n)',
        '"central" else n',
        "theory/test_families.py",
    ),
}
MUTANTS = {**KERNEL}


def judge(mutant: Mutant) -> str:
    """What comes of the tests with this mutant: killed, survived, gone or not decided."""
    with tempfile.TemporaryDirectory() as folder:
        for name in COPIED:
            put = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            put(ROOT / name, Path(folder) / name)
        target = Path(folder) / "dpbench" / mutant.file
        text = target.read_text()
        if text.count(mutant.old) != 1:
            return "gone"
        target.write_text(text.replace(mutant.old, mutant.new))
        paths = [f"tests/{path}" for path in mutant.tests.split()]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n", "0"]
        # The copy goes before the checkout, which is installed.
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            found = subprocess.run(
                [*command, *paths],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"not decided: no end within {SECONDS:g} s"
    if found.returncode == 0:
        return "survived"
    if found.returncode != 1:
        return f"broken: pytest ended with {found.returncode}"
    failed = [line for line in found.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return f"killed: {failed[0].split(' - ')[0].partition(' ')[2] if failed else '?'}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MUTANTS))
    names = parser.parse_args().names or list(MUTANTS)
    if unknown := set(names) - set(MUTANTS):
        parser.error(f"no such mutants: {', '.join(sorted(unknown))}")
    alive = []
    for name in names:
        start = time.monotonic()
        verdict = judge(MUTANTS[name])
        print(f"{name}: {verdict} ({time.monotonic() - start:.0f} s)", flush=True)
        if not verdict.startswith("killed"):
            alive.append(name)
    print(f"{len(names) - len(alive)} of {len(names)} killed")
    return bool(alive)


if __name__ == "__main__":
    sys.exit(main())
