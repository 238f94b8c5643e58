"""Caddy with the configuration of its guide."""

import json

from harness import QUICK_START, App, Proxy, Tidegate, check_quick_start, free_port, host_port, http_request, require

POLICY = """
version: 1
limits:
  - { name: per-address, match: { path: /api/** }, key: [ip], sustained: { rate: 1, window: hour }, burst: { capacity: 3 } }
  - { name: posts, match: { path: /posts, methods: [POST] }, key: [host], sustained: { rate: 1, window: hour } }
  - { name: exports, match: { path: /exports }, key: [], sustained: { rate: 1, window: hour }, strategy: degrade, degrade: { tag: low } }
  - { name: searches, match: { path: /search }, key: ["query:q"], sustained: { rate: 1, window: hour } }
"""


class Caddy(Proxy):
    def __init__(self, tidegate, app):
        require("caddy")
        self.address = ("127.0.0.1", free_port())
        addresses = {
            "127.0.0.1:8080": host_port(tidegate),
            "127.0.0.1:3000": host_port(app.address),
            "127.0.0.1:8000": host_port(self.address),
            "api.example.com:8000": f"api.example.com:{self.address[1]}",
        }
        line = lambda file, _folder: ["caddy", "run", "--config", file, "--adapter", "caddyfile"]
        super().__init__("caddy/Caddyfile", addresses, line)
        self.wait_until_it_listens(self.address)

    def get(self, path, method="GET", body=None, headers=None):
        return http_request(self.address, method, path, body, headers)


def test_admits_and_refuses():
    with Tidegate(POLICY) as server, App() as app, Caddy(server.http, app) as caddy:
        for left in ("2", "1", "0"):
            status, headers, body = caddy.get("/api/videos?q=cats")
            assert (status, headers["x-ratelimit-remaining"], headers["x-ratelimit-limit"]) == (200, left, "3")
            assert json.loads(body)["path"] == "/api/videos?q=cats", "the app gets the client's path"
        status, headers, body = caddy.get("/api/videos")
        assert status == 429, (status, body)
        assert headers["retry-after"] == "3600" and headers["x-ratelimit-rule"] == "per-address", headers
        assert headers["content-type"] == "application/problem+json"
        problem = json.loads(body)
        assert (problem["status"], problem["retry_after"], problem["violated_rule"]) == (429, 3600, "per-address")
        status, headers, _body = caddy.get("/elsewhere")
        assert (status, "x-ratelimit-limit" in headers) == (200, False), "other paths have no limit"


def test_the_quick_start():
    with Tidegate(QUICK_START) as server, App() as app, Caddy(server.http, app) as caddy:
        check_quick_start(lambda: caddy.get("/api/videos"))


def test_bodies_methods_hosts_and_queries_go_through():
    with Tidegate(POLICY) as server, App() as app, Caddy(server.http, app) as caddy:
        status, _headers, body = caddy.get("/posts", "POST", "hello")
        assert (status, json.loads(body)["body"]) == (200, "hello")
        assert caddy.get("/posts", "POST", "hello")[0] == 429
        assert caddy.get("/posts")[0] == 200, "GET is not limited"
        assert [caddy.get("/search?q=cats")[0] for _ in range(2)] == [200, 429]
        assert caddy.get("/search?q=dogs")[0] == 200


def test_a_client_cannot_speak_for_the_proxy():
    forged = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Uri": "/elsewhere", "X-Forwarded-Method": "OPTIONS"}
    with Tidegate(POLICY) as server, App() as app, Caddy(server.http, app) as caddy:
        statuses = [caddy.get("/api/videos", headers=forged)[0] for _ in range(4)]
        assert statuses == [200, 200, 200, 429]


def test_spellings_that_an_app_may_take_for_another_path_are_refused():
    with Tidegate(POLICY) as server, App() as app, Caddy(server.http, app) as caddy:
        for path in ("/api%2fvideos", "/api%5Cvideos", "/api/videos;x=1", "/api/videos%00", "/api\\videos"):
            assert caddy.get(path)[0] == 400, path
        assert caddy.get("/elsewhere?next=%2F;x")[0] == 200, "a query may have them"
        statuses = [caddy.get(path)[0] for path in ("/api/videos", "/%61pi/videos", "/api/./videos", "/api//videos")]
        assert statuses == [200, 200, 200, 429], "all of these are one path"


def test_the_app_is_told_to_do_less():
    with Tidegate(POLICY) as server, App() as app, Caddy(server.http, app) as caddy:
        for mark in (None, "low"):
            status, headers, body = caddy.get("/exports", headers={"X-RateLimit-Degraded": "forged"})
            assert (status, headers.get("x-ratelimit-degraded")) == (200, mark)
            assert json.loads(body)["headers"].get("x-ratelimit-degraded") == mark, "only Tidegate sets it"
