"""Where the files of a data set come from: a folder that was named, or else a download checked by its sha256.

A folder is named by `data_home=`, or by the environment variable FEBM_DATA. Its files are taken as they are, for
they may be newer than the ones known here. Without a folder the publisher's files are fetched once, into the cache.
"""

from __future__ import annotations

import dataclasses
import gzip
import os
from pathlib import Path
from typing import BinaryIO

from febm.errors import FebmError

VARIABLE = "FEBM_DATA"
SECONDS_OF_SILENCE = 30  # after which a server counts as out of reach


class MissingDataError(FebmError, FileNotFoundError):
    """The files of a data set are not where they were said to be, or cannot be fetched."""


@dataclasses.dataclass(frozen=True)
class Download:
    """A file of the publisher: where it is, in order of preference, and the sha256 it must have."""

    name: str
    sha256: str
    addresses: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class DataFiles:
    """The files of one data set.

    `choices` are the ways in which a folder may hold the data, in order of preference: names that have to be there
    together. A name may be a pattern (several files), and stands for the file with `.gz` after it as well.
    """

    owner: str
    choices: tuple[tuple[str, ...], ...]
    downloads: tuple[Download, ...]
    folder: str
    other_folders: tuple[str, ...] = ()

    def paths(self, data_home: str | os.PathLike[str] | None = None) -> list[Path]:
        """The files of the first choice there is, in the order of its names."""
        named = data_home if data_home is not None else os.environ.get(VARIABLE) or None
        if named is None:
            return [self._fetched(download) for download in self.downloads]
        home = Path(named).expanduser()
        where = f"data_home is {str(home)!r}" if data_home is not None else f"{VARIABLE} is {str(home)!r}"
        if not home.is_dir():
            raise MissingDataError(f"{self.owner}: {where}, which is not a folder; name one that holds {self.wanted}.")
        for names in self.choices:
            for folder in (home, *(home / below for below in (self.folder, *self.other_folders))):
                found = [_matches(folder, name) for name in names]
                if all(found):
                    return [path for paths in found for path in paths]
        raise MissingDataError(
            f"{self.owner}: {where}, which holds no file of this data set; put {self.wanted} there, or into "
            f"{self.folder}/ below it (plain or with .gz). {self._places}"
        )

    @property
    def wanted(self) -> str:
        """The names to look for, as words."""
        return ", or ".join(" and ".join(names) for names in self.choices)

    @property
    def _places(self) -> str:
        return "The publisher's: " + ", ".join(download.addresses[0] for download in self.downloads) + "."

    def _fetched(self, download: Download) -> Path:
        """The file in the cache, fetched before if it is not there yet."""
        import pooch
        import requests

        folder, tried = cache_folder() / self.folder, []
        downloader = pooch.HTTPDownloader(timeout=SECONDS_OF_SILENCE)
        for address in download.addresses:
            try:
                fetched = pooch.retrieve(
                    address, f"sha256:{download.sha256}", download.name, folder, downloader=downloader
                )
            except ValueError as error:  # requests' own errors are OSErrors, but for an address that is none
                if isinstance(error, requests.RequestException):
                    tried.append(f"{address} ({error})")
                else:
                    tried.append(f"{address} (another sha256 than {download.sha256}, so it was not kept)")
            except OSError as error:
                tried.append(f"{address} ({_reason(error)})")
            else:
                return Path(fetched)
        raise MissingDataError(
            f"{self.owner}: {download.name} is not in the cache ({folder}) and could not be fetched: tried "
            f"{'; '.join(tried)}. Without a network, put {self.wanted} into a folder and give data_home=folder, or set "
            f"{VARIABLE} to it."
        )


def cache_folder() -> Path:
    """The folder of this user for what was fetched."""
    import pooch

    return Path(pooch.os_cache("febm"))


def opened(path: Path) -> BinaryIO:
    """The file for reading, unpacked if it is compressed: what it holds decides, not its name."""
    return gzip.open(path) if is_compressed(path) else path.open("rb")  # type: ignore[return-value]


def is_compressed(path: Path) -> bool:
    """Whether the file begins as gzip files do."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _matches(folder: Path, name: str) -> list[Path]:
    """The files of this name or pattern in order, each plain or compressed, the plain one where there are both."""
    plain = {path.name: path for path in folder.glob(name) if path.is_file()}
    packed = {path.name.removesuffix(".gz"): path for path in folder.glob(f"{name}.gz") if path.is_file()}
    return [path for _, path in sorted((packed | plain).items())]


def _reason(error: OSError) -> str:
    """What went wrong, in a few words; the errors of a connection are chains of nested names otherwise."""
    import requests

    if isinstance(error, requests.Timeout):
        return f"no answer within {SECONDS_OF_SILENCE} seconds"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    return str(error)
