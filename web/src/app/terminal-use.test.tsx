// @vitest-environment happy-dom
import { createRoot } from "react-dom/client";
import { test, vi } from "vitest";
import { useHalf } from "./terminal-use";

test("in a narrow window, each session opens on the conversation", async () => {
  const root = createRoot(document.body);
  let set: ReturnType<typeof useHalf>[1] = () => undefined;
  function Page({ session }: { session: string | undefined }) {
    const [half, setHalf] = useHalf(session);
    set = setHalf;
    return <p>{`${session} ${half}`}</p>;
  }
  const shows = (text: string) => vi.waitUntil(() => document.body.textContent === text);
  root.render(<Page session="a" />);
  await shows("a right");
  set("left");
  await shows("a left");
  root.render(<Page session="b" />);
  await shows("b right");
  root.render(<Page session={undefined} />);
  await shows("undefined right");
  root.unmount();
});
