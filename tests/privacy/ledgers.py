"""Ledgers and mechanisms for tests."""

from __future__ import annotations

from dpbench.privacy import Budget, Ledger
from tests.support import rng


def ledger(budget: Budget, seed: int = 0) -> Ledger:
    return Ledger(budget, rng(seed))
