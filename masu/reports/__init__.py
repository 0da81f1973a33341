"""Reports of checks in the formats that other programs read."""
