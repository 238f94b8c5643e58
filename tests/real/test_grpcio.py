"""grpcio as a client; it gets all message types by reflection."""

import signal

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from grpc_service import AUTHZ, RLS, Service
from harness import Tidegate, host_port, wait_for

POLICY = """
version: 1
limits:
  - { name: per-user, key: [user], sustained: { rate: 3, window: hour } }
  - { name: queued, match: { path: /queued }, key: [], sustained: { rate: 20, window: second }, burst: { capacity: 1 },
      strategy: queue, queue: { max_depth: 5, max_wait: 2s } }
"""


def fails(call, code):
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() == code, error
        return error.details()
    raise AssertionError(f"does not fail with {code}")


def test_rate_limits():
    with Tidegate(POLICY) as tidegate, grpc.insecure_channel(host_port(tidegate.grpc)) as channel:
        service = Service(channel, RLS)

        def should_rate_limit(**of_descriptor):
            entries = [{"key": "user_id", "value": "42"}]
            request = {"domain": "edge", "descriptors": [{"entries": entries, **of_descriptor}]}
            return service.call("ShouldRateLimit", request)

        assert [should_rate_limit().statuses[0].limit_remaining for _ in range(3)] == [2, 1, 0]
        refused = should_rate_limit()
        assert (refused.overall_code, refused.statuses[0].code) == (2, 2), refused
        assert refused.statuses[0].current_limit.name == "per-user", refused
        headers = {header.key.lower(): header.value for header in refused.response_headers_to_add}
        assert 0 < int(headers["retry-after"]) <= 1200, headers
        assert refused.dynamic_metadata["violated_rule"] == "per-user", refused
        refunded = should_rate_limit(is_negative_hits=True, hits_addend={"value": 2})
        assert (refunded.overall_code, refunded.statuses[0].limit_remaining) == (1, 2), refunded
        message = fails(lambda: service.call("ShouldRateLimit", {"domain": "edge"}), grpc.StatusCode.INVALID_ARGUMENT)
        assert message == "descriptors must not be empty", message


def test_authorization_waits_in_a_queue():
    with Tidegate(POLICY) as tidegate, grpc.insecure_channel(host_port(tidegate.grpc)) as channel:
        service = Service(channel, AUTHZ)
        request = {"attributes": {"request": {"http": {"method": "GET", "path": "/queued"}}}}
        assert [service.call("Check", request).status.code for _ in range(4)] == [0, 0, 0, 0]


def test_what_is_not_there():
    with Tidegate(POLICY) as tidegate, grpc.insecure_channel(host_port(tidegate.grpc)) as channel:
        call = channel.unary_unary(f"/{RLS}/Nothing")
        fails(lambda: call(b"", timeout=5), grpc.StatusCode.UNIMPLEMENTED)
        call = channel.unary_unary(f"/{RLS}/ShouldRateLimit")
        fails(lambda: call(bytes(70_000), timeout=5), grpc.StatusCode.RESOURCE_EXHAUSTED)
        compressed = channel.unary_unary(f"/{RLS}/ShouldRateLimit")
        call = lambda: compressed(bytes(1_000), timeout=5, compression=grpc.Compression.Gzip)
        fails(call, grpc.StatusCode.UNIMPLEMENTED)


def test_health_until_the_end():
    with Tidegate(POLICY) as tidegate, grpc.insecure_channel(host_port(tidegate.grpc)) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for name in ("", RLS, AUTHZ):
            status = health.Check(health_pb2.HealthCheckRequest(service=name), timeout=5).status
            assert status == health_pb2.HealthCheckResponse.SERVING, name
        request = health_pb2.HealthCheckRequest(service="else")
        fails(lambda: health.Check(request, timeout=5), grpc.StatusCode.NOT_FOUND)
        watched = health.Watch(health_pb2.HealthCheckRequest(), timeout=20)
        assert next(watched).status == health_pb2.HealthCheckResponse.SERVING
        tidegate.running.send_signal(signal.SIGTERM)
        assert next(watched).status == health_pb2.HealthCheckResponse.NOT_SERVING, "reported before it ends"
        wait_for("the end", lambda: tidegate.running.poll() is not None)
        assert tidegate.running.returncode == 0, tidegate.output()
