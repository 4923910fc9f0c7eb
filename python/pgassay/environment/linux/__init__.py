"""What the kernel tells and does: machine, devices, mounts, page cache, memory, system calls."""
