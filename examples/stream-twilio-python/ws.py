"""A WebSocket server in plain Python (RFC 6455), as small as a bot needs it."""
import asyncio, base64, hashlib, struct


class Closed(Exception):
    """The other side is gone."""


class Socket:
    def __init__(self, reader, writer, path, headers):
        self.reader, self.writer, self.path, self.headers = reader, writer, path, headers
        self.closing = False

    async def frame(self):
        first, second = await self.reader.readexactly(2)
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack(">H", await self.reader.readexactly(2))
        elif length == 127:
            (length,) = struct.unpack(">Q", await self.reader.readexactly(8))
        if not second & 0x80 or length > 1 << 20:
            raise Closed("not a client's frame")
        mask = await self.reader.readexactly(4)
        masked = await self.reader.readexactly(length)
        key = (mask * (length // 4 + 1))[:length]
        data = (int.from_bytes(masked, "big") ^ int.from_bytes(key, "big")).to_bytes(length, "big")
        return first & 0x80, first & 0x0F, data

    async def receive(self):
        """The next message: str for text, bytes for binary."""
        kind, parts = 0, []
        try:
            while True:
                final, opcode, data = await self.frame()
                if opcode == 8:
                    await self.close(data)
                    raise Closed("closed")
                if opcode == 9:
                    await self.write(10, data)
                if opcode >= 8:
                    continue
                kind, parts = opcode or kind, parts + [data]
                if final:
                    whole = b"".join(parts)
                    return whole.decode() if kind == 1 else whole
        except (asyncio.IncompleteReadError, ConnectionError) as err:
            raise Closed("broken") from err

    async def send(self, message):
        text = isinstance(message, str)
        await self.write(1 if text else 2, message.encode() if text else message)

    async def write(self, opcode, data):
        size = len(data)
        head = struct.pack(">BB", 0x80 | opcode, size) if size < 126 else (
            struct.pack(">BBH", 0x80 | opcode, 126, size) if size < 65536 else struct.pack(">BBQ", 0x80 | opcode, 127, size))
        try:
            self.writer.write(head + data)
            await self.writer.drain()
        except ConnectionError as err:
            raise Closed("broken") from err

    async def close(self, code=struct.pack(">H", 1000)):
        """Says goodbye. What the other side still sends is to be received until Closed."""
        if not self.closing:
            self.closing = True
            await self.write(8, code)


async def serve(handler, port, key=""):
    """Runs handler(socket) for each connection to port; key is the bearer token asked for."""

    async def connected(reader, writer):
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
            if key and headers.get("authorization") != "Bearer " + key:
                writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
                return
            accept = hashlib.sha1((headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
            writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                         b"Sec-WebSocket-Accept: " + base64.b64encode(accept) + b"\r\n\r\n")
            await handler(Socket(reader, writer, head[0].split()[1], headers))
        except (Closed, KeyError, IndexError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    print(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/", flush=True)
    async with server:
        await server.serve_forever()
