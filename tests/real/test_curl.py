"""curl over HTTP/1.1, HTTP/2 and TLS."""

import json
import subprocess

from harness import START_S, Tidegate, binary, require, host_port, wait_for

POLICY = """
version: 1
limits:
  - { name: per-user, key: [user], sustained: { rate: 1, window: hour }, burst: { capacity: 2 }, headers: [x-ratelimit, ratelimit-03, ietf] }
"""


def make_certificate(folder, name):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
         "-keyout", folder / "new.key", "-out", folder / "new.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    (folder / "new.key").rename(folder / "server.key")
    (folder / "new.pem").rename(folder / "server.pem")


def curl(*arguments):
    """Status, HTTP version, headers, body."""
    require("curl")
    line = ["curl", "-sS", "-i", "-w", "\n%{http_code} %{http_version}", "--max-time", str(START_S), *arguments]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    response, _, last = done.stdout.rpartition("\n")
    head, _, body = response.replace("\r\n", "\n").partition("\n\n")
    headers = dict(line.lower().split(": ", 1) for line in head.split("\n")[1:] if ": " in line)
    status, version = last.split()
    return int(status), version, headers, body


def check(url, *options):
    return curl(*options, "-d", json.dumps({"user": "42"}), url + "/v1/check")


def test_http_1_and_2():
    with Tidegate(POLICY) as server:
        url = "http://" + host_port(server.http)
        status, version, headers, body = check(url)
        assert (status, version, json.loads(body)["remaining"]) == (200, "1.1", 1)
        status, version, headers, body = check(url, "--http2-prior-knowledge")
        assert (status, version, json.loads(body)["remaining"]) == (200, "2", 0)
        status, version, headers, body = check(url, "--http2-prior-knowledge")
        assert (status, version, json.loads(body)["violated_rule"]) == (429, "2", "per-user")
        assert headers["retry-after"] == "3600"
        assert headers["ratelimit"] == '"per-user";r=0;t=3600'
        assert headers["ratelimit-policy"] == '"per-user";q=2;w=7200'
        assert headers["ratelimit-reset"] == "3600"


def test_tls_and_its_reload():
    require("openssl")
    settings = "tls: { cert: server.pem, key: server.key }\n"

    class Secure(Tidegate):
        def prepare(self, path):
            make_certificate(path, "first")

    with Secure(POLICY, settings=settings) as server:
        url = f"https://localhost:{server.http[1]}"
        trust = ("--cacert", str(server.path / "server.pem"))
        status, version, _headers, _body = check(url, *trust)
        assert (status, version) == (200, "2"), "ALPN agrees on HTTP/2"
        status, version, _headers, _body = check(url, *trust, "--http1.1")
        assert (status, version) == (200, "1.1")

        line = [binary(), "check", "--server", url, "--ca", str(server.path / "server.pem"), "user=other"]
        assert subprocess.run(line, capture_output=True, check=False).returncode == 0

        make_certificate(server.path, "second")

        def second_is_served():
            line = ["curl", "-sS", "-v", *trust, "-d", "{}", url + "/v1/peek"]
            done = subprocess.run(line, capture_output=True, text=True, check=False)
            return done.returncode == 0 and "CN=second" in done.stderr

        wait_for("the new certificate", second_is_served, 10)
        (server.path / "server.key").write_text("no key")
        wait_for("an error in the log", lambda: "server.key" in server.output(), 10)
        assert second_is_served(), "the last valid pair stays in use"
