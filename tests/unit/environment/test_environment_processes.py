"""What the kernel says of processes: the children of one, by its own lists and by a walk through all."""

import os
import subprocess
import sys
import time
from pathlib import Path

from pgassay.environment.linux.processes import PROC, children_of, process_stat


def test_children_that_have_ended_are_listed_until_they_are_waited_for() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as ended:
        deadline = time.monotonic() + 10
        while (stat := process_stat(ended.pid)) is not None and not stat.has_ended:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert ended.pid in children_of(os.getpid())
        ended.wait()
        assert ended.pid not in children_of(os.getpid())


def test_without_the_kernel_s_lists_all_processes_are_read(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        for pid in (os.getpid(), child.pid):
            (tmp_path / str(pid)).mkdir()
            (tmp_path / str(pid) / "stat").write_bytes((PROC / str(pid) / "stat").read_bytes())
        assert children_of(os.getpid(), tmp_path) == [child.pid]
        assert child.pid in children_of(os.getpid())
        assert child.stdin is not None
        child.stdin.close()
