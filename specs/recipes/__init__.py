"""Ready-made recipes, a TOML file each."""
