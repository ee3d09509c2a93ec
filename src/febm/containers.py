"""The ways into `Curves`: from arrays, tables, images, scikit-fda and xarray, each read in a room of its own.

A container of another library is copied once, because its owner may go on to change it. No library is imported for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from febm.ragged import checked

if TYPE_CHECKING:
    from febm.curves import Curves
    from febm.ragged import FlatCurves


class FromContainers:
    """Constructors of `Curves`, which inherits them."""

    __slots__ = ()

    @classmethod
    def from_arrays(cls, xs: Any, ys: Any, ids: Any = None, covariates: Any = None) -> Curves:
        """Curves from lists with one entry per curve: x `(m,)` or `(m, d_x)`, y `(m,)` or `(m, d_y)`.

        Examples
        --------
        >>> import febm
        >>> febm.Curves.from_arrays([[0, 1, 4], [2, 3]], [[1.0, 2.0, 5.0], [0.5, 0.7]])
        <Curves: 2 curves, 2 to 3 points each, x in [0, 4], 1 output>
        """
        from febm.io_arrays import read_arrays

        return _curves("from_arrays", read_arrays(xs, ys, ids, covariates))

    @classmethod
    def from_grid(cls, x: Any, Y: Any, ids: Any = None, covariates: Any = None) -> Curves:
        """Curves on a common grid: x `(m,)` or `(m, d_x)`, Y `(n, m)` or `(n, m, d_y)`, NaN is missing.

        Examples
        --------
        >>> import febm
        >>> febm.Curves.from_grid([0, 1, 2], [[1.0, 2.0, 4.0], [0.0, float("nan"), 3.0]])
        <Curves: 2 curves, 2 to 3 points each, x in [0, 2], 1 output>
        """
        from febm.io_arrays import read_grid

        return _curves("from_grid", read_grid(x, Y, ids, covariates))

    @classmethod
    def from_frame(cls, df: Any, *, curve: Any, x: Any, y: Any, covariates: Any = None) -> Curves:
        """Curves from a long table, one row per point.

        Parameters
        ----------
        df : pandas or polars DataFrame
        curve : column name, or a list of them
            What tells curves apart; they come in order of first appearance.
        x, y : column name, or a list of them
            Coordinates and outputs; the points of a curve stay in row order. Rows in errors count from 0.
        covariates : list of column names, optional
            Columns that are constant within a curve.

        Examples
        --------
        >>> import pandas as pd
        >>> import febm
        >>> df = pd.DataFrame({"day": [1, 1, 2], "hour": [0.0, 6.0, 3.0], "demand": [5.0, 9.0, 7.0]})
        >>> febm.Curves.from_frame(df, curve="day", x="hour", y="demand")
        <Curves: 2 curves, 1 to 2 points each, x in [0, 6], 1 output>
        """
        from febm.io_frame import read_frame

        return _curves("from_frame", read_frame(df, curve=curve, x=x, y=y, covariates=covariates))

    @classmethod
    def from_wide(cls, df: Any, *, x: Any = None, ids: Any = None, covariates: Any = None) -> Curves:
        """Curves from a wide table, one row per curve and one column per point; missing values are missing.

        Parameters
        ----------
        df : pandas or polars DataFrame
        x : (m,) or (m, d_x), optional
            Where the columns of values were observed, in their order. When left out the names of the columns say it:
            numbers, or text such as "0.5".
        ids : column name, or a list of them, optional
            What the curves are called; the index of a pandas table, or 0, 1, 2, …, when left out.
        covariates : list of column names, optional
            What is known of each curve as a whole. All other columns are values.

        Examples
        --------
        >>> import pandas as pd
        >>> import febm
        >>> df = pd.DataFrame({"site": ["north", "south"], "0": [1.0, 2.0], "6.5": [3.0, None]})
        >>> febm.Curves.from_wide(df, ids="site")
        <Curves: 2 curves, 1 to 2 points each, x in [0, 6.5], 1 output>
        """
        from febm.io_wide import read_wide

        return _curves("from_wide", read_wide(df, x=x, ids=ids, covariates=covariates))

    @classmethod
    def from_images(cls, images: Any, labels: Any = None, ids: Any = None, covariates: Any = None) -> Curves:
        """Images as functions on the unit square.

        Parameters
        ----------
        images : (n, height, width), or (n, height, width, colours) with an output for each colour
            Bytes from 0 to 255, which become values from 0 to 1 and stay bytes until they are looked at; or floats,
            which stay as they are, NaN for a missing pixel.
        labels : n labels, optional
            The covariate `label`.

        Notes
        -----
        A pixel is the point at its centre, as `febm.grid2d` has it: ((row + ½)/height, (column + ½)/width).

        Examples
        --------
        >>> import numpy as np
        >>> import febm
        >>> febm.Curves.from_images(np.zeros((3, 28, 28), np.uint8), labels=["boot", "bag", "boot"])
        <Curves: 3 curves, 784 points each, ..., 1 output, covariates: label>
        """
        from febm.images import from_images

        return from_images(images, labels, ids=ids, covariates=covariates)

    @classmethod
    def from_skfda(cls, fd: Any, *, grid_points: Any = None, ids: Any = None, covariates: Any = None) -> Curves:
        """Curves from functional data of scikit-fda, of any number of inputs and outputs.

        Parameters
        ----------
        fd : FDataGrid, FDataIrregular or FDataBasis
            Values that are NaN are missing.
        grid_points : the points along each axis, optional
            Where functions on a basis (an FDataBasis) are evaluated: numbers, or a list of numbers for each of several
            inputs. When left out, ten points for each basis function along an axis, evenly spaced over the domain.
        ids : sequence of labels, optional
            What the curves are called; `fd.sample_names` when left out, or 0, 1, 2, … where it has none.
        covariates : DataFrame, optional
            What is known of each curve as a whole, for which scikit-fda has no place.
        """
        from febm.io_skfda import read_skfda

        return _curves("from_skfda", read_skfda(fd, grid_points=grid_points, ids=ids, covariates=covariates))

    @classmethod
    def from_xarray(cls, obj: Any, *, curve: Any = None, x: Any = None, y: Any = None, output: Any = None) -> Curves:
        """Curves from labelled arrays of xarray.

        Parameters
        ----------
        obj : DataArray or Dataset
            An array has a dimension of curves, one for each input, and perhaps one of outputs; NaN is missing. A
            Dataset has such an array for each output, or is a contiguous ragged array of the climate and forecast
            conventions (a variable with the attribute `sample_dimension` counts the points of each curve).
        curve : dimension, optional
            That of curves, whose index gives the ids. When left out, "curve", or the first that is not among `x`; of
            two dimensions of which only the first has labels, and these are numbers that rise or fall, the second.
        x : dimension or coordinate, or a list of them, optional
            What says where values were observed: all other dimensions in their order, when left out, at 0, 1, 2, …
            where they have no labels. A coordinate may have the dimension of curves too: then each has its own points.
        y : variable, or a list of them, optional
            The outputs in a Dataset; all variables of more than one dimension (or along the points), when left out.
        output : dimension, optional
            That of outputs; "output", or none, when left out.

        Notes
        -----
        Other coordinates along the curves are covariates. So are variables of a Dataset along nothing else.
        """
        from febm.io_xarray import read_xarray

        return _curves("from_xarray", read_xarray(obj, curve=curve, x=x, y=y, output=output))


def _curves(action: str, flat: FlatCurves) -> Curves:
    from febm.curves import Curves

    return Curves._trusted(*checked(f"Curves.{action}", *flat))
