import { describe, expect, test } from "vitest";
import type { ServerMessage } from "../wire";
import { Sequencer } from "./sequencer";

const at = (seq: number | undefined, more?: boolean, content = "") =>
  ({ type: "user.message", sessionId: "s", seq, more, content }) as ServerMessage;

describe("messages", () => {
  test("are taken once and in order, and those without a number always", () => {
    const sequencer = new Sequencer();
    const verdicts = [at(1), at(1), at(undefined), at(2), at(1), at(3)].map((message) =>
      sequencer.judge(message),
    );
    expect(verdicts).toEqual(["take", "drop", "take", "take", "drop", "take"]);
    expect(sequencer.complete).toBe(3);
  });

  test("of one event complete it only with the last of them", () => {
    const sequencer = new Sequencer();
    expect(sequencer.judge(at(1, true))).toBe("take");
    expect(sequencer.complete).toBe(0);
    expect(sequencer.judge(at(1))).toBe("take");
    expect(sequencer.complete).toBe(1);
  });

  test("of an event that disconnects interrupted are not taken again", () => {
    const sequencer = new Sequencer();
    const taken: string[] = [];
    const give = (message: ServerMessage) => {
      if (sequencer.judge(message) === "take" && message.type === "user.message") taken.push(message.content);
    };
    const event = [at(1, true, "a"), at(1, true, "b"), at(1, false, "c")];
    event.slice(0, 1).forEach(give);
    sequencer.reconnected();
    event.slice(0, 2).forEach(give);
    sequencer.reconnected();
    event.forEach(give);
    give(at(2, false, "d"));
    sequencer.reconnected();
    give(at(2, false, "d"));
    expect(taken).toEqual(["a", "b", "c", "d"]);
    expect(sequencer.complete).toBe(2);
  });

  test("that are missing are requested once and then skipped", () => {
    const sequencer = new Sequencer();
    sequencer.judge(at(1));
    expect(sequencer.judge(at(3))).toBe("gap");
    sequencer.reconnected();
    expect(sequencer.judge(at(3))).toBe("take");
    expect(sequencer.complete).toBe(3);
  });
});
