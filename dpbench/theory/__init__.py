"""Predictions of theorems: rates, instance families, lower bounds and exact errors."""
