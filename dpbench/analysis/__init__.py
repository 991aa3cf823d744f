"""Analyse the errors of a run: compute summaries, exponents, and verdicts on claims."""
