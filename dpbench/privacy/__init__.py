"""Privacy budgets, mechanisms and the ledger that counts what they cost."""

from dpbench.privacy.budgets import AMOUNTS, ZCDP, ApproxDP, Budget, NonPrivate, PureDP
from dpbench.privacy.ledger import Ledger, OverdraftError

__all__ = [
    "AMOUNTS",
    "ZCDP",
    "ApproxDP",
    "Budget",
    "Ledger",
    "NonPrivate",
    "OverdraftError",
    "PureDP",
]
