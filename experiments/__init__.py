"""Scripts that regenerate figures and measurements."""
