"""Jobs: what a configuration asks for, run in a folder."""
