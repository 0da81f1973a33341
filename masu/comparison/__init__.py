"""Two packages, and in what they differ."""
