"""Exact errors of estimators, computed without samples and without calls of the estimators."""
