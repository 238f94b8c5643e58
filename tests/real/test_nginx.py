"""nginx with the configuration of its guide."""

import json

from harness import QUICK_START, App, Proxy, Tidegate, check_quick_start, free_port, host_port, http_request, require

POLICY = """
version: 1
limits:
  - { name: per-address, match: { path: /api/** }, key: [ip], sustained: { rate: 1, window: hour }, burst: { capacity: 3 } }
  - { name: per-key, match: { path: /keys }, key: ["header:x-api-key"], sustained: { rate: 1, window: hour } }
  - { name: posts, match: { path: /posts, methods: [POST] }, key: [host], sustained: { rate: 1, window: hour } }
  - { name: exports, match: { path: /exports }, key: [], sustained: { rate: 1, window: hour }, strategy: degrade, degrade: { tag: low } }
  - { name: searches, match: { path: /search }, key: ["query:q"], sustained: { rate: 1, window: hour } }
  - name: queued
    match: { path: /queued }
    key: []
    sustained: { rate: 1, window: hour }
    strategy: queue
    queue: { max_depth: 1, max_wait: 1s }
"""


class Nginx(Proxy):
    def __init__(self, tidegate, app):
        require("nginx")
        self.address = ("127.0.0.1", free_port())
        addresses = {
            "127.0.0.1:8080": host_port(tidegate),
            "127.0.0.1:3000": host_port(app.address),
            "127.0.0.1:8000": host_port(self.address),
        }
        line = lambda file, folder: ["nginx", "-p", folder, "-c", file, "-g", "daemon off;"]
        super().__init__("nginx/nginx.conf", addresses, line)
        self.wait_until_it_listens(self.address)

    def get(self, path, method="GET", body=None, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return http_request(self.address, method, path, body, headers)


def test_admits_and_refuses():
    with Tidegate(POLICY) as server, App() as app, Nginx(server.http, app) as nginx:
        for left in ("2", "1", "0"):
            status, headers, body = nginx.get("/api/videos?q=cats")
            assert (status, headers["x-ratelimit-remaining"], headers["x-ratelimit-limit"]) == (200, left, "3")
            assert json.loads(body)["path"] == "/api/videos?q=cats", "the app gets the client's path"
        status, headers, body = nginx.get("/api/videos")
        assert status == 429, (status, body)
        assert headers["retry-after"] == "3600" and headers["x-ratelimit-rule"] == "per-address", headers
        assert headers["cache-control"] == "no-store"
        assert headers["content-type"] == "application/problem+json"
        problem = json.loads(body)
        assert (problem["status"], problem["retry_after"], problem["violated_rule"]) == (429, 3600, "per-address")
        assert nginx.get("/elsewhere")[0] == 200, "other paths have no limit"


def test_the_quick_start():
    with Tidegate(QUICK_START) as server, App() as app, Nginx(server.http, app) as nginx:
        check_quick_start(lambda: nginx.get("/api/videos"))


def test_bodies_methods_hosts_queries_and_headers_go_through():
    with Tidegate(POLICY) as server, App() as app, Nginx(server.http, app) as nginx:
        status, _headers, body = nginx.get("/posts", "POST", "hello", Host="a.example")
        assert (status, json.loads(body)["body"]) == (200, "hello")
        assert nginx.get("/posts", "POST", "hello", Host="a.example")[0] == 429
        assert nginx.get("/posts", Host="a.example")[0] == 200, "GET is not limited"
        assert nginx.get("/posts", "POST", "hello", Host="b.example")[0] == 200
        assert [nginx.get("/search?q=cats")[0] for _ in range(2)] == [200, 429]
        assert nginx.get("/search?q=dogs")[0] == 200
        assert [nginx.get("/keys", x_api_key="k")[0] for _ in range(2)] == [200, 429]
        assert nginx.get("/keys", x_api_key="other")[0] == 200


def test_a_client_cannot_speak_for_the_proxy():
    forged = {
        "X-Forwarded-For": "203.0.113.7",
        "X-Forwarded-Uri": "/elsewhere",
        "X-Forwarded-Method": "OPTIONS",
        "X-Original-URI": "/elsewhere",
        "X-Original-Method": "OPTIONS",
        "Forwarded": "for=203.0.113.7",
    }
    with Tidegate(POLICY) as server, App() as app, Nginx(server.http, app) as nginx:
        statuses = [http_request(nginx.address, "GET", "/api/videos", None, forged)[0] for _ in range(4)]
        assert statuses == [200, 200, 200, 429]


def test_the_apps_own_403_is_not_taken_for_a_refusal():
    with Tidegate(POLICY) as server, App() as app, Nginx(server.http, app) as nginx:
        status, _headers, body = nginx.get("/status/403")
        assert (status, json.loads(body)["path"]) == (403, "/status/403")


def test_a_full_queue_is_503():
    with Tidegate(POLICY) as server, App() as app, Nginx(server.http, app) as nginx:
        assert nginx.get("/queued")[0] == 200
        status, headers, body = nginx.get("/queued")
        assert (status, json.loads(body)["status"]) == (503, 503)
        assert headers["x-ratelimit-reason"] == "queue_timeout"


def test_spellings_that_an_app_may_take_for_another_path_are_refused():
    with Tidegate(POLICY) as server, App() as app, Nginx(server.http, app) as nginx:
        for path in ("/api%2fvideos", "/api%5Cvideos", "/api/videos;x=1", "/api/videos%00", "/api\\videos"):
            assert nginx.get(path)[0] == 400, path
        assert nginx.get("/elsewhere?next=%2F;x")[0] == 200, "a query may have them"
        statuses = [nginx.get(path)[0] for path in ("//api/videos", "/%61pi/videos", "/x/../api/videos", "/api/./videos")]
        assert statuses == [200, 200, 200, 429], "all of these are one path"


def test_without_tidegate_requests_go_on():
    with Tidegate(POLICY) as server, App() as app, Nginx(server.http, app) as nginx:
        assert server.stop() == 0
        assert [nginx.get("/api/videos")[0] for _ in range(5)] == [200] * 5


def test_the_app_is_told_to_do_less():
    with Tidegate(POLICY) as server, App() as app, Nginx(server.http, app) as nginx:
        for mark in (None, "low"):
            status, headers, body = nginx.get("/exports", X_RateLimit_Degraded="forged")
            assert (status, headers.get("x-ratelimit-degraded")) == (200, mark)
            assert json.loads(body)["headers"].get("x-ratelimit-degraded") == mark, "only Tidegate sets it"
