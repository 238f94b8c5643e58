"""h2load: the HTTP/2 of nghttp2 as a client, with many calls at once and with windows that hold only a few bytes."""

import re
import subprocess

from harness import START_S, Tidegate, host_port, require
from test_curl import make_certificate

POLICY = "version: 1\nlimits: []\n"
CALLS = 20_000


def load(server, url, *arguments):
    """Sends health checks, all of which must be answered."""
    require("h2load")
    body = server.path / "body"
    body.write_bytes(bytes(5))
    line = ["h2load", "-n", str(CALLS), "-d", body, "-H", "content-type: application/grpc", "-H", "te: trailers"]
    line += [*arguments, f"{url}/grpc.health.v1.Health/Check"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=4 * START_S)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"(\d+) (succeeded|failed|errored|2xx)", done.stdout)
    counted = {what: int(number) for number, what in found}
    assert counted == {"succeeded": CALLS, "failed": 0, "errored": 0, "2xx": CALLS}, done.stdout


def test_many_calls_at_once():
    with Tidegate(POLICY) as server:
        load(server, f"http://{host_port(server.grpc)}", "-c", "8", "-m", "100")


def test_small_windows():
    with Tidegate(POLICY) as server:
        load(server, f"http://{host_port(server.grpc)}", "-c", "2", "-m", "10", "-w", "2", "-W", "3")


def test_tls():
    class Secure(Tidegate):
        def prepare(self, path):
            make_certificate(path, "localhost")

    with Secure(POLICY, settings="tls: { cert: server.pem, key: server.key }\n") as server:
        load(server, f"https://{host_port(server.grpc)}", "-c", "4", "-m", "50")
