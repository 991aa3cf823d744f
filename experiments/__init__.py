"""Scripts that regenerate the paper figures and performance measurements."""
