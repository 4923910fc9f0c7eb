"""A source tree as small as can be that meson builds and pgassay takes for PostgreSQL's, and clones of it."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

CATALOG = "202506291"
FILES = {
    "meson.build": """project('postgresql',
  ['c'],
  version: '18.6',
  license: 'PostgreSQL',
)
executable('postgres', 'src/backend/main.c', 'src/backend/other.c', install: true)
executable('initdb', 'src/bin/initdb.c', install: true)
""",
    "meson_options.txt": "",
    "README.md": "first\n",
    "src/backend/main.c": """#include <stdio.h>
extern int other(void);
int main(void) { puts("postgres (PostgreSQL) 18.6"); return other(); }
""",
    "src/backend/other.c": "int other(void);\nint other(void) { return 0; }\n",
    "src/bin/initdb.c": "int main(void) { return 0; }\n",
    "src/include/catalog/catversion.h": f"#define CATALOG_VERSION_NO\t{CATALOG}\n",
    "src/include/catalog/pg_control.h": "#define PG_CONTROL_VERSION\t1800\n",
    "src/include/storage/bufpage.h": "#define PG_PAGE_LAYOUT_VERSION\t\t4\n",
    "src/include/access/xlog_internal.h": "#define XLOG_PAGE_MAGIC 0xD118\t/* WAL */\n",
}
_CONFIGURE = """#!/bin/sh
PACKAGE_NAME='PostgreSQL'
PACKAGE_VERSION='16devel'
: <<HELP
  --with-icu              build with ICU support
  --without-zlib          do not use Zlib
  --with-ssl=LIB          use LIB for SSL/TLS support (openssl)
HELP
sources=$(cd "$(dirname "$0")" && pwd)
mkdir -p src/backend contrib
for word in "$@"; do
  case "$word" in
    --prefix=*) prefix=${word#*=} ;;
    CFLAGS=*) cflags=${word#*=} ;;
    LDFLAGS=*) ldflags=${word#*=} ;;
  esac
done
cat > src/Makefile.global <<END
prefix = $prefix
CC = $CC
CFLAGS = $cflags
LDFLAGS = $ldflags
sources = $sources
END
for place in . contrib src/backend; do cp "$sources/$place/GNUmakefile.in" "$place/GNUmakefile"; done
"""
# The same tree from before there was a meson.build.
FILES_OF_MAKE = {name: text for name, text in FILES.items() if not name.startswith("meson")} | {
    "configure": _CONFIGURE,
    "GNUmakefile.in": """all install:
\t$(MAKE) -C src/backend $@
""",
    "contrib/GNUmakefile.in": """include ../src/Makefile.global
all: earth.so
earth.so: $(sources)/contrib/earth.c
\t$(CC) $(CFLAGS) -fPIC -shared -o $@ $<
install: all
\tinstall -D earth.so $(DESTDIR)$(prefix)/lib/earth.so
""",
    "contrib/earth.c": "int earth(void);\nint earth(void) { return 1; }\n",
    "src/backend/GNUmakefile.in": """include ../Makefile.global
VPATH = $(sources)/src/backend
all: postgres initdb
postgres: main.o other.o
\t$(CC) $(CFLAGS) $^ $(LDFLAGS) -o $@
initdb: $(sources)/src/bin/initdb.c
\t$(CC) $(CFLAGS) $< $(LDFLAGS) -o $@
%.o: %.c
\t$(CC) $(CFLAGS) -c -o $@ $<
install: all
\tinstall -D postgres $(DESTDIR)$(prefix)/bin/postgres
\tinstall -D initdb $(DESTDIR)$(prefix)/bin/initdb
""",
    "src/backend/main.c": FILES["src/backend/main.c"].replace("18.6", "16devel"),
}
_IDENTITY = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org")


def write_tree(folder: Path, files: Mapping[str, str] = FILES) -> Path:
    """Write the tree into a new folder and return it."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(0o755 if content.startswith("#!") else 0o644)
    return folder


def git(clone: Path, *arguments: str) -> str:
    """Run git in a clone and return what it printed."""
    command = ["git", "-C", str(clone), *_IDENTITY, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def clone_of_one(folder: Path, files: Mapping[str, str] = FILES) -> Path:
    """A clone with the tree as the one commit of its branch `master`."""
    write_tree(folder, files)
    git(folder, "init", "--quiet", "--initial-branch=master")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=first")
    return folder


def commit(clone: Path, branch: str, name: str, content: str) -> str:
    """Put a commit on a new branch off master, in which one file has another content; return its hash."""
    git(clone, "checkout", "--quiet", "-b", branch, "master")
    (clone / name).write_text(content)
    git(clone, "commit", "--quiet", "--all", f"--message={branch}")
    found = git(clone, "rev-parse", "HEAD")
    git(clone, "checkout", "--quiet", "master")
    return found
