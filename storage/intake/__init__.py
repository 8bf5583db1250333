"""How logs come in: files, watched folders and streams, followed as they grow, each byte exactly once."""
