"""The engine's vocabulary: one file per block, each with its schema and the tensors it implies."""
