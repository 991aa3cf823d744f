"""Jobs, which compute the results of a configuration and write them to a folder."""
