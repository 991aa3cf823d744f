"""Privacy budgets, mechanisms, and the ledger that adds up their costs."""

from dpbench.privacy.budgets import AMOUNTS, GDP, ZCDP, ApproxDP, Budget, NonPrivate, PureDP
from dpbench.privacy.ledger import Ledger, OverdraftError

__all__ = [
    "AMOUNTS",
    "GDP",
    "ZCDP",
    "ApproxDP",
    "Budget",
    "Ledger",
    "NonPrivate",
    "OverdraftError",
    "PureDP",
]
__dir__ = __all__.copy  # what completion shows; helpers and submodules are no API
