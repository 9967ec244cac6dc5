"""Runs one command and writes what it cost: measure.py REPORT OUTPUT COMMAND…

A process of its own, because Linux carries the peak RSS of the process that forks over into the
child's figure: what this small interpreter needs (about 10 MB) is the least that can be reported,
whatever the benchmark itself holds in memory.
"""

import json
import os
import sys
import time


def main():
    report, output, *command = sys.argv[1:]
    out = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, out, 2)]
    begin = time.perf_counter()
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - begin
    with open(report, "w", encoding="utf-8") as file:
        json.dump(
            {
                "exit": os.waitstatus_to_exitcode(status),
                "wall_s": round(wall, 4),
                "cpu_s": round(usage.ru_utime + usage.ru_stime, 4),
                "rss_mb": round(usage.ru_maxrss / 1024, 1),
            },
            file,
        )


main()
