"""A plugin of version 1: one tool, one line in, one line out, and noise between."""
import json
import sys

print("starting up ...")
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "initialize":
        print(json.dumps({"jsonrpc": "2.0", "result": "initialized"}))  # no id: it is one line
    elif request["method"] == "execute":
        print("debug: got it")
        print(json.dumps({"jsonrpc": "2.0", "result": "stray", "id": 4711}))
        answer = {"jsonrpc": "2.0", "result": "It is sunny in " + request["params"]["city"], "id": request["id"]}
        print(json.dumps(answer))
        print(json.dumps({**answer, "result": "twice"}))
    sys.stdout.flush()
