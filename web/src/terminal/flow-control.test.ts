import { describe, expect, it } from "vitest";
import { FlowControl, WAITING_MAX } from "./flow-control";

/** A screen that draws on command, and a server that records requests. */
function world() {
  const told: string[] = [];
  const drawing: (() => void)[] = [];
  const flow = new FlowControl({
    write: (_, done) => drawing.push(done),
    stop: () => told.push("stop"),
    ask: (first) => told.push(first ? "ask" : "ask again"),
  });
  const draw = () => {
    for (const done of drawing.splice(0)) done();
  };
  return { flow, told, draw };
}
const HALF = "x".repeat(WAITING_MAX / 2);

describe("a terminal's flow", () => {
  it("draws nothing before the first screen", () => {
    const { flow, told } = world();
    expect(flow.takes(false)).toBe(false);
    flow.connected();
    expect(told).toEqual(["ask"]);
    expect(flow.takes(false)).toBe(false);
    expect(flow.takes(true)).toBe(true);
    expect(flow.takes(false)).toBe(true);
  });

  it("stops a flood, and continues with a new screen once all is drawn", () => {
    const { flow, told, draw } = world();
    flow.connected();
    flow.takes(true);
    for (const piece of [HALF, HALF]) flow.push(piece);
    expect(told).toEqual(["ask"]);
    flow.push("x");
    expect(told).toEqual(["ask", "stop"]);
    expect(flow.takes(false)).toBe(false);
    expect(flow.takes(true)).toBe(false); // on its way since before
    draw();
    expect(told).toEqual(["ask", "stop", "ask again"]);
    expect(flow.takes(true)).toBe(true);
    flow.push("x");
    expect(told).toHaveLength(3);
  });

  it("asks once per connection, whatever is still waiting", () => {
    const { flow, told, draw } = world();
    flow.connected();
    flow.takes(true);
    for (const piece of [HALF, HALF, "x"]) flow.push(piece);
    flow.lost();
    flow.connected();
    draw();
    expect(told).toEqual(["ask", "stop", "ask"]);
    expect(flow.takes(false)).toBe(false);
  });
});
