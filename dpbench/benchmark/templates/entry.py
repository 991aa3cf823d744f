# @NAME@.py: an entry of the benchmark, which works as it is. Put your own mean in, then type
# @COMMAND@
from dpbench import OneDataset, validated

CARD = {  # facts that stand beside the scores
    "name": "@NAME@",
    "paper": "Dwork, McSherry, Nissim, Smith, TCC 2006",  # doi:... or arXiv:... becomes a link
    "notions": ["pure"],  # any of pure, zcdp, gdp, approx; a rank in most classes needs all four
    "relations": ["replace"],  # replace or add_remove; problems of others are not scored
    "assumptions": "few records are more than 4 standard deviations from the mean",
    "proof": "Example 1 of the paper: replacing a record moves the sum by at most the width",
    "division": "declared",  # or open: public.law has the shape of the distribution, too
}


@validated
class WideClip(OneDataset):
    low: float
    high: float
    # For more notions, add: notions = (dpbench.PureDP, dpbench.ZCDP), and noise for each budget.

    # Told: the records x, an array of shape (n,), or (n, d) if the class sets multivariate = True;
    # the budget, with its parameters (epsilon; rho; mu; epsilon and delta); rng, the only source
    # of random numbers. Returned: the private mean, a float, or an array of shape (d,).
    def one(self, x, budget, rng):
        noise = rng.laplace(0, (self.high - self.low) / (budget.epsilon * len(x)))
        return x.clip(self.low, self.high).mean() + noise


# A mean in the local model derives from dpbench.OneRecord: docs/howto/benchmark.md shows one.
# Told: what is public about one problem, before any record is seen: n (None if it is private), d,
# budget, local, radius (bound on the norm of the mean, or None), and records: "binary",
# "gaussian" with standard deviation scale, "moments" with moments of order k at most 1, or, in
# dpbench-real-v2, "variance" with standard deviation at most scale.
# Returned: an estimator for this problem, or None for no answer.
def entry(public):
    if public.local or public.d > 1 or public.records == "moments":
        return None
    if public.records == "binary":
        return WideClip(low=0, high=1)
    if public.radius is None:
        return None
    far = public.radius + 4 * public.scale
    return WideClip(low=-far, high=far)
