"""End-to-end tests of the command line."""
