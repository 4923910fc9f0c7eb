"""The checksum by which a stale native binary is told: it follows the Rust sources and nothing else."""

from pathlib import Path

from pgassay.native.binary import source_id


def workspace(folder: Path) -> Path:
    (folder / "crates" / "one" / "src").mkdir(parents=True)
    (folder / "Cargo.toml").write_text("[workspace]\n")
    (folder / "crates" / "one" / "Cargo.toml").write_text("[package]\n")
    (folder / "crates" / "one" / "src" / "main.rs").write_text("fn main() {}\n")
    return folder


def test_it_follows_contents_and_names(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    main = root / "crates" / "one" / "src" / "main.rs"
    seen = [source_id(root)]
    main.write_text("fn main() { }\n")
    seen.append(source_id(root))
    main.rename(main.with_name("lib.rs"))
    seen.append(source_id(root))
    (root / "Cargo.lock").write_text("version = 4\n")
    seen.append(source_id(root))
    assert len(set(seen)) == 4
    assert all(each is not None and len(each) == 8 for each in seen)
    main.with_name("notes.txt").write_text("no source")
    assert source_id(root) == seen[-1]


def test_a_package_without_sources_has_none(tmp_path: Path) -> None:
    assert source_id(tmp_path) is None
    (tmp_path / "Cargo.toml").write_text("[workspace]\n")
    assert source_id(tmp_path) is None
