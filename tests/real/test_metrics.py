"""The metrics, parsed by Prometheus's own Python library."""

import json

from harness import Tidegate, http_request
from prometheus_client.parser import text_string_to_metric_families

POLICY = """
version: 1
limits:
  - { name: per-user, key: [user], sustained: { rate: 1, window: hour }, burst: { capacity: 2 } }
"""


def scrape(server):
    """The families by name, and the samples by name and labels."""
    status, headers, body = http_request(server.admin, "GET", "/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4"), (status, headers)
    families = list(text_string_to_metric_families(body))
    samples = {}
    for family in families:
        assert family.documentation, f"{family.name} has no help text"
        assert family.type in ("counter", "gauge", "histogram"), f"{family.name} is {family.type}"
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in samples, f"{key} comes twice"
            samples[key] = sample.value
    return {family.name: family for family in families}, samples


def value(samples, name, **labels):
    return samples[(name, tuple(sorted(labels.items())))]


def test_decisions_are_counted():
    with Tidegate(POLICY) as server:
        for expected in (200, 200, 429):
            body = json.dumps({"user": "secret-user"})
            assert http_request(server.http, "POST", "/v1/check", body)[0] == expected
        families, samples = scrape(server)
        assert value(samples, "tidegate_decisions_total", limit="per-user", outcome="allowed") == 2
        assert value(samples, "tidegate_decisions_total", limit="per-user", outcome="denied") == 1
        assert value(samples, "tidegate_requests_total", protocol="http") == 3
        assert value(samples, "tidegate_decision_duration_seconds_count") == 3
        assert value(samples, "tidegate_retry_wait_seconds_count") == 1
        assert value(samples, "tidegate_connections_opened_total", listener="http") >= 1
        assert value(samples, "tidegate_ready") == 1
        assert families["tidegate_tokens_remaining_ratio"].type == "histogram"
        assert not any("secret" in str(key) for key in samples), "a client's key is never a label"


def test_hot_keys_name_who_was_denied():
    with Tidegate(POLICY) as server:
        for _ in range(5):
            http_request(server.http, "POST", "/v1/check", json.dumps({"user": "busy"}))
        status, _, body = http_request(server.admin, "GET", "/debug/hot-keys?limit=1")
        assert status == 200
        assert json.loads(body)["denied"] == [{"count": 3, "error": 0, "key": "busy", "limit": "per-user"}]


def test_the_kill_switch_shows():
    with Tidegate(POLICY, environment={"TIDEGATE_KILL_SWITCH": "allow"}) as server:
        for _ in range(5):
            assert http_request(server.http, "POST", "/v1/check", json.dumps({"user": "1"}))[0] == 200
        status, _, body = http_request(server.admin, "GET", "/readyz")
        assert (status, json.loads(body)["degraded"][0]["reason"]) == (200, "kill_switch"), body
        _, samples = scrape(server)
        assert value(samples, "tidegate_kill_switch") == 1
        assert value(samples, "tidegate_degraded") == 1
        assert value(samples, "tidegate_decisions_by_reason_total", reason="kill_switch") == 5
