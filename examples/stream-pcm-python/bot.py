"""A bot that takes raw audio, in plain Python: python3 bot.py, then point [stream] url at it.

It greets with a melody, plays back what the caller says, stops when the caller speaks
over it, answers keys with as many beeps, counts the caller's calls, and hangs up after #.
Who speaks and when is told by the gateway.
"""
import array, asyncio, json, math, os, sys
import ws


def tone(rate, hz, ms):
    return raw(int(8000 * math.sin(2 * math.pi * hz * i / rate)) for i in range(rate * ms // 1000))


def raw(samples):
    """Samples as the gateway wants them: signed, 16 bits, little-endian."""
    a = array.array("h", samples)
    if sys.byteorder == "big":
        a.byteswap()
    return a.tobytes()


class Call:
    """One call: what to do with each message."""

    def __init__(self, socket):
        self.socket = socket
        self.playing = []          # marks that did not come back
        self.heard = bytearray()   # the caller's sound: the last second, or since the voice began
        self.skipped = 0           # bytes of it that came before
        self.began = None          # where the voice began that speaks now
        self.echoes = 0

    async def send(self, kind, **fields):
        await self.socket.send(json.dumps({"type": kind, **fields}))

    async def say(self, sound, mark, text):
        self.playing.append(mark)
        await self.socket.send(sound)
        await self.send("mark", name=mark, text=text)

    def tones(self, *notes):
        return b"".join(tone(self.rate, hz, ms) for hz, ms in notes)

    def at(self, ms):
        """How many bytes of the caller's sound a time is."""
        return ms * self.rate // 1000 * 2

    def hear(self, sound):
        self.heard += sound
        old = len(self.heard) - self.at(1000)
        if self.began is None and old > 0:
            del self.heard[:old]
            self.skipped += old

    async def on_hello(self, m):
        self.rate = m["rate"]
        self.calls = m.get("memory", {}).get("user:bot_calls", 0) + 1
        print(m["type"], m["session"], m["caller"].get("resource_id", "anonymous"), f"call {self.calls}", flush=True)

    async def on_resume(self, m):
        await self.on_hello(m)
        self.playing = m["marks"]

    async def on_start(self, _):
        await self.send("memory", key="user:bot_calls", value=self.calls)
        await self.say(self.tones((523, 200), (659, 200), (784, 400)), "greeting", "Hello.")

    async def on_gap(self, m):
        self.heard, self.skipped, self.began = bytearray(), self.at(m["heard_ms"]), None

    async def on_voice(self, m):
        if m["state"] == "on":
            self.began = self.at(m["heard_ms"])
        elif m["state"] == "confirmed" and self.playing:
            await self.send("clear")
            print("clear", flush=True)
        elif m["state"] == "off" and self.began is not None:
            said = bytes(self.heard[max(0, self.began - self.skipped):])
            self.began = None
            self.echoes += 1
            await self.send("transcript", text=f"{len(said) * 1000 // self.rate // 2} ms of sound", final=True)
            await self.say(self.tones((1000, 100)) + said, f"echo {self.echoes}", "You said this.")

    async def on_digit(self, m):
        digit = m["digit"]
        if digit == "#":
            await self.say(self.tones((784, 200), (523, 400)), "goodbye", "Goodbye.")
            await self.send("hangup")
        elif digit.isdigit():
            await self.say(self.tones(*[(1000, 100), (0, 100)] * int(digit)), f"key {digit}", f"You pressed {digit}.")

    async def on_mark(self, m):
        if m["name"] in self.playing:
            self.playing.remove(m["name"])
        print("mark", m["name"], "cleared" if m["cleared"] else "heard", flush=True)

    async def on_cleared(self, m):
        print("heard", m["played_ms"], "ms, not heard", m["dropped_ms"], "ms", flush=True)

    async def on_error(self, m):
        print("error", m["field"], m["message"], flush=True)

    async def on_stop(self, m):
        print("stop", m["cause"], flush=True)


async def talk(socket):
    call = Call(socket)
    while True:
        m = await socket.receive()
        if isinstance(m, bytes):
            call.hear(m)
            continue
        m = json.loads(m)
        handle = getattr(call, "on_" + m["type"], None)
        if handle:
            await handle(m)


if __name__ == "__main__":
    asyncio.run(ws.serve(talk, int(os.environ.get("PORT", "9000")), os.environ.get("BOT_KEY", "")))
