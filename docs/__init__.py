"""Pages of the documentation, and the scripts that generate the reference."""
