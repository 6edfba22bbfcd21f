"""A DNS server on loopback that answers as a test wants it to."""
import asyncio
import contextlib
import ipaddress
import struct

NXDOMAIN, SERVFAIL, REFUSED = 3, 2, 5
A, AAAA = 1, 28


class Dns(asyncio.DatagramProtocol):
    """`zone` is names to their addresses; `asked` are the names of all questions, once for each family."""

    def __init__(self):
        self.zone = {}
        self.ttl = 60
        self.failure = None  # a code instead of an answer
        self.silent = False
        self.truncate = False  # no answer fits into a packet, so it is to be asked for by TCP
        self.held = None  # a list: of answers, which are sent by release()
        self.holding = {A, AAAA}  # which of them
        self.asked = []
        self.port = None
        self._transport = None

    def connection_made(self, transport):
        self._transport = transport
        self.port = transport.get_extra_info('sockname')[1]

    def datagram_received(self, packet, peer):
        answer = self._answer(packet, self.truncate)
        kind, = struct.unpack_from('!H', packet, self._name(packet)[1])
        if self.held is not None and kind in self.holding:
            self.held.append((answer, peer))
        elif not self.silent:
            self._transport.sendto(answer, peer)

    def release(self):
        held, self.held = self.held, None
        for answer, peer in held:
            self._transport.sendto(answer, peer)

    async def accept(self, reader, writer):
        """By TCP: answers byte by byte, so that whoever asks has to wait in between."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                size, = struct.unpack('!H', await reader.readexactly(2))
                answer = self._answer(await reader.readexactly(size), False)
                for byte in struct.pack('!H', len(answer)) + answer:
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0)
        writer.close()

    @staticmethod
    def _name(packet):
        labels, at = [], 12
        while packet[at]:
            labels.append(packet[at + 1:at + 1 + packet[at]].decode())
            at += 1 + packet[at]
        return '.'.join(labels).lower(), at + 1

    def _answer(self, packet, truncated):
        name, end = self._name(packet)
        question = packet[:end + 4]
        kind, = struct.unpack_from('!H', packet, end)
        if kind == A:
            self.asked.append(name)
        addresses = [ipaddress.ip_address(text) for text in self.zone.get(name, ())]
        addresses = [each for each in addresses if (each.version == 6) == (kind == AAAA)]
        code = self.failure or (0 if name in self.zone else NXDOMAIN)
        if code or truncated:
            addresses = []
        flags = 0x8180 | code | (0x200 if truncated else 0)
        head = question[:2] + struct.pack('!HHHHH', flags, 1, len(addresses), 0, 0)
        records = b''.join(struct.pack('!HHHIH', 0xc00c, kind, 1, self.ttl, len(each.packed)) + each.packed
                           for each in addresses)
        return head + question[12:] + records

    def stop(self):
        self._transport.close()

    @property
    def config(self):
        """For the top of a config."""
        return f'dns: {{ servers: ["127.0.0.1:{self.port}"] }}'


@contextlib.asynccontextmanager
async def dns(**zone):
    """With `zone` as names to lists of addresses; `_` in a name stands for a dot."""
    listening = await asyncio.start_server(lambda *ends: server.accept(*ends), '127.0.0.1', 0)
    where = listening.sockets[0].getsockname()
    _, server = await asyncio.get_running_loop().create_datagram_endpoint(Dns, local_addr=where)
    server.zone = {name.replace('_', '.'): addresses for name, addresses in zone.items()}
    try:
        yield server
    finally:
        server.stop()
        listening.close()
