"""A PostgreSQL server that ends with its test."""

import os
import pathlib
import shutil
import subprocess

from harness import free_port

# Makes the files in a new folder, runs the server until the input ends, and removes the files.
SCRIPT = """
folder=$(mktemp -d) && cd "$folder" || exit 1
"$0/initdb" -D data -U tidegate -A trust -E UTF8 --locale=C --no-sync >log 2>&1 || { cat log >&2; exit 1; }
options="-p $1 -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
"$0/pg_ctl" -D data -w -l server.log -o "$options" start >log 2>&1 </dev/null || { cat log server.log >&2; exit 1; }
echo ready
cat >/dev/null
"$0/pg_ctl" -D data -m immediate -w stop >/dev/null 2>&1
cd / && rm -rf "$folder"
"""


def programs():
    """The folder of `initdb`, which Debian does not put into PATH."""
    folders = [str(folder) for folder in pathlib.Path("/usr/lib/postgresql").glob("*/bin")]
    found = shutil.which("initdb", path=os.pathsep.join([*folders, os.environ["PATH"]]))
    if not found:
        raise AssertionError("PostgreSQL is missing: ./test real installs it")
    return str(pathlib.Path(found).parent)


class PostgresServer:
    """The server; `url` is that of its first database."""

    def __init__(self):
        port = free_port()
        self.url = f"postgres://tidegate@127.0.0.1:{port}/postgres"
        # PostgreSQL refuses to run as root.
        shell = ["runuser", "-u", "postgres", "--", "sh"] if os.getuid() == 0 else ["sh"]
        line = [*shell, "-c", SCRIPT, programs(), str(port)]
        self.script = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/")
        if self.script.stdout.readline() != "ready\n":
            raise AssertionError("PostgreSQL did not start; its messages are above")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.script.stdin.close()
        self.script.wait()
