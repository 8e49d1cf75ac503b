/** A proxy between a browser and its server that forwards requests but blocks WebSockets. */
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";

/** Treatment of a WebSocket upgrade: an answer, a closed connection, or silence. */
export type SocketFault = "refuses" | "drops" | "swallows";

export interface BlockingProxy {
  url: string;
  /** Its name as browsers say it: the server has to answer to that. */
  host: string;
  /** Number of requested WebSockets. */
  wanted(): number;
  /** Target of all further requests. */
  leadTo(server: string): void;
  end(): Promise<void>;
}

export async function startBlockingProxy(blocks: SocketFault): Promise<BlockingProxy> {
  let [target, wanted] = ["", 0];
  const sockets = new Set<Socket>();
  const pass = (from: IncomingMessage, to: ServerResponse) => {
    const there = request(target + from.url, { method: from.method, headers: from.headers }, (answer) => {
      to.writeHead(answer.statusCode ?? 502, answer.headers);
      to.flushHeaders();
      answer.pipe(to);
    });
    there.on("error", () => to.destroy());
    to.on("close", () => there.destroy());
    from.pipe(there);
  };
  const proxy = createServer(pass);
  proxy.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
  });
  proxy.on("upgrade", (_, socket) => {
    wanted += 1;
    if (blocks === "refuses")
      socket.end("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    else if (blocks === "drops") socket.destroy();
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const host = `127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  return {
    url: `http://${host}`,
    host,
    wanted: () => wanted,
    leadTo: (server) => {
      target = server;
    },
    end: () => {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => proxy.close(() => resolve()));
    },
  };
}
