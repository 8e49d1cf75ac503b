// @vitest-environment happy-dom
import { createRoot } from "react-dom/client";
import { expect, test, vi } from "vitest";
import { SessionLink } from "../protocol/session-link";
import { SessionStore } from "../state/session-store";
import { UploadDialog } from "./Upload";

test("a file is not uploaded under a name that hides or reorders its characters", async () => {
  const store = new SessionStore("s", new SessionLink("s"));
  const upload = vi.spyOn(store, "upload").mockImplementation(() => undefined);
  const file = new File(["x"], "a\u202etxt.\u200bsh\n");
  createRoot(document.body).render(<UploadDialog store={store} file={file} close={() => undefined} />);
  const submit = await vi.waitUntil(() =>
    document.querySelector<HTMLButtonElement>("[type=submit]:not(:disabled)"),
  );
  expect(document.querySelector("h2")?.textContent).toBe("Upload a\\u{202e}txt.\\u{200b}sh\\n");
  expect(document.querySelector<HTMLInputElement>(".field")?.value).toBe("atxt.sh");
  submit.click();
  await vi.waitUntil(() => upload.mock.calls.length > 0);
  expect(upload).toHaveBeenCalledExactlyOnceWith("atxt.sh", "x");
});
