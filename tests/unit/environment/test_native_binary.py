"""Which native binary is taken, and what helps where it is none or another; scripts stand in for binaries."""

from pathlib import Path

import pytest

from pgassay import __version__
from pgassay.errors import UsageError
from pgassay.native import binary as module


def place(path: Path, answer: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{answer}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package as a wheel leaves it: no sources of Rust above it."""
    folder = tmp_path / "lib" / "site-packages" / "pgassay"
    folder.mkdir(parents=True)
    monkeypatch.delenv("PGASSAY_NATIVE", raising=False)
    monkeypatch.setattr(module, "_PACKAGE", folder)
    monkeypatch.setattr(module, "_CHECKOUT", folder.parents[1])
    monkeypatch.setattr(module, "_SOURCES", folder / "bin" / "pgassay-native.sources")
    return folder


def test_an_installed_package_takes_the_binary_that_came_with_it(package: Path) -> None:
    native = place(package / "bin" / "pgassay-native", f"pgassay-native {__version__} 0a1b2c3d")
    assert module.binary() == native
    (package / "bin" / "pgassay-native.sources").write_text("0a1b2c3d\n")
    assert module.binary() == native


def test_one_of_other_sources_is_refused_with_what_helps_there(package: Path) -> None:
    place(package / "bin" / "pgassay-native", f"pgassay-native {__version__} 0a1b2c3d")
    (package / "bin" / "pgassay-native.sources").write_text("ffffffff\n")
    with pytest.raises(UsageError, match="not built from the Rust sources here; install pgassay again"):
        module.binary()


def test_another_that_was_named_is_held_against_the_same(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (package / "bin").mkdir()
    (package / "bin" / "pgassay-native.sources").write_text("0a1b2c3d\n")
    named = place(tmp_path / "mine", f"pgassay-native {__version__} 11111111")
    monkeypatch.setenv("PGASSAY_NATIVE", str(named))
    with pytest.raises(UsageError, match="not built from the Rust sources"):
        module.binary()
    place(named, f"pgassay-native {__version__} 0a1b2c3d")
    # The answer is remembered for a file as it was: this one was written again.
    module._check_version.cache_clear()
    assert module.binary() == named


def test_without_one_the_remedy_is_of_the_place(package: Path) -> None:
    with pytest.raises(UsageError, match="has not been built; install pgassay again, from a wheel"):
        module.binary()
    (package.parents[1] / "crates").mkdir()
    with pytest.raises(UsageError, match="has not been built; type `make setup`"):
        module.binary()
