"""A client of the JolliAgent design, with nothing but Python's own library: one line a message, both ways.

Usage: jolli.py URL TOKEN ROOT PROMPT
Makes a session, says hello with two tools, says PROMPT, runs the calls that come in ROOT, and ends with the turn.
"""

import base64
import hashlib
import http.client
import json
import os
import pathlib
import socket
import struct
import sys
import urllib.parse


class Socket:
    """A WebSocket, as RFC 6455 has it."""

    def __init__(self, address, path, token):
        self.stream = socket.create_connection(address, timeout=60)
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        key = base64.b64encode(os.urandom(16)).decode()
        head = [
            f"GET {path} HTTP/1.1",
            f"Host: {address[0]}:{address[1]}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
            f"Authorization: Bearer {token}",
        ]
        self.stream.sendall(("\r\n".join(head) + "\r\n\r\n").encode())
        self.file = self.stream.makefile("rb")
        status = self.file.readline().decode()
        if " 101 " not in status:
            raise SystemExit(f"no socket: {status}")
        accept = base64.b64encode(
            hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
        ).decode()
        headers = {}
        while line := self.file.readline().decode().strip():
            name, value = line.split(":", 1)
            headers[name.strip().lower()] = value.strip()
        assert headers["sec-websocket-accept"] == accept, "the server shook another hand"

    def send(self, opcode, data):
        mask = os.urandom(4)
        length = len(data)
        if length < 126:
            head = struct.pack("!BB", 0x80 | opcode, 0x80 | length)
        elif length < 65536:
            head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, length)
        else:
            head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, length)
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
        self.stream.sendall(head + mask + masked)

    def say(self, message):
        print("->", json.dumps(message), flush=True)
        self.send(1, json.dumps(message).encode())

    def hear(self):
        """The next message; None where the server closed the socket."""
        whole = b""
        while True:
            first, second = self.file.read(2)
            assert second & 0x80 == 0, "servers do not mask"
            length = second & 0x7F
            if length == 126:
                (length,) = struct.unpack("!H", self.file.read(2))
            elif length == 127:
                (length,) = struct.unpack("!Q", self.file.read(8))
            data = self.file.read(length)
            opcode = first & 0x0F
            if opcode == 8:
                return None
            if opcode == 9:
                self.send(10, data)
                continue
            if opcode == 10:
                continue
            whole += data
            if first & 0x80:
                message = json.loads(whole)
                print("<-", json.dumps(message), flush=True)
                return message


def schema(**properties):
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }


MANIFEST = [
    {"name": "write_file", "description": "Write a file", "parameters": schema(path="string", content="string")},
    {"name": "ls", "description": "List a directory", "inputSchema": schema(path="string")},
]


def run(root, name, arguments):
    """The tool host: never outside of its root."""
    path = (root / arguments["path"]).resolve()
    if root != path and root not in path.parents:
        return {"output": "", "error": "outside of the workspace"}
    if name == "write_file":
        path.write_text(arguments["content"])
        return {"output": f"wrote {arguments['path']}"}
    return {"output": "\n".join(sorted(entry.name for entry in path.iterdir()))}


def main():
    url, token, root, prompt = sys.argv[1:]
    parts = urllib.parse.urlsplit(url)
    root = pathlib.Path(root).resolve()
    rest = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    rest.request("POST", "/api/agent/sessions", headers={"Authorization": f"Bearer {token}"})
    made = json.loads(rest.getresponse().read())
    print("made", json.dumps(made), flush=True)
    session = made["sessionId"]
    ws = Socket((parts.hostname, parts.port), f"/api/agent/sessions/{session}/stream", token)
    ws.say({"type": "hello", "clientVersion": "jolli.py", "toolManifest": MANIFEST, "workspaceRoot": str(root)})
    created = ws.hear()
    assert created["type"] == "session.created" and created["sessionId"] == session, created
    ws.say({"type": "user.message", "sessionId": session, "content": prompt})
    while message := ws.hear():
        kind = message["type"]
        if kind == "tool.call":
            result = run(root, message["name"], message["arguments"])
            ws.say({"type": "tool.result", "sessionId": session, "toolCallId": message["toolCallId"], **result})
        elif kind == "approval.request":
            ws.say({"type": "approval.decision", "toolCallId": message["toolCallId"], "decision": "allow"})
        elif kind == "assistant.done":
            return


main()
