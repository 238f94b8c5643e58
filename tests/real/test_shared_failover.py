"""Redis Cluster and Sentinel: limits that span slots, and masters that die under load."""

import threading
import time

from fleet import HEAL_S, Fleet
from harness import wait_for
from load import Load, check_all_used, check_envelope
from stores import Cluster, Sentinels

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
    """Three requests at once for each tenant, from three servers: one is admitted, and nothing is charged for the
    others, whatever slots their buckets are in."""
    admitted = [0] * len(fleet.nodes)

    def ask(number, connection):
        for tenant in range(TENANTS):
            admitted[number] += connection.check("user", "one", "tenant", f"t{tenant}")
        connection.close()

    threads = [
        threading.Thread(target=ask, args=(number, node.resp_connection())) for number, node in enumerate(fleet.nodes)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(admitted) == TENANTS, f"{admitted} for {TENANTS} tenants with one token each"
    request = {"user": "one", "tenant": "t0"}
    for limit in ("per-user", "everybody"):
        # Handing back gives a little less than was taken, never more; and it may take a moment.
        def missing(limit=limit):
            return 1000 - TENANTS - fleet.nodes[0].remaining(limit, **request)

        wait_for(f"what was taken from {limit} to be handed back", lambda: missing() <= 1, 5)
        assert missing() >= 0, f"{limit} has more left than there can be"


def every_slot_decides(fleet, name):
    """Closed limits of many keys, so of every master."""
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
        load.check_waits(2)
        check_envelope(load.admitted(HOT_KEY), 40, 200, fleet.bound("hot"))
        check_all_used(load.of(HOT_KEY), 200)


def test_cluster():
    with Cluster() as cluster:
        check_leases_on(cluster)
        with Fleet("strict", TIERS, [cluster.url] * 3) as fleet:
            check_all_or_nothing(fleet)
            assert every_slot_decides(fleet, "before")
            cluster.kill_a_master()
            wait_for("decisions of all masters", lambda: every_slot_decides(fleet, "after"), HEAL_S)
            fleet.wait_until_it_uses_the_store()


def test_sentinels_fail_over():
    """The master dies under load: at most one capacity of the key is lost with it."""
    for mode in ("strict", "hybrid"):
        with Sentinels() as store, Fleet(mode, HOT, [store.url] * 3, "50ms") as fleet:
            fleet.wait_until_it_uses_the_store()
            with Load(fleet, HOT_KEY) as load:
                time.sleep(0.7)
                store.kill_the_master()
                fleet.wait_until_it_uses_the_store()
                healed = time.monotonic()
                time.sleep(1)
            load.check_waits(0.05)
            check_envelope(load.admitted(HOT_KEY), 40, 200, fleet.bound("hot") + 40)
            assert len(load.admitted(HOT_KEY, since=healed)) > 100, "not back at work"
