"""The tuning guide: each of its commands is run, and prints what the guide shows.

    TIDEGATE_BLESS=1 … tests/real/run.py tuning

writes what they print into the guide. Read the difference before you commit it.
"""

import os
import pathlib
import re
import subprocess

from harness import GUIDES, START_S, Tidegate, binary, host_port, require

GUIDE = GUIDES / "tuning.md"
FILES = GUIDES / "tuning"


def commands_of(block):
    """The commands of a block, each with the output that is shown for it. `> ` continues a command."""
    commands = []
    for line in block.splitlines(keepends=True):
        if line.startswith("$ "):
            commands.append([line, ""])
        elif line.startswith("> ") and not commands[-1][1]:
            commands[-1][0] += line
        else:
            commands[-1][1] += line
    return commands


def run(shown, server):
    """Runs a command as it is shown in the guide, but with the addresses of this server; returns what it prints."""
    command = re.sub(r"^[$>] ", "", shown, flags=re.M)
    for port, address in ((8080, server.http), (9090, server.admin)):
        command = command.replace(f"127.0.0.1:{port}", host_port(address))
    path = f"{pathlib.Path(binary()).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=server.path,
        env={**os.environ, "PATH": path, "LC_ALL": "C"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=START_S,
        check=False,
    )
    assert done.returncode == 0, f"{command}\nended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def test_every_command_of_the_guide_prints_what_it_shows():
    require("curl", "awk")
    text = GUIDE.read_text()
    files = {file.name: file.read_text() for file in FILES.iterdir()}
    with Tidegate(files.pop("policy.yaml"), files=files) as server:

        def check(block):
            found = ""
            for shown, expected in commands_of(block[1]):
                printed = run(shown, server)
                if not os.environ.get("TIDEGATE_BLESS"):
                    assert printed == expected, f"{shown}prints\n{printed}\nand the guide shows\n{expected}"
                found += shown + printed
            return f"```console\n{found}```"

        found, blocks = re.subn(r"^```console\n(.*?)^```", check, text, flags=re.M | re.S)
    assert blocks >= 8, "the commands of the guide are not found any more"
    if os.environ.get("TIDEGATE_BLESS"):
        GUIDE.write_text(found)
