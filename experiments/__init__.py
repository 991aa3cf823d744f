"""Scripts that regenerate the figures of papers and the performance measurements."""
