"""Jobs: checked configurations that run in a folder and write their results there."""
