"""Exact errors of estimators, computed without drawing and without calling them."""
