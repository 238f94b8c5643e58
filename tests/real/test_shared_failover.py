"""Redis Cluster and Sentinel: limits that span slots, and masters that die or are cut off under load."""

import contextlib
import threading
import time

from fleet import RECOVERY_S, Fleet
from harness import wait_for
from load import Load, check_rate_is_used, check_envelope
from stores import Cluster, FaultyProxy, Sentinels

# These tests measure how soon nodes notice a failure and recover.
TIME_SENSITIVE = True

TIERS = """
version: 1
defaults: { on_store_error: closed }
limits:
  - { name: per-user, key: [user], sustained: { rate: 1, window: day }, burst: { capacity: 1000 } }
  - { name: per-tenant, key: [tenant], sustained: { rate: 1, window: day }, burst: { capacity: 1 } }
  - { name: everybody, key: [], sustained: { rate: 1, window: day }, burst: { capacity: 1000 } }
"""
TENANTS = 60


def check_all_or_nothing(fleet):
    """Three concurrent requests for each tenant, from three servers: one is admitted, and nothing is charged for the
    others, whatever slots their buckets are in."""
    admitted = [0] * len(fleet.nodes)

    def send_all(number, connection):
        for tenant in range(TENANTS):
            admitted[number] += connection.check("user", "one", "tenant", f"t{tenant}")
        connection.close()

    threads = [
        threading.Thread(target=send_all, args=(number, node.resp_connection())) for number, node in enumerate(fleet.nodes)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(admitted) == TENANTS, f"{admitted} for {TENANTS} tenants with one token each"
    request = {"user": "one", "tenant": "t0"}
    for limit in ("per-user", "everybody"):
        # A hand-back returns slightly less than was taken, never more; and it may take a moment.
        def missing(limit=limit):
            return 1000 - TENANTS - fleet.nodes[0].remaining(limit, **request)

        wait_for(f"the tokens of {limit} to be handed back", lambda: missing() <= 1, 5)
        assert missing() >= 0, f"{limit} has more left than there can be"


def every_slot_decides(fleet, name):
    """Requests with many keys, so that every master decides some; the limits are `closed` without the store."""
    return all(node.check(user=f"{name}{number}")[0] == 200 for number in range(8) for node in fleet.nodes)


HOT = """
version: 1
defaults: { on_store_error: closed }
limits:
  - { name: hot, key: [user], sustained: { rate: 200 }, burst: { capacity: 40 } }
"""
HOT_KEY = ("user", "hot")


def check_leases_on(cluster):
    with Fleet("hybrid", HOT, [cluster.url] * 2) as fleet:
        with Load(fleet, HOT_KEY) as load:
            time.sleep(1.5)
            load.wait_until_overload(HOT_KEY, 40, 200)
        load.check_waits(2)
        check_envelope(load.admitted(HOT_KEY), 40, 200, fleet.bound("hot"))
        check_rate_is_used(load.of(HOT_KEY), 40, 200)


def test_cluster():
    with Cluster() as cluster:
        check_leases_on(cluster)
        with Fleet("strict", TIERS, [cluster.url] * 3) as fleet:
            check_all_or_nothing(fleet)
            assert every_slot_decides(fleet, "before")
            cluster.kill_a_master()
            wait_for("decisions of all masters", lambda: every_slot_decides(fleet, "after"), RECOVERY_S)
            fleet.wait_until_it_uses_the_store()


def test_sentinels_fail_over():
    """The master dies under load: charges of at most one capacity of the key are lost with it."""
    for mode in ("strict", "hybrid"):
        with Sentinels() as store, Fleet(mode, HOT, [store.url] * 3, "50ms") as fleet:
            fleet.wait_until_it_uses_the_store()
            with Load(fleet, HOT_KEY) as load:
                time.sleep(0.7)
                store.kill_the_master()
                fleet.wait_until_it_uses_the_store()
                load.wait_until_rate_is_used(HOT_KEY, 200, time.monotonic())
            load.check_waits(0.05)
            check_envelope(load.admitted(HOT_KEY), 40, 200, fleet.bound("hot") + 40)


# Nodes leave a replaced master within two seconds; the rest is slack for a slow machine.
MOVE_S = 2 + 4


def has_moved(node):
    return node.metric("tidegate_store_master_moves_total") == 1


def calls(server):
    """How many scripts a Redis has run."""
    stats = server.call("INFO", "commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha"))


def drop_a_client(server):
    """Drops the connection of one node, so that it has to look for the master, unless a node has moved already."""
    with server.client() as client:
        nodes = [other["id"] for other in client.client_list() if other["cmd"] in ("eval", "evalsha")]
        if len(nodes) > 1:
            client.client_kill_filter(_id=nodes[0])


def test_a_master_that_is_cut_off_is_left():
    """The old master answers its clients, but no Sentinel reaches it: two masters are in use until the last node has
    moved. That adds at most one capacity, plus the rate times that time."""
    for mode in ("strict", "hybrid"):
        with Sentinels() as store, Fleet(mode, HOT, [store.url] * 2, "50ms") as fleet:
            fleet.wait_until_it_uses_the_store()
            with Load(fleet, HOT_KEY) as load:
                time.sleep(0.5)
                two_since = store.cut_off_the_master()
                drop_a_client(store.master)
                wait_for("all nodes to move", lambda fleet=fleet: all(map(has_moved, fleet.nodes)), MOVE_S)
                moved = time.monotonic()
                before = calls(store.master)
                load.wait_until_rate_is_used(HOT_KEY, 200, moved)
                assert calls(store.master) == before, "the old master still gets calls"
            load.check_waits(0.05)
            check_envelope(load.admitted(HOT_KEY), 40, 200, 2 * fleet.bound("hot") + 40 + 200 * (moved - two_since))
            for node in fleet.nodes:
                assert node.output().count("Sentinels name another master; the limits") == 1, "one line for a move"


def test_a_node_that_is_cut_off_with_its_master():
    """It reaches no Sentinel, so it stays; with `min-replicas-to-write` its master refuses writes, and the `closed` limit
    refuses requests."""
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(Sentinels())
        for name in ("min-replicas-to-write", "min-replicas-max-lag"):
            store.master.call("CONFIG", "SET", name, 1)
        proxies = [stack.enter_context(FaultyProxy(sentinel.port)) for sentinel in store.sentinels]
        fleet = stack.enter_context(Fleet("strict", HOT, [store.url_via(proxies), store.url], "50ms"))
        fleet.wait_until_it_uses_the_store()
        alone, other = fleet.nodes
        with Load(fleet, HOT_KEY) as load:
            time.sleep(0.5)
            for proxy in proxies:
                proxy.partition()
            two_since = store.cut_off_the_master()
            wait_for("the node that reaches the Sentinels to move", lambda: has_moved(other), MOVE_S)
            wait_for("the other to stop using its master", lambda: alone.metric("tidegate_store_up") == 0, MOVE_S)
            wait_for("a log line about it", lambda: "most Sentinels do not answer" in alone.output(), MOVE_S)
            assert alone.metric("tidegate_store_sentinels_silent") == 3
            refused = time.monotonic()
            # By the other node.
            load.wait_until_rate_is_used(HOT_KEY, 200, refused)
        admitted = load.admitted(HOT_KEY)
        assert not [one for one in admitted if one.node == 0 and one.sent > refused]
        last = max(one.answered for one in admitted if one.node == 0)
        check_envelope(admitted, 40, 200, 40 + 200 * max(0, last - two_since))
        for proxy in proxies:
            proxy.heal()
        wait_for("the other to move", lambda: has_moved(alone), MOVE_S)
        fleet.wait_until_it_uses_the_store()
