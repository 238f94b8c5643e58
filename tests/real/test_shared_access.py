"""Access control of Redis: passwords, users with minimal rights, certificates."""

import re
import subprocess
import tempfile

from fleet import RECOVERY_S, Fleet
from harness import GUIDES, free_port, require, wait_for
from stores import RedisServer

PASSWORD = "s3cret-of-the-store"
POLICY = """
version: 1
defaults: { on_store_error: closed }
limits:
  - { name: bucket, key: [user], sustained: { rate: 1, window: day }, burst: { capacity: 2 } }
  - { name: fixed, key: [user], algorithm: fixed_window, sustained: { rate: 100, window: day } }
  - { name: sliding, key: [user], algorithm: sliding_window, sustained: { rate: 100, window: day } }
  - { name: log, key: [user], algorithm: sliding_log, sustained: { rate: 100, window: day } }
"""


def check_it_serves(fleet):
    one, other = fleet.nodes
    for user in ("a", "b"):
        assert [one.admits(user=user), other.admits(user=user), one.admits(user=user)] == [True, True, False]
        assert one.post("/v1/refund", {"request": {"user": user}, "cost": 1})[0] == 200
        assert other.remaining("bucket", user=user) == 1
    for node in fleet.nodes:
        wait_for("two nodes", lambda node=node: node.metric("tidegate_nodes") == 2)
        assert node.metric("tidegate_store_errors_total") == 0
        assert PASSWORD not in node.output(), "a secret is in the log"


def acl_rule_of_the_guide():
    """The ACL rule for the Redis user, taken from the guide."""
    text = (GUIDES / "many-nodes.md").read_text()
    # Up to the end of its block; it may have several lines.
    rule = re.search(r"^\s*(?:redis-cli )?ACL SETUSER (\S+) (.*?)(?:\n\s*\n|```)", text, re.M | re.S)
    assert rule, "the guide has an ACL rule"
    name, words = rule[1], re.sub(r"['\"\\]", "", rule[2]).split()
    assert any(word.startswith(">") for word in words), words
    return name, [f">{PASSWORD}" if word.startswith(">") else word for word in words]


def test_a_user_with_the_rights_of_the_guide():
    name, words = acl_rule_of_the_guide()
    assert not {"+@all", "allcommands", "~*", "allkeys"} & set(words), "only the rights that it needs"
    with RedisServer() as store:
        store.call("ACL", "SETUSER", name, *words)
        url = store.url.replace("://", f"://{name}:{PASSWORD}@")
        for mode in ("strict", "hybrid"):
            with Fleet(mode, POLICY, [url] * 2) as fleet:
                check_it_serves(fleet)
            store.call("FLUSHDB")
        assert store.call("ACL", "LOG") == [], "nothing was refused"


def test_a_wrong_password():
    """Redis refuses the node: `/readyz` reports why, and no log line contains the password."""
    with RedisServer("--requirepass", "another") as store:
        url = store.url.replace("://", f"://:{PASSWORD}@")
        with Fleet("strict", POLICY, [url]) as fleet:
            node = fleet.nodes[0]
            assert node.check(user="a")[0] == 503
            status, details = node.store_problems()
            assert status == 200 and details, details
            assert PASSWORD not in node.output() + "".join(details)
            with store.client(password="another") as client:
                client.config_set("requirepass", PASSWORD)
            wait_for("access", lambda: node.check(user="a")[0] == 200, RECOVERY_S)


def certificates(folder):
    """Creates a certificate authority, and a certificate signed by it for 127.0.0.1."""
    require("openssl")

    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=60)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ours")
    openssl(
        *("req", "-x509", *key, "-keyout", "server.key", "-out", "server.pem", "-subj", "/CN=redis"),
        *("-CA", "ca.pem", "-CAkey", "ca.key"),
        *("-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"),
    )


class TlsRedis(RedisServer):
    """A Redis that also listens with TLS, at `tls_url`."""

    def __init__(self, folder, tls_port):
        files = ["--tls-cert-file", f"{folder}/server.pem", "--tls-key-file", f"{folder}/server.key"]
        authority = ["--tls-ca-cert-file", f"{folder}/ca.pem", "--tls-auth-clients", "no"]
        super().__init__("--tls-port", str(tls_port), *files, *authority)
        self.tls_url = f"rediss://127.0.0.1:{tls_port}"


def test_tls_with_an_authority_of_our_own():
    with tempfile.TemporaryDirectory() as folder:
        certificates(folder)
        with TlsRedis(folder, free_port()) as store:
            with Fleet("strict", POLICY, [store.tls_url] * 2, more=f"ca: {folder}/ca.pem") as fleet:
                check_it_serves(fleet)
            # A node without the CA certificate refuses to connect.
            with Fleet("strict", POLICY, [store.tls_url]) as fleet:
                assert fleet.nodes[0].check(user="c")[0] == 503
