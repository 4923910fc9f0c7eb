#!/usr/bin/env python3
"""Stands where the native binary would (PGASSAY_NATIVE): writes a conversation down, or holds a recorded one.

FROZEN_TRANSCRIPTS is the folder of transcripts, COMMAND-NUMBER.jsonl, a line ["in" or "out", document] each;
FROZEN_NATIVE the binary that is listened to. Without it the transcript is replayed: what comes in is written
to COMMAND-NUMBER.heard in FROZEN_HEARD, and answered as it was. FROZEN_VERSION answers `--version` then.
"""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path


def _number(folder: Path, command: str, suffix: str) -> int:
    return len(list(folder.glob(f"{command}-*{suffix}"))) + 1


def record(command: str, native: str, folder: Path) -> int:
    """Pass every line on, both ways, and write it down in the order in which it was seen."""
    lock = threading.Lock()
    target = folder / f"{command}-{_number(folder, command, '.jsonl')}.jsonl"
    with (
        target.open("w") as transcript,
        subprocess.Popen([native, command], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process,
    ):
        assert process.stdin is not None and process.stdout is not None

        def keep(way: str, line: bytes) -> None:
            with lock:
                transcript.write(json.dumps([way, json.loads(line)]) + "\n")
                transcript.flush()

        def listen() -> None:
            assert process.stdin is not None
            for line in sys.stdin.buffer:
                keep("in", line)
                process.stdin.write(line)
                process.stdin.flush()
            process.stdin.close()

        threading.Thread(target=listen, daemon=True).start()
        for line in process.stdout:
            keep("out", line)
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
        status = process.wait()
    # The thread may wait for a line that never comes.
    os._exit(status if status >= 0 else 128 - status)


def replay(command: str, folder: Path, heard: Path) -> int:
    """Answer as recorded; a request is waited for wherever one was recorded."""
    number = _number(heard, command, ".heard")
    lines = (folder / f"{command}-{number}.jsonl").read_text("utf-8").splitlines()
    with (heard / f"{command}-{number}.heard").open("w") as log:
        for way, document in map(json.loads, lines):
            if way == "out":
                print(json.dumps(document), flush=True)
                continue
            line = sys.stdin.readline()
            if not line:
                break
            log.write(line)
            log.flush()
        log.writelines(sys.stdin)
    return 0


def main() -> int:
    command = sys.argv[1]
    native = os.environ.get("FROZEN_NATIVE")
    if command == "--version":
        if native:
            return subprocess.run([native, command], check=False).returncode
        print(os.environ["FROZEN_VERSION"])
        return 0
    transcripts = Path(os.environ["FROZEN_TRANSCRIPTS"])
    if native:
        return record(command, native, transcripts)
    return replay(command, transcripts, Path(os.environ["FROZEN_HEARD"]))


if __name__ == "__main__":
    sys.exit(main())
