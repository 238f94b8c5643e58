"""Bearer tokens: a token that a lenient verifier behind the proxy accepts is the same user to Tidegate, or is refused."""

import json
import socket
import time

import jwt

from harness import App, Tidegate, host_port
from test_caddy import Caddy
from test_nginx import Nginx

SECRET = "a-secret-of-at-least-thirty-two-bytes"
SETTINGS = f"jwt: {{ key: {SECRET}, algorithm: HS256, invalid: deny }}\n"
POLICY = """
version: 1
limits:
  - { name: per-user, key: [user], sustained: { rate: 1, window: hour }, burst: { capacity: 1000 } }
  - { name: others, match: { credential: none }, key: [], sustained: { rate: 1, window: hour }, burst: { capacity: 500 } }
"""


def token(secret=SECRET, **claims):
    return jwt.encode({"sub": "42", "exp": int(time.time()) + 600, **claims}, secret, algorithm="HS256")


def get(address, lines, path="/"):
    """Sends these `Authorization` lines, byte for byte; returns the status, the headers and the body."""
    head = [f"GET {path} HTTP/1.1", f"Host: {host_port(address)}", "Connection: close"]
    head = "\r\n".join(head).encode() + b"\r\n"
    head += b"".join(b"Authorization: " + line + b"\r\n" for line in lines)
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(head + b"\r\n")
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *headers = head.decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in headers)
    return int(status.split()[1]), {name.lower(): value for name, value in headers.items()}, body


def lenient_user(line):
    """Verifies as many apps do: any white space, any case, and PyJWT, which accepts padding and odd letters in signatures."""
    words = line.decode("latin-1").split()
    if len(words) < 2 or words[0].lower() != "bearer":
        return None
    try:
        return jwt.decode(words[1], SECRET, algorithms=["HS256"]).get("sub")
    except jwt.PyJWTError:
        return None


def spellings():
    good = token().encode()
    foreign, expired = token("another-secret-of-thirty-two-bytes!").encode(), token(exp=1_000_000_000).encode()
    yield [b"Bearer " + good], "valid"
    yield [b"bEARER   " + good + b" \t"], "valid"
    for line in (
        b"Bearer\t" + good,
        b"Bearer \t" + good,
        b"Bearer " + good + b"=",
        b"Bearer " + good + b"==",
        b"Bearer " + good + b"!",
        b"Bearer " + good + b" x",
        b"Bearer " + foreign,
        b"Bearer " + expired,
        b"Bearer opaque",
        b"Bearer",
        b"Bearer\xa0" + good,
        b"Bearer " + good + b", Bearer " + good,
        b"Bearer " + b"x" * 6000,
    ):
        yield [line], "invalid"
    yield [b"Basic eDp5"], "none"
    yield [], "none"


def check_token(address, lines, expected, path="/"):
    status, headers, body = get(address, lines, path)
    seen = (lines, status, headers, body)
    if expected == "invalid":
        assert status == 401, seen
        assert headers["www-authenticate"] == 'Bearer error="invalid_token"', seen
        assert headers["cache-control"] == "no-store", seen
        assert headers["content-type"] == "application/problem+json", seen
        problem = json.loads(body)
        assert (problem["status"], problem["error"]) == (401, "invalid_token"), seen
    else:
        assert status in (200, 204), seen
        assert headers["x-ratelimit-limit"] == {"valid": "1000", "none": "500"}[expected], seen
    users = {lenient_user(line) for line in lines} - {None}
    assert not users or expected != "none", f"an app would accept {lines} as {users}"


def test_no_spelling_takes_the_identity_off():
    with Tidegate(POLICY, settings=SETTINGS) as server:
        refused_but_lenient = 0
        for lines, expected in spellings():
            check_token(server.http, lines, expected, "/v1/forward-auth?deny_status=403")
            refused_but_lenient += any(lenient_user(line) for line in lines) and expected == "invalid"
        assert refused_but_lenient >= 3, "PyJWT should accept some of these, or this tests nothing"
        good = b"Bearer " + token().encode()
        for lines in ([good, good], [b"Basic eDp5", good], [good, b"Basic eDp5"]):
            check_token(server.http, lines, "invalid", "/v1/forward-auth")


def check_through_proxy(proxy):
    with Tidegate(POLICY, settings=SETTINGS) as server, App() as app, proxy(server.http, app) as running:
        for lines, expected in spellings():
            check_token(running.address, lines, expected)
        assert get(running.address, [b"Bearer " + token().encode()], "/status/401")[0] == 401, "the app's own"


def test_through_nginx():
    check_through_proxy(Nginx)


def test_through_caddy():
    check_through_proxy(Caddy)
