"""Shared by all tests against real clients and proxies: a running server, an app behind a proxy, a proxy.

Uses only the standard library. Every process listens on a free port and ends with its test.
"""

import http.client
import http.server
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GUIDES = ROOT / "docs" / "guides"
# The policy of a server that is started without one.
QUICK_START = (ROOT / "examples" / "quick-start" / "policy.yaml").read_text()
START_S = 20


def binary():
    """The path of the server under test, from TIDEGATE_BIN."""
    path = os.environ.get("TIDEGATE_BIN")
    if not path:
        sys.exit("TIDEGATE_BIN is not set: set it to the path of the `tidegate` binary, such as target/release/tidegate")
    return str(pathlib.Path(path).resolve())


def free_port(neighbour=0):
    """A free port outside the system's ephemeral range, so that tests running in parallel do not take it.

    With `neighbour`, the port that is higher by this number is free too.
    """
    while True:
        port = random.randrange(10_000, 32_000 - neighbour)
        try:
            for one in {port, port + neighbour}:
                socket.create_server(("127.0.0.1", one)).close()
        except OSError:
            continue
        return port


def wait_for(what, condition, seconds=START_S):
    """Polls `condition` until it is true, and returns its value."""
    deadline = time.monotonic() + seconds
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.02)


def listens(address):
    try:
        socket.create_connection(address, timeout=1).close()
        return True
    except OSError:
        return False


def http_request(address, method, path, body=None, headers=None, tls=False):
    """Sends one request; returns the status, the headers by lower-case name, and the body. Any certificate will do."""
    if tls:
        trusting = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection(*address, timeout=START_S, context=trusting)
    else:
        connection = http.client.HTTPConnection(*address, timeout=START_S)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return response.status, headers, response.read().decode()
    finally:
        connection.close()


class Process:
    """A program that runs until its test ends."""

    def __init__(self, command, **options):
        self.folder = tempfile.TemporaryDirectory(prefix="tidegate-real-")
        self.path = pathlib.Path(self.folder.name)
        self.log = open(self.path / "log", "w+")
        self.running = subprocess.Popen(
            command(self.path), stdout=self.log, stderr=subprocess.STDOUT, cwd=self.path, **options
        )

    def output(self):
        return (self.path / "log").read_text(errors="replace")

    def check_running(self):
        if self.running.poll() is not None:
            raise AssertionError(f"ended with {self.running.returncode}:\n{self.output()}")

    def stop(self, how=signal.SIGTERM):
        """Ends the process and returns its exit status."""
        if self.running.poll() is None:
            self.running.send_signal(how)
        try:
            self.running.wait(START_S)
        except subprocess.TimeoutExpired:
            self.running.kill()
            self.running.wait()
        return self.running.returncode

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.stop()
        if error is not None:
            print(f"--- output of {type(self).__name__}\n{self.output()[-4000:]}", file=sys.stderr)
        self.log.close()
        self.folder.cleanup()


class Tidegate(Process):
    """The server with a policy, all listeners at free ports: `http`, `grpc`, `resp` and `admin` are their addresses.

    Without a policy (`None`) the arguments or the settings say where it is. `ports` has ports that must be certain ones.
    """

    COMMAND = "serve"

    def __init__(self, policy, *arguments, settings=None, environment=None, files=None, ports=None):
        def command(path):
            self.prepare(path)
            for name, text in (files or {}).items():
                (path / name).write_text(text)
            line = [binary(), self.COMMAND, *arguments]
            if policy is not None:
                (path / "policy.yaml").write_text(policy)
                line += ["--policy", "policy.yaml"]
            if settings is not None:
                (path / "settings.yaml").write_text(settings)
                line += ["--config", "settings.yaml"]
            for listener in ("http", "grpc", "resp", "admin"):
                line += [f"--{listener}", f"127.0.0.1:{(ports or {}).get(listener, 0)}"]
            return line

        super().__init__(command, env={**os.environ, **(environment or {})})
        self.addresses = wait_for("the addresses", self.printed_addresses)
        for listener, address in self.addresses.items():
            setattr(self, listener, address)
        tls = re.search(r"^\s*admin\s+https:", self.output(), re.M) is not None
        wait_for("the server", lambda: http_request(self.admin, "GET", "/readyz", tls=tls)[0] == 200)

    def prepare(self, path):
        """Puts further files into its folder before it starts; for subclasses."""

    def printed_addresses(self):
        self.check_running()
        lines = re.findall(r"^\s*(http|grpc|resp|admin)\s+\S*?([0-9.]+):([0-9]+)\b", self.output(), re.M)
        return {name: (host, int(port)) for name, host, port in lines} if len(lines) == 4 else None

    def resident_bytes(self):
        status = pathlib.Path(f"/proc/{self.running.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


class App:
    """The app behind a proxy: it echoes each request as JSON with status 200. `/status/403` answers with that status."""

    def __init__(self):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                length = int(self.headers.get("Content-Length") or 0)
                request = {
                    "method": self.command,
                    "path": self.path,
                    "headers": {name.lower(): value for name, value in self.headers.items()},
                    "body": self.rfile.read(length).decode(),
                }
                body = json.dumps(request).encode()
                wanted = re.match(r"/status/(\d{3})", self.path)
                self.send_response(int(wanted[1]) if wanted else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_PUT = do_DELETE = do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = self.server.server_address
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Proxy(Process):
    """A proxy with the configuration file of a guide, in which only the addresses are replaced."""

    def __init__(self, configuration, addresses, command):
        text = (GUIDES / configuration).read_text()
        for old, new in addresses.items():
            if old not in text:
                raise AssertionError(f"{configuration} does not contain {old}")
            text = text.replace(old, new)

        def in_folder(path):
            file = path / pathlib.Path(configuration).name
            file.write_text(text)
            return command(str(file), str(path))

        super().__init__(in_folder)

    def wait_until_it_listens(self, address):
        def ready():
            self.check_running()
            return listens(address)

        wait_for(f"{type(self).__name__} at {address}", ready)
        return address


def host_port(address):
    return f"{address[0]}:{address[1]}"


def require(*programs):
    """Fails with a clear message if a program is missing."""
    for program in programs:
        if not shutil.which(program):
            raise AssertionError(f"`{program}` is missing: ./test real installs it")


def check_quick_start(ask):
    """Behind a proxy a server with its embedded policy limits clients by their address, although none names a user."""
    status, headers, body = ask()
    assert (status, headers.get("x-ratelimit-limit")) == (200, "50"), (status, headers, body)
    refused = next((headers for status, headers, _body in (ask() for _ in range(2_000)) if status == 429), None)
    assert refused, "nobody is refused"
    assert refused["x-ratelimit-rule"] == "per-address" and "retry-after" in refused, refused
