"""The four tools of the conformance suite, by version 2 of the protocol."""
import json
import sys
import threading

out = threading.Lock()
waiting = {}


def send(message):
    with out:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def tool(name, **more):
    return {"name": "py_" + name, "description": name, "parameters": {"type": "object"}, **more}


def execute(request, cancelled):
    name, args = request["tool"].removeprefix("py_"), request["params"]
    if name == "echo":
        send({"id": request["id"], "result": args["text"]})
    elif name == "fail":
        send({"id": request["id"], "error": {"code": -32000, "message": "out of stock"}})
    elif name == "big":
        send({"id": request["id"], "result": "x" * 120_000})
    elif name == "wait":
        cancelled.wait()
        send({"id": request["id"], "error": {"code": -32800, "message": "cancelled"}})
    waiting.pop(request["id"], None)


for line in sys.stdin:
    request = json.loads(line)
    method = request.get("method")
    if method == "initialize":
        text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        send({"id": request["id"], "result": {"tools": [
            tool("echo", parameters=text), tool("wait", cancellable=True), tool("fail"), tool("big")]}})
    elif method == "execute":
        waiting[request["id"]] = threading.Event()
        threading.Thread(target=execute, args=(request, waiting[request["id"]]), daemon=True).start()
    elif method == "$/cancelRequest":
        event = waiting.get(request["params"]["id"])
        if event:
            event.set()
