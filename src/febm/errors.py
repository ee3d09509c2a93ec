"""The errors febm raises on purpose; plain bad arguments are `ValueError` and `TypeError`."""

import sklearn.exceptions

from febm.plain_errors import FebmError as FebmError
from febm.plain_errors import FormatError as FormatError


class NotFittedError(FebmError, sklearn.exceptions.NotFittedError):
    """Something was asked of a model or a basis before `fit`."""
