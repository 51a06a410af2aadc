"""A bot for Media Streams in plain Python: python3 bot.py, then point [stream] url at it.

It greets with a melody, plays back what the caller says, stops when the caller speaks
over it, answers keys with as many beeps, and says goodbye after #.
"""
import asyncio, base64, json, math, os
import ws

LOUD = 1000  # mean amplitude of a voice
HANG = 30    # frames of 20 ms of silence that end what the caller says


def encode(sample):
    """One sample as mu-law (ITU-T G.711)."""
    sign, s = (0x80, -sample) if sample < 0 else (0, sample)
    s = min(s, 32635) + 132
    exponent = max(s.bit_length() - 8, 0)
    return ~(sign | exponent << 4 | s >> exponent + 3 & 0x0F) & 0xFF


def decode(byte):
    byte = ~byte & 0xFF
    s = ((byte & 0x0F) << 3 | 0x84) << (byte >> 4 & 7)
    return 132 - s if byte & 0x80 else s - 132


AMPLITUDE = [abs(decode(b)) for b in range(256)]


def tone(hz, ms):
    return bytes(encode(int(8000 * math.sin(2 * math.pi * hz * i / 8000))) for i in range(8 * ms))


GREETING = tone(523, 200) + tone(659, 200) + tone(784, 400)
GOODBYE = tone(784, 200) + tone(523, 400)
BEEP = tone(1000, 100) + b"\xff" * 800


class Call:
    """One call: what to do with each message."""

    def __init__(self, socket):
        self.socket, self.stream = socket, None
        self.playing = []  # marks that did not come back
        self.said, self.loud, self.quiet = bytearray(), 0, 0
        self.echoes = 0

    async def send(self, event, **fields):
        await self.socket.send(json.dumps({"event": event, "streamSid": self.stream, **fields}))

    async def say(self, sound, mark):
        self.playing.append(mark)
        await self.send("media", media={"payload": base64.b64encode(sound).decode()})
        await self.send("mark", mark={"name": mark})

    async def on_start(self, m):
        self.stream = m["streamSid"]
        print("start", m["start"]["callSid"], json.dumps(m["start"]["customParameters"]), flush=True)
        await self.say(GREETING, "greeting")

    async def on_media(self, m):
        sound = base64.b64decode(m["media"]["payload"])
        voice = sum(AMPLITUDE[b] for b in sound) > LOUD * len(sound)
        self.loud, self.quiet = (self.loud + 1, 0) if voice else (0, self.quiet + 1)
        if self.playing and self.loud == 3:
            await self.send("clear")
            print("clear", flush=True)
        if voice or self.said:
            self.said += sound
        if self.said and self.quiet == HANG:
            said, self.said = bytes(self.said), bytearray()
            self.echoes += 1
            await self.say(BEEP + said, f"echo {self.echoes}")

    async def on_dtmf(self, m):
        digit = m["dtmf"]["digit"]
        if digit == "#":
            await self.say(GOODBYE, "goodbye")
        elif digit.isdigit():
            await self.say(BEEP * int(digit), f"key {digit}")

    async def on_mark(self, m):
        name = m["mark"]["name"]
        if name in self.playing:
            self.playing.remove(name)
        print("mark", name, flush=True)
        if name == "goodbye":
            await self.socket.close()

    async def on_stop(self, _):
        print("stop", flush=True)


async def talk(socket):
    call = Call(socket)
    while True:
        m = json.loads(await socket.receive())
        handle = getattr(call, "on_" + m["event"], None)
        if handle:
            await handle(m)


if __name__ == "__main__":
    asyncio.run(ws.serve(talk, int(os.environ.get("PORT", "9000")), os.environ.get("BOT_KEY", "")))
