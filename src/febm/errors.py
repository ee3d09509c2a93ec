"""The errors febm raises on purpose; plain bad arguments are `ValueError` and `TypeError`."""

import sklearn.exceptions


class FebmError(Exception):
    """Base of the errors that only febm raises."""


class NotFittedError(FebmError, sklearn.exceptions.NotFittedError):
    """Something was asked of a model or a basis before `fit`."""


class FormatError(FebmError, ValueError):
    """A file is not what it should be: not a febm model, or of a newer febm, or not the data it is named after."""
