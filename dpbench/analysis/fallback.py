"""Find results that an estimator reaches without data, because it answers the mean by chance.

A private estimator without enough records answers a fixed value, or a value that hardly depends on
the records. Many estimators answer 0 then, or the middle of their public interval. If the mean of
the distribution is this value, the measured error is zero up to rounding, and says nothing about
other means.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

__all__ = ["EXACT_RATIO", "FALLBACK_NOTE", "answers_without_data"]

# An error below this multiple of the sampling error counts as zero. A release that depends on the
# records has their sampling error in it. An estimator can be better than the mean of the records,
# for example on outliers, but not by this factor. The factor is above the rounding error of doubles
# and below n^(-1/2) at the largest n, the ratio of the noise 1/n to the sampling error.
EXACT_RATIO = 1e-9
FALLBACK_NOTE = "this distribution's mean is what the estimator answers without data"


def answers_without_data(rows: pd.DataFrame) -> pd.Series[bool]:
    """Return whether the private estimator of each row of a summary answers the mean itself.

    True if the median error is at most 1e-9 (`EXACT_RATIO`) of the sampling error, so that at least
    half of the releases are the mean. Both errors are infinite if most trials fail; this is False.
    """
    sampling = rows["sampling_q90"]
    exact = (rows["q50"] <= EXACT_RATIO * sampling) & (rows["q50"] < np.inf)
    return exact & (sampling > 0) & (rows["privacy"] != "none")
