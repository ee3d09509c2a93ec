"""Errors that need no other library, so that a file can be refused at once."""


class FebmError(Exception):
    """Base of the errors that only febm raises."""


class FormatError(FebmError, ValueError):
    """A file is not what it should be: not a febm model, or of a newer febm, or not the data it is named after."""
