"""Planning, running and storing blocks of trials."""
