"""Compiled twins of encoders: the same bits as the numpy code that they stand in for, sooner."""
