"""Labelled arrays in files: netCDF-4, which is HDF5, by way of xarray and h5netcdf.

Such a file holds numbers and texts, and no code.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from lastlayer.files import UnreadableError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["read_dataset", "write_dataset"]


def read_dataset(path: str | Path) -> "xr.Dataset":
    """Read a dataset.

    Raises
    ------
    UnreadableError
        Where the file is missing or damaged.
    """
    import xarray as xr

    try:
        # without the encoding, what is made of it is written as if it had just been made
        return xr.load_dataset(path, engine="h5netcdf").drop_encoding()
    except Exception as error:  # h5py raises errors of many kinds on a damaged file
        raise UnreadableError(Path(path), f"it is not a netCDF file ({error})") from None


def write_dataset(dataset: "xr.Dataset", path: str | Path) -> None:
    """Write a dataset; the same content gives the same bytes."""
    dataset.to_netcdf(path, engine="h5netcdf")
