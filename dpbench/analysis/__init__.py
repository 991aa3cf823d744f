"""Pure functions from errors to summaries, exponents and verdicts."""
