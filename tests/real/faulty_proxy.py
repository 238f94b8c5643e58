"""A TCP proxy that misbehaves on command: `python3 faulty_proxy.py PORT` prints the port it listens on.

A process of its own, so that what the tests do besides does not make it slower than it is told to be. It reads its
orders from standard input, one a line, and answers each with a line: `delay SECONDS` (in each direction), `hold`
(nothing gets through, connections stay) and `pass` (nothing is held or delayed).
"""

import asyncio
import sys

CHUNK = 65536


class Faults:
    """What is wrong at the moment."""

    def __init__(self):
        self.delay = 0.0
        self.open = asyncio.Event()
        self.open.set()

    def obey(self, line):
        match line.split():
            case ["delay", seconds]:
                self.delay = float(seconds)
            case ["hold"]:
                self.open.clear()
            case ["pass"]:
                self.delay = 0.0
                self.open.set()
            case _:
                raise ValueError(f"no such order: {line!r}")


async def carry(faults, source, target):
    """Bytes go on in their order, each chunk as late as is due. A slow way is not a narrow one: what comes
    behind does not wait for what is under way."""
    loop = asyncio.get_running_loop()
    under_way = asyncio.Queue()

    async def deliver():
        while (item := await under_way.get()) is not None:
            due, chunk = item
            await asyncio.sleep(max(0.0, due - loop.time()))
            await faults.open.wait()
            target.write(chunk)
            await target.drain()
        target.close()

    delivering = asyncio.create_task(deliver())
    try:
        while chunk := await source.read(CHUNK):
            under_way.put_nowait((loop.time() + faults.delay, chunk))
    except OSError:
        pass
    under_way.put_nowait(None)
    try:
        await delivering
    except OSError:
        target.close()


async def main(port):
    faults = Faults()

    async def connected(reader, writer):
        await faults.open.wait()
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(carry(faults, reader, far_writer), carry(faults, far_reader, writer))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    # Ends with whoever gives the orders.
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        faults.obey(line)
        print("done", flush=True)
    server.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
