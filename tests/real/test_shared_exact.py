"""Decisions of several servers on one Redis, counted to the last token."""

import json
import pathlib
import threading
import time

import grpc
import redis
from fleet import Fleet, Node, settings
from grpc_service import RLS, Service
from harness import host_port, wait_for
from stores import RedisServer, valkey

MODES = ("strict", "hybrid")


def policy(*limits):
    """A policy of limits that gain no token during a test, from their names, keys and capacities."""
    lines = [
        f"  - {{ name: {name}, key: [{key}], sustained: {{ rate: 1, window: day }}, burst: {{ capacity: {most} }} }}"
        for name, key, most in limits
    ]
    return "\n".join(["version: 1", "limits:", *lines]) + "\n"


def test_two_servers_share_a_limit():
    for program in ("redis-server", valkey()):
        for mode in MODES:
            with (
                RedisServer(program=program) as store,
                Fleet(mode, policy(("per-user", "user", 5)), [store.url] * 2) as fleet,
            ):
                one, other = fleet.nodes
                assert [one.admits(user="a") for _ in range(3)] == [True] * 3
                assert other.remaining("per-user", user="a") == 2
                assert [other.admits(user="a") for _ in range(3)] == [True, True, False]
                status, decision = one.check(user="a")
                assert (status, decision["violated_rule"], decision["remaining"]) == (429, "per-user", 0), decision
                assert 86_000_000 < decision["retry_after_ms"] <= 86_400_000, decision
                assert one.admits(user="b"), "another key is another bucket"
                # A refund on one node is visible on the other, unless that has just denied the key.
                assert one.post("/v1/refund", {"request": {"user": "b"}, "cost": 1})[0] == 200
                assert other.remaining("per-user", user="b") == 5


def test_keys_on_the_server_expire_and_name_nobody():
    with RedisServer() as store, Fleet("strict", policy(("per-user", "user", 5)), [store.url]) as fleet:
        assert fleet.nodes[0].admits(user="somebody{x}secret")
        with store.client(decode_responses=True) as client:
            # The others are what the nodes tell each other.
            keys = [key for key in client.keys("*") if "{nodes}" not in key and "{fleet}" not in key]
            assert len(keys) == 1 and "somebody" not in keys[0] and keys[0].startswith("tidegate:1:{"), keys
            # One of five tokens was taken; it is back in a day.
            assert 86_000_000 < client.pttl(keys[0]) <= 86_401_000
            assert all(client.pttl(key) > 0 for key in client.keys("*")), "everything expires"


def test_concurrent_requests_cannot_pass():
    """200 requests at once on a capacity of 50."""
    for mode in MODES:
        with RedisServer() as store, Fleet(mode, policy(("per-user", "user", 50)), [store.url] * 3) as fleet:
            connections = [fleet.nodes[number % 3].resp_connection() for number in range(200)]
            for connection in connections:
                connection.send("user", "all")
            admitted = sum(connection.receive() for connection in connections)
            if mode == "strict":
                assert admitted == 50, f"{admitted} in strict"
            assert admitted <= 50, f"{admitted} in {mode}: without a rate there is no overshoot"
            for connection in connections:
                connection.close()


def test_a_denial_charges_no_other_tier():
    """A request that one limit refuses is charged to no limit."""
    tiers = policy(("per-user", "user", 2), ("per-tenant", "tenant", 50), ("everybody", "", 100))
    for mode in MODES:
        with RedisServer() as store, Fleet(mode, tiers, [store.url] * 2) as fleet:
            one, other = fleet.nodes
            request = {"user": "a", "tenant": "t"}
            # From both nodes in turn, because each remembers only its own denials.
            admitted = [node.admits(**request) for node in (one, other, one, other, one, other)]
            assert admitted == [True, True, False, False, False, False]
            for node in fleet.nodes:
                assert node.remaining("everybody", **request) == 98
                assert node.remaining("per-tenant", **request) == 48


def test_descriptors_that_stand_together_are_charged_or_refused():
    """Two descriptors share a wide bucket with different hits, and one of them also has a narrow bucket, which may have
    refilled by the time the server looks for the limit that refused the call."""
    limits = """
version: 1
limits:
  - { name: narrow, key: [user], sustained: { rate: 10 }, burst: { capacity: 1 } }
  - { name: wide, key: [], sustained: { rate: 100000 } }
"""
    descriptors = [
        {"entries": [{"key": "user_id", "value": "a"}], "hits_addend": {"value": 1}},
        {"entries": [{"key": "generic_key", "value": "b"}], "hits_addend": {"value": 5}},
    ]
    in_flight, seconds = 300, 3
    for mode in MODES:
        with (
            RedisServer() as store,
            Fleet(mode, limits, [store.url]) as fleet,
            grpc.insecure_channel(host_port(fleet.nodes[0].grpc)) as channel,
        ):
            call, message = Service(channel, RLS).method("ShouldRateLimit")
            request = message(domain="edge", descriptors=descriptors)
            slots, codes = threading.Semaphore(in_flight), []

            def answered(finished, slots=slots, codes=codes):
                codes.append(finished.result().overall_code)
                slots.release()

            began = time.monotonic()
            while time.monotonic() < began + seconds:
                slots.acquire()
                call.future(request, timeout=10).add_done_callback(answered)
            for _ in range(in_flight):
                assert slots.acquire(timeout=20), "a call was not answered"
            took = time.monotonic() - began
            admitted = codes.count(1)
            most = 1 + 10 * took + fleet.bound("narrow")
            assert 1 <= admitted <= most, f"{admitted} of {len(codes)} in {took:.1f} s, at most {most:.0f}, in {mode}"


def test_a_denied_cost_leaves_the_bucket_as_it_was():
    """Neither a cost that can never fit nor one that does not fit now takes anything."""
    for mode in MODES:
        with RedisServer() as store, Fleet(mode, policy(("per-user", "user", 10)), [store.url] * 2) as fleet:
            one, other = fleet.nodes
            status, decision = one.check(user="a", cost=100)
            assert (status, decision["reason"], decision["retry_after_ms"]) == (429, "cost_exceeds_capacity", None), decision
            assert other.remaining("per-user", user="a") == 10
            assert one.admits(user="a", cost=8)
            for node in fleet.nodes:
                assert not node.admits(user="a", cost=5)
                assert node.remaining("per-user", user="a") == 2
                assert not node.admits(user="a", cost=100)
            assert other.admits(user="a", cost=2), "a smaller cost fits, although a larger one was just denied"


def test_clocks_of_the_servers_do_not_matter():
    """Three servers, one an hour behind and one an hour ahead, in turn."""
    # Only the wall clock is shifted, not the monotonic clock.
    libraries = list(pathlib.Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    assert libraries, "libfaketime is missing: ./test real installs it"
    fake = {"LD_PRELOAD": str(libraries[0]), "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"}
    shifted = [{**fake, "FAKETIME": by} for by in ("-1h", "+1h")]
    limits = policy(("bucket", "user", 50)) + (
        "  - { name: window, key: [client], algorithm: sliding_window, sustained: { rate: 50, window: day } }\n"
        "  - { name: log, key: [plan], algorithm: sliding_log, sustained: { rate: 50, window: day } }\n"
    )
    with (
        RedisServer() as store,
        Fleet("strict", limits, [store.url] * 3, environments=[None, *shifted]) as fleet,
    ):
        clocks = [node.clock() for node in fleet.nodes]
        assert 3500 < clocks[0] - clocks[1] < 3700 and 3500 < clocks[2] - clocks[0] < 3700, clocks
        connections = [node.resp_connection() for node in fleet.nodes]
        for field in ("user", "client", "plan"):
            admitted = sum(connections[number % 3].check(field, "x") for number in range(210))
            assert admitted == 50, f"{admitted} by {field}"
        for connection in connections:
            connection.close()


def test_ad_hoc_buckets_are_shared():
    with RedisServer() as store, Fleet("strict", "version: 1\nlimits: []\n", [store.url] * 2) as fleet:
        clients = [redis.Redis(*node.resp) for node in fleet.nodes]
        replies = [clients[number % 2].execute_command("CL.THROTTLE", "job", 4, 1, 3600) for number in range(8)]
        assert [answer[0] for answer in replies] == [0] * 5 + [1] * 3, replies
        assert [answer[2] for answer in replies] == [4, 3, 2, 1, 0, 0, 0, 0], replies
        status, decision = fleet.nodes[1].post("/v1/throttle", {"key": "job", "capacity": 5, "rate": 1, "window": "1h"})
        assert (status, decision["violated_rule"]) == (429, "throttle"), json.dumps(decision)
        # Other numbers are another bucket.
        assert clients[0].execute_command("CL.THROTTLE", "job", 5, 1, 3600)[0] == 0
        for client in clients:
            client.close()


def test_poisoned_values_are_counted_and_replaced():
    """Foreign values under our keys are replaced: they neither block a client nor give out tokens for ever."""
    with RedisServer() as store, Fleet("strict", policy(("per-user", "user", 5)), [store.url]) as fleet:
        node = fleet.nodes[0]
        assert node.admits(user="a")
        with store.client(decode_responses=True) as client:
            key = next(key for key in client.keys("*") if "{nodes}" not in key and "{fleet}" not in key)
            for poison in ("", "nonsense", "1e308 -5 x", "\x00\xff", "9" * 400):
                client.set(key, poison)
                assert [node.admits(user="a", cost=5), node.admits(user="a", cost=5)] == [True, False], poison
                # The node remembers the denial; a refund clears it.
                node.post("/v1/refund", {"request": {"user": "a"}, "cost": 5})
        assert node.metric("tidegate_store_errors_total", kind="poisoned") >= 5


def test_prefixes_keep_stores_apart():
    with RedisServer() as store:
        for prefix in ("blue", "green"):
            limits = policy(("per-user", "user", 2))
            with Fleet("strict", limits, [store.url], more=f"prefix: {prefix}") as fleet:
                assert [fleet.nodes[0].admits(user="a") for _ in range(3)] == [True, True, False]
        starts = {key.split(":")[0] for key in store.call("KEYS", "*")}
        assert starts == {"blue", "green"}, starts


def test_a_restarted_server_forgets_nothing():
    """The counters are on Redis: a new process continues where the old one stopped."""
    with RedisServer() as store:
        for admitted in (2, 0):
            with Fleet("strict", policy(("per-user", "user", 2)), [store.url]) as fleet:
                assert sum(fleet.nodes[0].admits(user="a") for _ in range(3)) == admitted


def test_two_versions_of_a_policy_share_their_buckets():
    """During a rollout some servers have the new numbers: tokens are carried over, and none is created."""
    limits = [policy(("per-user", "user", most)) for most in (10, 4)]
    with RedisServer() as store:
        text = settings("strict", store.url)
        with Node(limits[0], settings=text) as old, Node(limits[1], settings=text) as new:
            for user in ("a", "b"):
                assert [old.admits(user=user) for _ in range(3)] == [True] * 3
                # Seven are left, and the new numbers cap them at four.
                assert [new.admits(user=user) for _ in range(5)] == [True] * 4 + [False]
                assert not old.admits(user=user)
            # Then all servers have the new numbers.
            (old.path / "policy.yaml").write_text(limits[1])
            wait_for("the edit", lambda: old.metric("tidegate_policy_version") == 2, 10)
            assert not old.admits(user="a"), "an edit adds no tokens"
            assert [old.admits(user="c"), new.admits(user="c", cost=3), old.admits(user="c")] == [True, True, False]
