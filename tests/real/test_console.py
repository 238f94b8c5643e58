"""The console in a real browser: its first minutes, its screens under load, who sees what, and what happens when something ends."""

import os
import re
import signal
import subprocess
import threading

from console_runner import ADMIN, api, new_token, run
from harness import ROOT, Tidegate, http_request, wait_for
from postgres import PostgresServer

POLICY = """
version: 1
limits:
  - { name: per-user, key: [user], sustained: { rate: 5 }, burst: { capacity: 10 } }
  - { name: per-address, key: [ip], sustained: { rate: 50 }, burst: { capacity: 100 } }
tenants:
  - { id: acme, rate_limit: { sustained: { rate: 9 } } }
  - { id: shop, parent: acme, rate_limit: { sustained: { rate: 3 } } }
  - { id: other, rate_limit: { sustained: { rate: 9 } } }
"""


class Load:
    """Requests of a few clients, until the test ends."""

    def __init__(self, server):
        self.server, self.ends = server, threading.Event()
        self.thread = threading.Thread(target=self.send, daemon=True)

    def send(self):
        number = 0
        while not self.ends.wait(0.01):
            number += 1
            user, tenant = f"user-{number % 7}", ("acme", "shop", "other")[number % 3]
            body = f'{{"user":"{user}","ip":"203.0.113.{number % 5}","tenant":"{tenant}"}}'
            try:
                http_request(self.server.http, "POST", "/v1/check", body)
            except OSError:
                pass

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()


def with_database(folder="data", ports=None, url=None):
    """A server on SQLite in that folder, or on PostgreSQL."""
    if url is None:
        return Tidegate(None, "--data", str(folder), environment={"TIDEGATE_ADMIN_TOKEN": ADMIN}, ports=ports)
    settings = f'database: {{ url: "{url}" }}\n'
    return Tidegate(None, settings=settings, environment={"TIDEGATE_ADMIN_TOKEN": ADMIN}, ports=ports)


def put_policy(server):
    api(server, "PUT", "/policy", POLICY, "application/yaml")


def test_types():
    """The checker of TypeScript finds nothing in the modules, whose types are in comments."""
    packages = os.environ["NODE_PATH"].split(os.pathsep)[0]
    command = ["node", f"{packages}/typescript/bin/tsc", "--project", str(ROOT / "crates" / "server" / "console")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rendering():
    with Tidegate(None) as server:
        run("view", server)


def test_quick_start():
    with Tidegate(None) as server:
        token = wait_for("the token", lambda: re.search(r"tga_\S+", server.output()))[0]
        commands = re.search(r"^Try:\n((?:  .+\n)+)", server.output(), re.M)[1]
        commands = [line.strip() for line in commands.splitlines()]

        def type_command(text):
            return subprocess.run(text, shell=True, capture_output=True, text=True, timeout=60, check=True).stdout

        run("quick_start", server, {"token": token, "commands": commands}, {"type": type_command})


def check_screens(url=None):
    with with_database(url=url) as server:
        put_policy(server)
        others = []
        handlers = {
            "start_other": lambda: others.append(with_database(server.path / "data", url=url)),
            "kill_other": lambda: others[0].stop(signal.SIGKILL),
        }
        try:
            with Load(server):
                run("screens", server, {"admin_token": ADMIN}, handlers)
        finally:
            for one in others:
                one.stop()


def test_screens_on_sqlite():
    check_screens()


def test_screens_on_postgresql():
    with PostgresServer() as postgres:
        check_screens(postgres.url)


def test_roles():
    with with_database() as server:
        put_policy(server)
        tokens = {role: new_token(server, role)["token"] for role in ("viewer", "operator", "editor", "admin")}
        tokens["partner"] = new_token(server, "operator", "acme")["token"]
        with Load(server):
            run("roles", server, {"tokens": tokens})


def test_recovery():
    with with_database() as server:
        put_policy(server)
        operator = new_token(server, "operator")
        started = []

        def start():
            started.append(with_database(server.path / "data", {"admin": server.admin[1]}))

        handlers = {
            "stop": lambda: server.stop(),
            "start": start,
            "revoke": lambda: api(started[0], "DELETE", f"/tokens/{operator['id']}"),
            "token": lambda: new_token(started[0], "operator")["token"],
        }
        try:
            run("recovery", server, {"tokens": {"operator": operator["token"]}}, handlers)
        finally:
            for one in started:
                one.stop()
