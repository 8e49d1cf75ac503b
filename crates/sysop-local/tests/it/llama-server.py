#!/usr/bin/env python3
"""A stand-in for llama-server: its command line, health check, key and streaming chat, with a fixed answer.

A model file that contains `crash` cannot be loaded. Each start appends `PID ALIAS` to $STAND_IN_LOG.
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

options = dict(zip(sys.argv[1:], sys.argv[2:]))
alias, key = options["--alias"], os.environ["LLAMA_API_KEY"]
with open(options["-m"]) as model:
    text = model.read()
print("loading", options["-m"], file=sys.stderr, flush=True)
if "crash" in text:
    print("error: failed to load model", file=sys.stderr, flush=True)
    sys.exit(1)
with open(os.environ["STAND_IN_LOG"], "a") as log:
    log.write(f"{os.getpid()} {alias}\n")
ready = threading.Event()
threading.Timer(0.3, ready.set).start()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, status, body, kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def is_allowed(self):
        allowed = "open" in text or self.headers.get("Authorization") == f"Bearer {key}"
        if not allowed:
            self.send(401, b'{"error":{"message":"Invalid API Key"}}')
        return allowed

    def do_GET(self):
        if self.path == "/health":
            self.send(200 if ready.is_set() else 503, b"{}")
        elif self.path == "/props" and self.is_allowed():
            window = {"default_generation_settings": {"n_ctx": int(options["-c"])}}
            self.send(200, json.dumps(window).encode())
        elif self.is_allowed():
            self.send(200, json.dumps({"data": [{"id": alias}]}).encode())

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if not self.is_allowed():
            return
        chunk = {"object": "chat.completion.chunk", "model": alias}
        parts = [{"delta": {"role": "assistant", "content": f"I am {alias}."}}, {"delta": {}, "finish_reason": "stop"}]
        lines = [json.dumps(chunk | {"choices": [{"index": 0} | part]}) for part in parts] + ["[DONE]"]
        self.send(200, "".join(f"data: {line}\n\n" for line in lines).encode(), "text/event-stream")


ThreadingHTTPServer((options["--host"], int(options["--port"])), Handler).serve_forever()
