import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { ClientMessage, ServerMessage } from "../wire";
import { EventStreamParser } from "./event-stream";
import { type LinkEnvironment, resetSocketBlock, SessionLink } from "./session-link";
import type { Connection, ConnectionEnd, ConnectionHandlers } from "./transport";

/** A scripted connection of a test. */
class Played implements Connection {
  readonly sent: ClientMessage[] = [];
  closed = false;
  constructor(
    readonly kind: "socket" | "events",
    readonly resumeFrom: number,
    readonly hooks: ConnectionHandlers,
  ) {}
  send(message: ClientMessage): boolean {
    this.sent.push(message);
    return true;
  }
  close(): void {
    this.closed = true;
  }
  greet(lastSeq: number): void {
    this.hooks.message({ type: "session.created", sessionId: "s", lastSeq } as ServerMessage);
  }
  says(seq: number, content = `m${seq}`): void {
    this.hooks.message({ type: "user.message", sessionId: "s", seq, content });
  }
  async breaks(ended: Partial<ConnectionEnd> = {}): Promise<void> {
    this.hooks.ended({ worked: true, ...ended });
    await vi.advanceTimersByTimeAsync(0);
  }
}

let opened: Played[];
let reachable: number;
let throughNow: boolean;
let link: SessionLink;
let world: LinkEnvironment;
let heard: string[];
const last = () => {
  const played = opened.at(-1);
  if (!played) throw new Error("nothing was opened");
  return played;
};

function begin(kept: ConstructorParameters<typeof SessionLink>[1] = []): void {
  const open = (kind: Played["kind"]) => (_: string, resumeFrom: number, hooks: ConnectionHandlers) => {
    const played = new Played(kind, resumeFrom, hooks);
    opened.push(played);
    return played;
  };
  world = {
    socket: open("socket"),
    events: open("events"),
    canOpenSocket: async () => throughNow,
    probe: async () => reachable,
    now: () => Date.now(),
    random: () => 0.5,
  };
  link = new SessionLink("s", kept, world);
  link.on((message) => {
    if (message.type === "user.message") heard.push(message.content);
  });
  link.open();
}

beforeEach(() => {
  vi.useFakeTimers();
  resetSocketBlock();
  opened = [];
  heard = [];
  reachable = 200;
  throughNow = false;
  begin();
});
afterEach(() => {
  link.close();
  vi.useRealTimers();
});

describe("a link", () => {
  test("is open after the greeting, and reports its state to a new listener at once", () => {
    const states: string[] = [];
    link.onState((state) => states.push(state));
    last().greet(0);
    expect(states).toEqual(["connecting", "open"]);
  });

  test("resumes after the last event it had, and delivers nothing twice", async () => {
    last().greet(2);
    last().says(1);
    last().says(2);
    await last().breaks();
    expect(link.status.state).toBe("connecting");
    await vi.advanceTimersByTimeAsync(1_000);
    expect(opened).toHaveLength(2);
    expect(last().resumeFrom).toBe(2);
    last().greet(3);
    last().says(2);
    last().says(3);
    await last().breaks();
    await vi.advanceTimersByTimeAsync(1_000);
    last().greet(3);
    last().says(3);
    expect(heard).toEqual(["m1", "m2", "m3"]);
  });

  test("loads a long history as a stream, and continues over a socket", () => {
    last().greet(1_000);
    expect(opened.map(({ kind, resumeFrom }) => [kind, resumeFrom])).toEqual([
      ["socket", 0],
      ["events", 0],
    ]);
    expect(opened[0]?.closed).toBe(true);
    last().greet(1_000);
    for (let seq = 1; seq <= 1_000; seq += 1) {
      expect(link.status.state).toBe("connecting");
      last().says(seq);
    }
    expect(opened.map(({ kind, resumeFrom }) => [kind, resumeFrom]).slice(2)).toEqual([["socket", 1_000]]);
    last().greet(1_001);
    last().says(1_001);
    expect(link.status).toMatchObject({ state: "open", kind: "socket" });
    expect(heard).toHaveLength(1_001);
  });

  test("loads a long history over its socket if the stream fails", async () => {
    last().greet(1_000);
    await last().breaks({ worked: false });
    await vi.advanceTimersByTimeAsync(1_000);
    expect(opened).toHaveLength(3);
    last().greet(1_000);
    expect(opened).toHaveLength(3);
    expect(link.status).toMatchObject({ state: "open", kind: "socket" });
  });

  test("ignores messages of a connection that ended", async () => {
    const old = last();
    old.greet(0);
    await old.breaks();
    await vi.advanceTimersByTimeAsync(1_000);
    last().greet(0);
    old.says(1, "ghost");
    expect(heard).toEqual([]);
  });

  test("is offline as soon as the browser says so, and open again if the server still responds", () => {
    link.close();
    const page = new EventTarget();
    vi.stubGlobal("window", page);
    vi.stubGlobal("document", new EventTarget());
    begin();
    last().greet(0);
    const lost = last();
    page.dispatchEvent(new Event("offline"));
    expect(link.status).toMatchObject({ state: "offline", why: "this device has no network", final: false });
    expect(lost.closed).toBe(true);
    expect(last()).not.toBe(lost);
    last().greet(0);
    expect(link.status.state).toBe("open");
    link.close();
    vi.unstubAllGlobals();
  });

  test("waits longer with each failed attempt, and reports that it is offline", async () => {
    reachable = 0;
    last().greet(0);
    await last().breaks();
    for (let at = 0; at < 5; at += 1) {
      await vi.advanceTimersByTimeAsync(20_000);
      await last().breaks({ worked: false });
    }
    expect(link.status).toMatchObject({ state: "offline", why: "no response from the server", final: false });
    const before = opened.length;
    await vi.advanceTimersByTimeAsync(7_000);
    expect(opened).toHaveLength(before); // by now it waits longer than that
    link.again();
    expect(opened).toHaveLength(before + 1);
    last().greet(0);
    expect(link.status.state).toBe("open");
  });

  test("falls back to server-sent events if the server responds but its socket does not", async () => {
    await last().breaks({ worked: false });
    expect(last().kind).toBe("socket");
    await last().breaks({ worked: false });
    expect(last().kind).toBe("events");
    last().greet(0);
    expect(link.status).toMatchObject({ state: "open", kind: "events" });
    link.send({ type: "user.message", content: "hi" });
    expect(last().sent).toMatchObject([{ type: "user.message", content: "hi" }]);
  });

  test("checks after a while whether a socket can be opened again", async () => {
    await last().breaks({ worked: false });
    await last().breaks({ worked: false });
    last().greet(0);
    const before = opened.length;
    await vi.advanceTimersByTimeAsync(601_000);
    expect(opened.length).toBe(before); // what works goes on as long as nothing better does
    expect(last().closed).toBe(false);
    throughNow = true;
    await vi.advanceTimersByTimeAsync(301_000);
    expect(last().kind).toBe("socket");
  });

  test("tries a socket again after half a minute at first, and then after five minutes", async () => {
    await last().breaks({ worked: false, late: true });
    last().greet(0);
    const tried = vi.spyOn(world, "canOpenSocket");
    await vi.advanceTimersByTimeAsync(36_000);
    expect(tried).toHaveBeenCalledTimes(1);
    await vi.advanceTimersByTimeAsync(290_000);
    expect(tried).toHaveBeenCalledTimes(1);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(tried).toHaveBeenCalledTimes(2);
  });

  test("falls back after a single socket that times out", async () => {
    await last().breaks({ worked: false, late: true });
    expect(last().kind).toBe("events");
  });

  test("keeps using sockets if the server itself was unreachable", async () => {
    reachable = 0;
    await last().breaks({ worked: false });
    await vi.advanceTimersByTimeAsync(1_000);
    expect(last().kind).toBe("socket");
  });

  test("gives up if there is no such session any more or at all, or access is denied", async () => {
    for (const [status, why, known] of [
      [404, "the session was deleted", true],
      [404, "this server has no such session", false],
      [401, "this browser is no longer signed in", true],
    ] as const) {
      link.close();
      begin();
      if (known) last().greet(0);
      reachable = status;
      await last().breaks({ worked: false });
      const before = opened.length;
      await vi.advanceTimersByTimeAsync(60_000);
      expect(opened).toHaveLength(before);
      expect(link.status).toMatchObject({ state: "offline", final: true });
      expect(link.status.why).toContain(why);
    }
  });

  test("replaces a connection that stays silent", async () => {
    last().greet(0);
    const silent = last();
    await vi.advanceTimersByTimeAsync(20_000);
    silent.hooks.alive();
    await vi.advanceTimersByTimeAsync(20_000);
    expect(opened).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(silent.closed).toBe(true);
    expect(opened).toHaveLength(2);
  });

  test("reconnects if events are missing", () => {
    last().greet(5);
    last().says(1);
    last().says(3);
    expect(opened).toHaveLength(2);
    expect(last().resumeFrom).toBe(1);
    expect(heard).toEqual(["m1"]);
  });
});

describe("the links of many tabs", () => {
  let tabs: SessionLink[];
  const streams = () => opened.filter(({ kind, closed }) => kind === "events" && !closed);
  const states = () => tabs.map(({ status }) => status.state);

  beforeEach(async () => {
    link.close();
    opened = [];
    tabs = Array.from({ length: 8 }, (_, at) => new SessionLink(`s${at}`, [], world));
    for (const tab of tabs) tab.open();
    tabs[7]?.show();
    await Promise.all(opened.map((socket) => socket.breaks({ worked: false, late: true })));
  });
  afterEach(() => {
    for (const tab of tabs) tab.close();
  });

  test("leave connections to requests: two sessions are followed, the shown one among them", () => {
    expect(streams()).toHaveLength(2);
    for (const stream of streams()) stream.greet(0);
    expect(states()).toEqual(["open", ...Array(6).fill("parked"), "open"]);
    tabs[3]?.show();
    expect(streams()).toHaveLength(2);
    streams().at(-1)?.greet(0);
    expect(states().map((state) => state === "open")).toEqual([0, 0, 0, 1, 0, 0, 0, 1].map(Boolean));
    tabs[7]?.close();
    expect(streams()).toHaveLength(2);
  });

  test("connect again once a socket opens", async () => {
    for (const stream of streams()) stream.greet(0);
    throughNow = true;
    await vi.advanceTimersByTimeAsync(45_000);
    expect(streams()).toHaveLength(0);
    expect(opened.filter(({ kind, closed }) => kind === "socket" && !closed)).toHaveLength(8);
  });
});

describe("a prompt", () => {
  const prompts = (played: Played) => played.sent.filter(({ type }) => type === "user.message");

  test("waits for the connection and for the end of the history", () => {
    link.send({ type: "user.message", content: "go", messageId: "p1" });
    expect(link.pending).toHaveLength(1);
    last().greet(2);
    last().says(1);
    expect(prompts(last())).toHaveLength(0);
    last().says(2);
    expect(prompts(last())).toMatchObject([{ content: "go", messageId: "p1" }]);
    last().says(3, "go");
    expect(link.pending).toHaveLength(0);
  });

  test("is sent again with the same id after a disconnect, unless it is in the log", async () => {
    last().greet(0);
    link.send({ type: "user.message", content: "one", messageId: "p1" });
    link.send({ type: "user.message", content: "two", messageId: "p2" });
    expect(prompts(last())).toHaveLength(2);
    await last().breaks();
    await vi.advanceTimersByTimeAsync(1_000);
    last().greet(1);
    expect(prompts(last())).toHaveLength(0);
    last().says(1, "one");
    expect(prompts(last())).toMatchObject([{ content: "two", messageId: "p2" }]);
  });

  test("is not confused with an earlier one of the same text", () => {
    last().greet(1);
    last().says(1, "go");
    link.send({ type: "user.message", content: "go" });
    expect(link.pending).toHaveLength(1);
    last().says(2, "go");
    expect(link.pending).toHaveLength(0);
  });

  test("of images alone is found in the log by the text that stands for it", () => {
    const images = [{ artifact: "image-1", mediaType: "png" as const, width: 1, height: 1 }];
    last().greet(0);
    link.send({ type: "user.message", content: "", messageId: "p1", images });
    last().says(1, "something else");
    expect(link.pending).toHaveLength(1);
    last().says(2, "Look at this.");
    expect(link.pending).toHaveLength(0);
  });

  test("survives a reload", () => {
    link.close();
    begin([{ messageId: "p1", content: "kept", after: 1, sentOver: 7 }]);
    last().greet(1);
    last().says(1);
    expect(prompts(last())).toMatchObject([{ content: "kept", messageId: "p1" }]);
  });

  test("that was refused is handed back", () => {
    const back: string[] = [];
    link.onRefused(({ content }) => back.push(content));
    last().greet(0);
    link.send({ type: "user.message", content: "too long", messageId: "p1" });
    last().hooks.message({ type: "error", sessionId: "s", message: "no", code: "too_large", replyTo: "p1" });
    expect(back).toEqual(["too long"]);
    expect(link.pending).toHaveLength(0);
  });

  test("can be withdrawn while it waits", () => {
    link.send({ type: "user.message", content: "no, wait", messageId: "p1" });
    expect(link.takeBack("p1")).toBe("no, wait");
    last().greet(0);
    expect(prompts(last())).toHaveLength(0);
  });

  test("keys and answers are not kept for later", () => {
    link.send({ type: "terminal.input", data: "rm\r" });
    link.send({ type: "question.answer", id: 1, answer: "secret" });
    last().greet(0);
    expect(last().sent).toEqual([]);
  });
});

describe("the events of a stream", () => {
  test("carry the id to resume from", () => {
    const events = new EventStreamParser().push("id: 3\ndata: a\n\ndata: b\n\nid: 4\ndata: c\n\n");
    expect(events.map(({ id }) => id)).toEqual(["3", undefined, "4"]);
  });

  const stream =
    'id: 3\ndata: {"type":"a"}\n\n: comment\n\ndata: {"type":\ndata: "b"}\r\n\r\ndata:{"type":"c"}\n\n';

  test("are parsed however the stream is split", () => {
    for (let size = 1; size < stream.length; size += 1) {
      const reader = new EventStreamParser();
      const events: string[] = [];
      for (let at = 0; at < stream.length; at += size)
        events.push(...reader.push(stream.slice(at, at + size)).map(({ data }) => data));
      expect(events).toEqual(['{"type":"a"}', '{"type":\n"b"}', '{"type":"c"}']);
    }
  });
});
