"""The JavaScript that makes a report's charts live, kept after it was bundled once."""

from importlib.metadata import version
from pathlib import Path

# The bundler shortens names, but the export stays the last statement.
_EXPORT_WITHIN = 200
_EXPORT = "window.vegaEmbed = vegaEmbed;"


def chart_library() -> str:
    """The library as vl-convert bundles it: offline, but in seconds, so the home folder keeps it.

    Where that folder can't be written to it is bundled every time.
    """
    import vl_convert

    from pgassay.environment.home import home_path
    from pgassay.errors import MeasurementError
    from pgassay.record.documents import write_file

    kept = home_path() / "chart-library" / f"vl-convert-{version('vl-convert-python')}.js"
    found = _read(kept)
    if found:
        return found
    bundled: str = vl_convert.javascript_bundle(_EXPORT)
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_file(kept, bundled.encode())
    except (OSError, MeasurementError):
        return bundled
    return bundled


def _read(path: Path) -> str:
    try:
        found = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    # A damaged copy would leave every page without live charts: bundle it again.
    return found if "window.vegaEmbed" in found[-_EXPORT_WITHIN:] else ""
