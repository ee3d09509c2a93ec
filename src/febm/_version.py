"""The version, in its one place: packaging, the command line and saved models all read it here."""

__version__ = "0.1.0"
