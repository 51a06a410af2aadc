"""A tool for voice agents in Python, with nothing but the standard library.

One JSON object per line comes in, one goes out. What is to be read by people goes to
standard error, because standard output belongs to the protocol.
"""
import json
import sys

HOURS = {"saturday": "10 to 2", "sunday": None}


def execute(args):
    hours = HOURS.get(args["day"], "9 to 6")
    return f"open from {hours}" if hours else "closed all day"


def answer(request):
    if request.get("method") == "initialize":
        return {"result": "initialized"}
    if request.get("method") == "execute":
        try:
            return {"result": execute(request["params"])}
        except Exception as error:  # the agent hears of it, and the plugin lives on
            return {"error": {"code": -32000, "message": str(error)}}
    return {"error": {"code": -32601, "message": "no such method"}}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer(request)}), flush=True)
