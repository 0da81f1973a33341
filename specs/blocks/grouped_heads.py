"""Heads in groups of equal size, each of which shares keys."""


def check_groups(num_heads: int, num_groups: int) -> None:
    """Raises ValueError, which a schema reports with its place, where the groups are not equal."""
    if num_heads % num_groups:
        raise ValueError(
            f"num_heads must be a multiple of num_groups, found {num_heads} and {num_groups}"
        )
