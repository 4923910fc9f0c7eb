"""How setuptools makes the wheel, copied beside the package by `make wheel`: one platform, any Python."""

import os
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.dist import Distribution


class OfOnePlatform(Distribution):
    """Goes where files of one platform belong, since it holds a program."""

    def has_ext_modules(self) -> bool:
        """Whether it is of one platform."""
        return True


class AnyPython(bdist_wheel):
    """The program asks nothing of Python, so its version and ABI are left open."""

    def get_tag(self) -> tuple[str, str, str]:
        """(Python, ABI, platform) of the file's name."""
        return "py3", "none", os.environ["PGASSAY_WHEEL_PLATFORM"]


def files_below_share() -> list[tuple[str, list[str]]]:
    """The man page and the completions of shells, each to the folder of its own below the prefix."""
    files = sorted(path for path in Path("share").rglob("*") if path.is_file())
    return [(str(path.parent), [str(path)]) for path in files]


setup(distclass=OfOnePlatform, cmdclass={"bdist_wheel": AnyPython}, data_files=files_below_share())
