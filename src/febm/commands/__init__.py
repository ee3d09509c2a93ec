"""The commands of `febm` that take tables and models: one module a command, and the ideas that they share.

`terminal` says how a command speaks and ends, `options` how its options are spelled, `targets` what it may write. These
and the modules of the commands are light, so that help answers at once: pandas and JAX are imported by what runs.
"""
