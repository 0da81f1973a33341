"""How a package is proved: against an independent model, its source, or its own fingerprints."""
