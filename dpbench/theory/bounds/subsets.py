"""Lower bound on the error for one given dataset of numbers and its large subsets.

Notation. x_1 <= ... <= x_n are the sorted records of a dataset D. Removing records means here to
replace them by the mean of the others. So n does not change, and the new mean is the mean of the
records that are left. D_i is D without its i largest records, and D^j is D without its j smallest.

1. D_i and D^j differ in at most i + j records. Suppose that an estimator errs by less than half of
   the distance of their means with probability above 1 - beta on both. Comparing its answer with
   the middle of the two means is a private test with errors below beta on both.
2. Let K be the largest number s of records for which every private test of two datasets that
   differ in s records has an error of at least beta (`largest_untestable_difference`;
   `dpbench.theory.bounds.numbers` derives it for every notion of privacy). For pure DP
   K = (2/epsilon) ln(1/(2 beta)), up to rounding.
3. So each private estimator errs on one of D_i and D^j by |mean D^j - mean D_i|/2 or more with
   probability at least beta, for all i + j <= K. The bound is the largest of these numbers. i = 0
   or j = 0 leaves D itself in the pair.

An estimator may have a smaller error on D itself, but not on D and all D_i and D^j with at most K
removed records. In this sense DKSS23 compares an estimator, on each dataset, with the best private
estimator that only has to be accurate on its large subsets. DKSS23 removes records without a
replacement; the theorem number was not checked, and the constants are ours. The bound does not
assume anything about records that are not in D. A single far record counts once: by its distance
divided by 2n.
"""

from __future__ import annotations

import numpy as np

from dpbench.arrays import Floats
from dpbench.privacy import Budget
from dpbench.theory.bounds.numbers import BETA, largest_untestable_difference

__all__ = ["subset_lower_bound"]


def subset_lower_bound(records: Floats, budget: Budget, *, beta: float = BETA) -> float:
    """Return the lower bound on the error for a dataset and its large subsets.

    Parameters
    ----------
    records : ndarray of shape (n,)
        Records of the dataset, finite numbers in any order.
    budget : Budget
        Privacy guarantee of the estimator; neighbours replace a record.
    beta : float, default 0.1
        Probability with which the error is at least the bound, below 1/2.

    Returns
    -------
    float
        Bound in the unit of the data. NaN if no bound is known for the privacy notion.
    """
    n = len(records)
    most = largest_untestable_difference(n, budget, beta)
    if np.isnan(most):
        return float("nan")
    removed = np.arange(min(int(most), n - 1) + 1)
    x = np.sort(np.asarray(records, dtype=float))
    x = x - x[n // 2]  # so that large numbers do not hide small differences
    total = x.sum()
    kept = n - removed
    without_largest = (total - np.cumsum(np.append(0.0, x[::-1]))[removed]) / kept
    without_smallest = (total - np.cumsum(np.append(0.0, x))[removed]) / kept
    # The means move outward with the number of removed records, so i + j = K is the largest pair.
    return float(np.max(without_smallest - without_largest[::-1]) / 2)
