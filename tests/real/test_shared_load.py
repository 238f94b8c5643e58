"""Three servers on one Redis or Valkey under overload: together they admit as much as one would."""

import time

from fleet import LONG_DEADLINE, Fleet, Node
from load import Load, check_rate_is_used, check_envelope
from stores import REDIS, RedisServer, valkey

# These tests measure how soon nodes notice a failure and recover.
TIME_SENSITIVE = True

RATE, CAPACITY = 150, 60
MANY_RATE, MANY_CAPACITY = 10, 5
POLICY = f"""
version: 1
limits:
  - {{ name: hot, key: [user], sustained: {{ rate: {RATE} }}, burst: {{ capacity: {CAPACITY} }} }}
  - {{ name: many, key: [client], sustained: {{ rate: {MANY_RATE} }}, burst: {{ capacity: {MANY_CAPACITY} }} }}
"""
LOAD_S = 2.5
LEASE_LIFE_S = 0.1
CLIENTS = [("client", number) for number in range(12)]


def check_mode(mode, program):
    hot = ("user", "hot")
    with RedisServer(program=program) as store, Fleet(mode, POLICY, [store.url] * 3) as fleet:
        fleet.wait_until_all_know_each_other()
        with Load(fleet, hot, CLIENTS) as load:
            time.sleep(LOAD_S)
            load.wait_until_overload(hot, CAPACITY, RATE)
            for client in CLIENTS:
                load.wait_until_overload(client, MANY_CAPACITY, MANY_RATE)
        load.check_waits(deadline_s=2)
        bounds = {name: fleet.bound(name) for name in ("hot", "many")}
        for (name, bound), rate in zip(bounds.items(), (RATE, MANY_RATE), strict=True):
            leased = mode == "hybrid"
            assert bound <= (rate * LEASE_LIFE_S + 1 if leased else 0), f"a bound of {bound} for {name}"
            assert bound > 0 or not leased, f"no bound for {name}"
        check_envelope(load.admitted(hot), CAPACITY, RATE, bounds["hot"])
        check_rate_is_used(load.of(hot), CAPACITY, RATE)
        for client in CLIENTS:
            check_envelope(load.admitted(client), MANY_CAPACITY, MANY_RATE, bounds["many"])
            check_rate_is_used(load.of(client), MANY_CAPACITY, MANY_RATE)
        for node in fleet.nodes:
            assert node.metric("tidegate_store_up") == 1
            assert node.metric("tidegate_store_errors_total") == 0, node.metrics()
            assert node.metric("tidegate_store_calls_total") > 0


def test_strict_on_redis():
    check_mode("strict", REDIS)


def test_hybrid_on_redis():
    check_mode("hybrid", REDIS)


def test_strict_on_valkey():
    check_mode("strict", valkey())


def test_hybrid_on_valkey():
    check_mode("hybrid", valkey())


AMPLE = """
version: 1
limits:
  - { name: ample, key: [user], sustained: { rate: 10000 }, burst: { capacity: 10000 } }
"""


def test_leases_spare_redis():
    """A busy key far below its limit is decided from leases: few of its requests reach Redis."""
    with RedisServer() as store, Fleet("hybrid", AMPLE, [store.url] * 2) as fleet:
        before = sum(node.metric("tidegate_store_calls_total") for node in fleet.nodes)
        with Load(fleet, ("user", "busy"), ("user", "busy")) as load:
            time.sleep(2)
        calls = sum(node.metric("tidegate_store_calls_total") for node in fleet.nodes) - before
        assert all(one.allowed for one in load.exchanges)
        assert calls < len(load.exchanges) / 5, f"{calls} calls for {len(load.exchanges)} requests"


SMALL = """
version: 1
limits:
  - { name: small, key: [user], sustained: { rate: 1, window: day }, burst: { capacity: 3 } }
"""


def test_denied_floods_cost_redis_nothing():
    with RedisServer() as store:
        for mode in ("strict", "hybrid"):
            with Fleet(mode, SMALL, [store.url]) as fleet:
                node = fleet.nodes[0]
                connection = node.resp_connection()
                assert [connection.check("user", mode) for _ in range(5)] == [True] * 3 + [False] * 2
                before = node.metric("tidegate_store_calls_total")
                assert not any(connection.check("user", mode) for _ in range(2000))
                calls = node.metric("tidegate_store_calls_total") - before
                assert calls < 100, f"{calls} calls for 2000 requests that were denied before"
                connection.close()


def test_leases_by_the_other_name():
    """`rate_limit_sync` selects hybrid mode, and its interval is the lifetime of a lease."""
    with RedisServer() as store:
        text = f'''
store: {{ redis: {{ url: "{store.url}", deadline: {LONG_DEADLINE} }} }}
rate_limit_sync: {{ enabled: true, backend: redis, sync_interval_ms: 50, fallback_on_error: local_only }}
'''
        with Node(AMPLE, settings=text) as node:
            connection = node.resp_connection()
            assert connection.check("user", "a")
            connection.close()
            assert node.metric("tidegate_lease_overshoot_bound_tokens", limit="ample") <= 10000 * 0.05
