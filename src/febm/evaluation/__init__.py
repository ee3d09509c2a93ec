"""Yardsticks for models of functions: two-sample tests, prediction, calibration, embeddings, chains.

Each works on any two sets of curves, or on any `Process`, whether or not a model of this library made them.
"""
